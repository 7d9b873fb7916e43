"""A table of configurations, as people write them down beside nccl-tests results, for the model.

The columns are `COLUMNS` (docs/estimate.md says what they hold), tab-separated, "NA" or empty where unknown. `NEEDED`
must be there; others may be missing. condition: none, or one or more of the words of `CONDITIONS` and `FORCED` with a
comma between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ncclcheck.estimate.candidates import NVLS_SINCE
from ncclcheck.estimate.config import Config
from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.model import Model, Plateau
from ncclcheck.estimate.options import NIC_GBIT
from ncclcheck.estimate.questions.changes import WITH, WITHOUT, Change, apply
from ncclcheck.estimate.questions.job import ALGORITHMS, COLLECTIVES, TRANSPORTS, chosen
from ncclcheck.estimate.questions.racks import in_racks
from ncclcheck.estimate.ranges import spread

NEEDED = ("id", "nodes", "gpus_per_node")
COLUMNS = (
    *NEEDED, "collective", "gpu_model", "intra_node_link", "nvlinks_per_gpu", "pcie_gen", "nics_per_node", "nic_gbps",
    "transport", "gdr", "algo", "condition", "nccl_version", "size_bytes",
)  # fmt: skip
ALIASES = {"gpu": "gpu_model", "nics": "nics_per_node", "intra": "intra_node_link", "bytes": "size_bytes"}
"""Flags' words for columns."""
LARGE_BYTES = 8 << 30

_LINKED = re.compile(r"nvlink|nvswitch|^nv\d+", re.I)
_PATHS = (  # the first that fits
    (re.compile(r"nvlink.*(shm|host)", re.I), "mixed"),
    (re.compile(r"nvlink.*pcie", re.I), "pcie-switch"),
    (_LINKED, "nvlink"),
    (re.compile(r"shm|host", re.I), "shm"),
    (re.compile(r"switch|pix|pxb", re.I), "pcie-switch"),
    (re.compile(r"pcie|phb|node|sys", re.I), "pcie-cpu"),
)
_BOUNDS = {"nvlinks_per_gpu": (1, 128), "nics_per_node": (1, 4096), "nic_gbps": NIC_GBIT, "size_bytes": (1, 2**50)}

CONDITIONS: Mapping[str, tuple[Change, ...]] = {
    **dict.fromkeys(("none", "default", "healthy"), ()),
    **{f"{what}_off": (WITHOUT[what],) for what in ("gdr", "nvls", "p2p")},
    **{what.replace("-", "_"): (change,) for what, change in WITH.items()},
    "tcp_default": (WITH["sockets"],),
    "tcp_tuned": (WITH["sockets"], WITH["tuned-sockets"]),
    "mtu": (WITH["roce-mtu"],),
}
"""What a condition takes from the job or puts upon it."""

FORCED: Mapping[str, Mapping[str, Any]] = {
    "proto_ll": {"protocol": "ll"},
    "proto_ll128": {"protocol": "ll128"},
    "algo_ring": {"algorithm": "ring"},
    "algo_tree": {"algorithm": "tree"},
    "numa": {"effect": "cpu"},
}
"""Conditions that are fields of the configuration."""


@dataclass(slots=True)
class Row:
    """A row of the table, understood. unknown: fields of config that it does not tell and the network needs.

    notes: what had to be assumed or was not understood.
    """

    config: Config
    size: int
    unknown: frozenset[str]
    notes: list[str] = field(default_factory=list)


def answer(row: Mapping[str, str], model: Model) -> tuple[Plateau, list[str]]:
    """Bus bandwidth at the row's size, and what had to be assumed.

    Raises ValueError (NotModelledError among them) with a sentence where there is no number.
    """
    understood = read_row(row, model.table)
    found = [model.at(config, understood.size) for config in _with_nics(understood, model.table)]
    busbw = spread([one.busbw for one in found])
    middle = min(found, key=lambda one: abs(one.busbw.expected - busbw.expected))
    return replace(middle, busbw=busbw), understood.notes


def _with_nics(row: Row, table: Hardware) -> list[Config]:
    """The configuration; where NICs or their rate are not told, one for each that is usual."""
    config, counts, rates = row.config, [row.config.nics], [row.config.nic_gbit]
    if config.network not in table.networks or not row.unknown:
        return [config]
    network = table.networks[config.network]
    if "nics" in row.unknown:
        counts = [network.nics or max(1, round(config.gpus_per_node * share)) for share in table.assumed.nics_per_gpu]
    if "nic_gbit" in row.unknown:
        rates = [*network.rates_gbit]
    row.notes.append(f"NICs: taken as {_either(sorted(set(counts)))} per node at {_either(rates)} Gb/s")
    return [replace(config, nics=nics, nic_gbit=rate) for nics in dict.fromkeys(counts) for rate in rates]


