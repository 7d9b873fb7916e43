"""What is known of environment variables: who reads them, in which releases, which values they take.

The table is `variables.tsv` beside this module (`tools/make_variables.py` writes it), loaded when a rule first asks.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Everything that begins like this is a plugin's or a tool's own.
FAMILIES = (
    "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_SHIMNET_", "NCCL_INSPECTOR_", "NCCL_UCX_", "NCCL_TESTS_", "NCCL_EP_",
    "NCCL_CHECKPOINT_", "NCCL_GIB_",
)  # fmt: skip

# Where ranks need not agree: the choice of devices and interfaces, what is printed, who a host is.
_PER_HOST = (
    "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_HOSTID", "NCCL_COMM_ID",
    "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP", "NCCL_GRAPH_DUMP", "NCCL_CONF_FILE", "NCCL_PROXY_CPUSET", "NCCL_IBVERBS_LIB",
)  # fmt: skip
# Where they must: what decides which algorithm, protocol, transport and channel both ends take.
_OF_THE_JOB = frozenset(
    (
        "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_NTHREADS",
        "NCCL_LL128_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
        "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_CROSS_NIC",
        "NCCL_NET", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL",
        "NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL",
        "NCCL_COLLNET_ENABLE", "NCCL_GRAPH_FILE", "NCCL_CHUNK_SIZE", "NCCL_P2P_NET_CHUNKSIZE",
        "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE", "NCCL_THREAD_THRESHOLDS",
    )
)  # fmt: skip


class Variable(NamedTuple):
    """One variable.

    reader: who reads it ("NCCL", "PyTorch", "aws-ofi-nccl", ...), "" for nobody. since, until: first and last release
    of NCCL that reads it, as codes (0, None: open). gone: the last release of another reader. kind: bool, int, bytes,
    enum, level, list, path, string, address, float. allowed: literals and ranges; empty: any. status: "", "typo"
    (a misspelling often seen), "never" (looks like one, no release reads it), "script" (of build and job scripts),
    "renamed" or "deprecated". real: the name to use instead, "" where there is none.
    """

    name: str
    reader: str
    since: int
    until: int | None
    gone: str
    kind: str
    allowed: tuple[str, ...]
    defaults: tuple[tuple[str, int, int | None], ...]
    status: str
    real: str

    def default(self, release: int | None) -> str | None:
        """The value that NCCL takes when it is unset ("" for its own choice); None where it is not known."""
        values = {
            value
            for value, since, until in self.defaults
            if release is None or (since <= release and (until is None or release <= until))
        }
        return values.pop() if len(values) == 1 else None

    def read_by(self, release: int) -> bool:
        """Does this release of NCCL read it? True for variables of others."""
        return self.reader != "NCCL" or (self.since <= release and (self.until is None or release <= self.until))

    def allows(self, value: str) -> bool:
        """Is the value in the closed set, where there is one? Defaults of any release are."""
        if not self.allowed or value in self.allowed or any(value == default for default, _, _ in self.defaults):
            return True
        if self.kind != "level" and value.upper() in (word.upper() for word in self.allowed):
            return True
        try:
            number = int(value, 0)
        except ValueError:
            return False
        return any(_within(number, part) for part in self.allowed)


def _within(number: int, part: str) -> bool:
    low, dots, high = part.partition("..")
    if not dots:
        return part.lstrip("-").isdigit() and int(part) == number
    return int(low) <= number and (not high or number <= int(high))


@cache
def variables() -> Mapping[str, Variable]:
    """All variables that are known, by name."""
    with Path(__file__).with_suffix(".tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return {row[0]: _variable(*row) for row in rows}


def _variable(
    name: str, reader: str, since: str, until: str, kind: str, allowed: str, default: str, status: str, real: str
) -> Variable:
    last = int(until) if until.isdigit() else None
    values = tuple(allowed.split("|")) if allowed else ()
    defaults = tuple(_default(part) for part in default.split("|")) if default else ()
    gone = "" if until.isdigit() else until
    return Variable(name, reader, int(since or 0), last, gone, kind, values, defaults, status, real)


def _default(text: str) -> tuple[str, int, int | None]:
    value, _, releases = text.rpartition("@")
    since, _, until = releases.partition("-")
    return value, int(since or 0), int(until) if until else None


def known(name: str) -> bool:
    """Does anybody read this name, or is it a name of scripts?"""
    variable = variables().get(name)
    if variable is not None:
        return variable.status not in ("typo", "never")
    return name.startswith(FAMILIES)


def meant(name: str) -> str | None:
    """The real name that an unknown one most likely stands for."""
    variable = variables().get(name)
    if variable is not None:
        return variable.real or None
    real = [row.name for row in variables().values() if row.reader]
    words = sorted(_words(name))
    for other in real:
        if sorted(_words(other)) == words or _words(other) == _turned(_words(name)):
            return other
    longer = [other for other in real if len(words) > 2 and _shortened(name, other)]
    if len(longer) == 1:
        return longer[0]
    plain = name.replace("_", "")
    most = 0 if len(plain) < 8 else 1 if len(plain) < 13 else 2
    ranked = sorted((_distance(plain, other.replace("_", ""), most), other) for other in real)
    return ranked[0][1] if ranked[0][0] <= most else None


def _shortened(name: str, real: str) -> bool:
    """NCCL_GDR_LEVEL for NCCL_NET_GDR_LEVEL, NCCL_IB_GID_IDX for nothing."""
    words, whole = _words(name), _words(real)
    if variables()[real].until is not None or len(whole) - len(words) not in (0, 1):
        return False
    return real.startswith(name) or (len(whole) > len(words) and all(word in whole for word in words))


def _words(name: str) -> list[str]:
    return name.split("_")


def _turned(words: list[str]) -> list[str]:
    """NCCL_NVLS_DISABLE -> NCCL_NVLS_ENABLE, and the other way round."""
    other = {"DISABLE": "ENABLE", "ENABLE": "DISABLE", "DISABLED": "ENABLE", "ENABLED": "DISABLE"}
    return [other.get(word, word) for word in words]


def _distance(a: str, b: str, most: int) -> int:
    """Letters to add, drop, replace or swap with the neighbour; `most` + 1 for anything farther."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        two, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, two[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def agreement(name: str) -> str:
    """ "job": all ranks must have one value. "host": each host may have its own. "": a difference says nothing."""
    if name in _OF_THE_JOB:
        return "job"
    return "host" if name.startswith(_PER_HOST) else ""