def _either(values: Sequence[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)


def read_row(row: Mapping[str, str], table: Hardware) -> Row:
    """Raises ValueError with a sentence that names the column."""
    notes: list[str] = []
    nodes, per_node = _count(row, "nodes"), _count(row, "gpus_per_node")
    pcie_gen = _optional(row, "pcie_gen")
    gpu = _gpu(row, table, None if pcie_gen is None else round(pcie_gen), notes)
    transport = _text(row, "transport").casefold()
    nics, release = round(_optional(row, "nics_per_node") or 0), _release(row)
    if "mnnvl" in transport:
        nodes, per_node, nics = in_racks(nodes, per_node, nics, table)
    config = Config(
        nodes,
        per_node,
        gpu.name,
        intra=_intra(row, gpu, per_node),
        network=_network(transport, notes) if nodes > 1 else "",
        nics=nics,
        nic_gbit=_optional(row, "nic_gbps") or 0.0,
        gdr=_gdr(row, gpu),
        nvls=release is None or release >= NVLS_SINCE,
        nvlinks=_nvlinks(row, gpu),
        pcie_gen=gpu.pcie_gen if pcie_gen is None else round(pcie_gen),
        sharp="sharp" in transport,
        algorithm=ALGORITHMS.get(_text(row, "algo").casefold(), ""),
        collective=_collective(row),
    )
    words = _conditions(row)
    for word in words:
        if word in FORCED:
            config = replace(config, **FORCED[word])
        elif word not in CONDITIONS:
            notes.append(f"condition {word[:40]!r} is not modelled")
    (config,) = apply([change for word in words for change in CONDITIONS.get(word, ())], config, table)
    if config.network == "socket":
        config = replace(config, tcp_gbit=config.nic_gbit or None, gdr=False)
    if config.collective != "all_reduce":
        config = replace(config, algorithm="pat" if config.algorithm == "pat" else "")
    size = _optional(row, "size_bytes")
    cells = {"nics": "nics_per_node", "nic_gbit": "nic_gbps"}
    unknown = frozenset(name for name, column in cells.items() if not _text(row, column))
    return Row(config, LARGE_BYTES if size is None else max(1, round(size)), unknown, notes)


def _text(row: Mapping[str, str], column: str) -> str:
    value = (row.get(column) or "").strip()
    return "" if value.casefold() in ("na", "n/a", "none", "-", "?") else value


def _optional(row: Mapping[str, str], column: str) -> float | None:
    """A number, 0 for none of them, or None where the cell is empty."""
    text = _text(row, column)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    low, high = _BOUNDS.get(column, (0, 1e6))
    if not (value == 0 or low <= value <= high):
        raise ValueError(f"{column}: {text[:40]!r} is not a number that makes sense")
    return value


def _count(row: Mapping[str, str], column: str) -> int:
    value = _optional(row, column)
    if value is None or value != round(value) or not 1 <= value <= 1_000_000:
        raise ValueError(f"{column}: {_text(row, column)[:40]!r} is not a count")
    return round(value)


def _gpu(row: Mapping[str, str], table: Hardware, pcie_gen: int | None, notes: list[str]) -> Gpu:
    """The class that is named; where none is known, the usual one of the PCIe generation, with a note."""
    named = _text(row, "gpu_model")
    without_nvlink = _LINKED.search(_text(row, "intra_node_link")) is None
    for part in [named, *reversed(re.split(r"[/,]", named))]:
        classes = table.classes_of_name(part.strip(" ?"))
        if not classes:
            continue
        if (
            without_nvlink
            and f"{part.strip(' ?')} PCIe" in table.gpus
            and "pcie" in _text(row, "intra_node_link").casefold()
        ):
            return table.gpus[f"{part.strip(' ?')} PCIe"]
        return table.gpus[classes[0]]
    assumed = [table.gpus[name] for name in table.assumed.gpus]
    usual = next((gpu for gpu in (*assumed, *table.gpus.values()) if gpu.pcie_gen == (pcie_gen or 5)), assumed[-1])
    notes.append(f"GPU {named[:40] or 'not given'}: taken as {usual.name}")
    return usual


def _intra(row: Mapping[str, str], gpu: Gpu, per_node: int) -> str:
    link = _text(row, "intra_node_link")
    found = next((path for pattern, path in _PATHS if pattern.search(link)), "")
    usual = (
        "nvlink" if gpu.nvlink is not None and not (gpu.bridged and per_node > 2) else "pcie-cpu" if gpu.p2p else "shm"
    )
    if per_node == 1 or not found or (found == "nvlink" and gpu.nvlink is None):
        return usual
    return found


def _gdr(row: Mapping[str, str], gpu: Gpu) -> bool:
    """As the row says; else wherever the driver gives NICs access to the GPU's memory."""
    said = _text(row, "gdr").casefold()
    return said not in ("no", "off", "0", "false") if said else gpu.p2p


def _nvlinks(row: Mapping[str, str], gpu: Gpu) -> int | None:
    links = _optional(row, "nvlinks_per_gpu")
    return round(links) if links and gpu.nvlink is not None else None


def _network(transport: str, notes: list[str]) -> str:
    words = re.findall(r"[a-z]+", transport.removeprefix("mnnvl"))
    found = next((TRANSPORTS[word] for word in words if word in TRANSPORTS), "")
    if not found:
        notes.append(f"transport {transport[:40] or 'not given'}: taken as InfiniBand-class")
    return found or "other"


def _release(row: Mapping[str, str]) -> tuple[int, ...] | None:
    numbers = re.match(r"(\d+)\.(\d+)", _text(row, "nccl_version"))
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _collective(row: Mapping[str, str]) -> str:
    try:
        return chosen(_text(row, "collective")[:40] or "all_reduce", COLLECTIVES)
    except ValueError as error:
        raise ValueError(f"collective: {error}") from None


def _conditions(row: Mapping[str, str]) -> list[str]:
    return [word for word in re.split(r"[\s,;+]+", _text(row, "condition").casefold()) if word]