# ---------------------------------------------------------------------------------------- NCCL_ALGO and NCCL_PROTO

# Algorithms with the first and the last release that knows the name.
_ALGORITHMS = {
    "Tree": (20506, None), "Ring": (20506, None), "CollNet": (20506, 21304), "CollNetDirect": (21403, None),
    "CollNetChain": (21403, None), "NVLS": (21701, None), "NVLSTree": (21801, None), "PAT": (22304, None),
}  # fmt: skip
_PROTOCOLS = {"LL": (20506, None), "LL128": (20506, None), "Simple": (20506, None)}
_FUNCTIONS = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce", "sendrecv", "send", "recv")
STRICT_LISTS_FROM = 22403  # a name that is not known makes init fail; before, it was left out without a word


class Choice(NamedTuple):
    """NCCL_ALGO or NCCL_PROTO, read as NCCL does.

    taken: names that stay allowed (of AllReduce, where functions have their own). left_out: names that the value
    excludes. unknown: items that no release knows, and from 2.24 on, where they make init fail, those that this one
    does not know. empty: empty items. functions: functions that do not exist.
    """

    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
    empty: int
    functions: tuple[str, ...]


def choice(name: str, value: str, release: int | None) -> Choice:
    """`Ring,Tree`, `^NVLS`; from 2.24 on also `allreduce:tree;broadcast:ring`. With the release unknown a name counts
    as left out only if today's releases have it."""
    every = _ALGORITHMS if name == "NCCL_ALGO" else _PROTOCOLS
    here = [
        item for item, (since, until) in every.items()
        if release is None or (since <= release and (until is None or release <= until))
    ]  # fmt: skip
    taken = set(here)
    unknown: list[str] = []
    functions: list[str] = []
    empty = 0
    strict = release is not None and release >= STRICT_LISTS_FROM
    anywhere = {one.lower() for one in every}
    parts = value.strip().strip(";").split(";") if release is None or release >= STRICT_LISTS_FROM else [value.strip()]
    for part in parts:
        function, colon, items = part.rpartition(":")
        if colon and function.strip().lower() not in _FUNCTIONS:
            functions.append(function.strip())
        exclude = items.startswith("^")
        names = items.removeprefix("^").split(",")
        empty += sum(not one.strip() for one in names)
        known_here = {one.lower(): one for one in here}
        found = {known_here[one.lower()] for one in names if one.lower() in known_here}
        unknown += [one for one in names if one.strip() and one.lower() not in (known_here if strict else anywhere)]
        if not colon or function.strip().lower() == "allreduce":
            taken = set(here) - found if exclude else found
    left_out = [one for one in here if one not in taken and (release is not None or every[one][1] is None)]
    return Choice(tuple(one for one in here if one in taken), tuple(left_out), tuple(unknown), empty, tuple(functions))


# -------------------------------------------------------------------------------------- lists of devices and interfaces

# Variables whose value lists name prefixes, `=` for whole names and `^` for what to leave out, once and in front.
DEVICE_LISTS = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
SUBSYSTEMS = frozenset(
    (
        "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS",
        "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
    )
)  # fmt: skip
LOG_LEVELS = frozenset(("VERSION", "WARN", "INFO", "ABORT", "TRACE"))


class DeviceList(NamedTuple):
    """A list such as `^=mlx5_1,mlx5_2`. exact, excluded: `=` or `^` in front. names: without their ports."""

    exact: bool
    excluded: bool
    names: tuple[str, ...]


def device_list(value: str) -> DeviceList:
    text = value.strip()
    excluded = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    items = text.removeprefix("=").split(",")
    return DeviceList(exact, excluded, tuple(item.partition(":")[0] for item in items if item))
