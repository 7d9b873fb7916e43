"""Hypothesis strategies: messages of every event with other numbers, lists, names; and such messages damaged."""

from __future__ import annotations

import re

from hypothesis import strategies as st
from line_samples import SAMPLES

from ncclcheck.readers.grammar_files import grammar_text

# A release begins with a digit, so the first part of it stays.
_DEFINITIONS = re.findall(r"^([A-Z_]+): /(.+)/$", grammar_text("slots.lark"), re.M)
_SLOT = re.compile("(?<!CCL version )(?:" + "|".join(f"(?P<{name}>{body})" for name, body in _DEFINITIONS) + ")")

_digits = st.integers(0, 12).map(str)
_numbers = st.one_of(
    _digits,
    st.integers(0, 2**63).map(str),
    st.integers(-1234567, -1).map(str),
    st.integers(0, 99).map("{:02d}".format),
    st.integers(0x1A000, 2**64).map("{:x}".format).filter(lambda text: re.search("[0-9]", text)),
    st.integers(10, 2**20).map("{:X}0".format),
    st.floats(0, 5000, allow_nan=False).map("{:.6f}".format),
    st.sampled_from(["0", "1", "007", "2.4", "12.5000", "a0", "-0"]),
)
_pointers = st.one_of(st.integers(0, 2**64).map("0x{:x}".format), st.sampled_from(["0x0", "0xXXXX", "0x..."]))
_hosts = st.sampled_from(["10.9.8.7", "fe80::1ff:fe23:4567:890a%eth2", "n17", "db-3.lab.example", "::ffff:10.0.0.9"])
_ports = st.integers(0, 65535).map(str)
_addresses = st.builds("{}<{}>".format, _hosts, _ports)
_interfaces = st.builds("{}:{}<{}>".format, st.sampled_from(["eth0", "ib3", "enp1s0f0np0", "bond0.12"]), _hosts, _ports)
_devices = st.sampled_from(
    [
        "mlx5_0:1/IB",
        "rocep8s0:1/RoCE",
        "mlx5_bond_2:2/RoCE",
        "ib7:1:3:0/IB",
        "ib7:1::1/RoCE",
        "={[0] x:1/IB, [1] y:1/IB}",
    ]
)
_rank = st.integers(-1, 40).map(str)
_downs = st.lists(_rank, min_size=1, max_size=3).map("/".join)
_trees = st.one_of(
    st.builds("{}->{}->{}".format, _downs, _rank, _rank),
    st.builds("{}->{}->{}".format, _rank, _rank, _downs),
    st.builds("{}->{}->{}|{}->{}->{}".format, _downs, _rank, _rank, _rank, _rank, _downs),
)
_nvls_trees = st.builds("{}/{}->{}->{}".format, _rank, _downs, _rank, _rank)
_kinds = st.sampled_from(["GPU", "NET", "NVS"])
_ids = st.one_of(_digits, st.sampled_from(["1B000", "0-1b000", "1-ff", "A"]))
_nodes = st.builds("{}/{}".format, _kinds, _ids)
_paths = st.builds("{} ({}/{}/{})".format, _nodes, _digits, st.sampled_from(["5000.0", "12.000000", "3"]),
                   st.sampled_from(["LOC", "PIX", "NVB", "P2C", "4"]))  # fmt: skip


def _joined(items: st.SearchStrategy[str], start: str = "", least: int = 1) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=least, max_size=4).map(lambda parts: start + " ".join(parts))


def _numbered(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """`0]first [1]second`: the bracket before the first stands in the message."""
    return st.lists(items, min_size=1, max_size=4).map(
        lambda parts: " ".join(f"[{index}]{part}" for index, part in enumerate(parts))[1:]
    )


_SLOT_VALUES: dict[str, st.SearchStrategy[str]] = {
    "TREE_LIST": _numbered(_trees.map(" {}".format)),
    "NVLS_TREE_LIST": _joined(_nvls_trees),
    "HCA_LIST": _numbered(_devices),
    "IF_LIST": _numbered(_interfaces),
    "PATH_LIST": _joined(_paths, start=":"),
    "NODE_LIST": _joined(_nodes, least=2),
    "NODE": st.builds("{}/{}".format, st.sampled_from(["GPU", "NET", "CPU", "PCI", "NVS", "NIC", "DEV"]), _ids),
    "SHM_PATH": st.sampled_from(["/dev/shm/nccl-a1B2c3", "/dev/shm/nccl-0"]),
    "OPCOUNT": st.integers(0, 2**40).map("opCount {:x}".format),
    "ADDR": st.one_of(_addresses, _interfaces),
    "RANK_LIST": st.builds("".join, st.lists(st.integers(0, 200).map(" {:>3}".format), min_size=1, max_size=5)).flatmap(
        lambda ranks: st.sampled_from([ranks, ranks + " ..."])
    ),
    "POINTER": _pointers,
    "NUMBER": _numbers,
}

# Names that differ from site to site, and what may stand in their place.
_NAMES: dict[str, list[str]] = {
    r"AWS Libfabric|FasTrak|IBext_v\d|\bSocket(?=/)|\bSHARP\b": [
        "AWS Libfabric",
        "IB",
        "Socket",
        "FasTrak2",
        "OCI-RDMA 1",
    ],
    r"\bNCCL_[A-Z0-9_]+\b": ["NCCL_IB_HCA", "NCCL_NET", "NCCL_P2P_LEVEL", "NCCL_8BIT"],
    r"\b(?:mlx5|bnxt)_\w+": ["mlx5_0", "mlx5_17", "rocep12s0f1", "ib-4", "mlx5_bond_0"],
    r"\blibnccl-\w+(?:-\w+)?\.so\b": ["libnccl-net.so", "libnccl-net_v2.so.0", "/opt/x 1/lib.so"],
    r"\b(?:Connection|Permission|Operation|No) [a-z ]+": ["Broken pipe", "Protocol error 0x7", "Can't assign address"],
}
_JUNK = st.one_of(
    st.sampled_from([" ", "  ", "[", "]", "->", ":", "/", "<0>", "[3]", "0x", "GPU/1", " via ", ".", "(", ")", "1", "-",
                     "a", "\t", "é", "日本", "\\xff", "\x1b", "\x00", " rank 3", "%", "|", ", ", "NCCL", "INFO"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6),
)  # fmt: skip


# Words of NCCL's own that look like a number.
_WORDS = frozenset(["C2C"])
_NAME = re.compile("|".join(f"(?P<name{index}>{pattern})" for index, pattern in enumerate(_NAMES)))
_NAME_VALUES = {f"name{index}": st.sampled_from(values) for index, values in enumerate(_NAMES.values())}
_VALUES = {**_NAME_VALUES, **_SLOT_VALUES}


@st.composite
def messages(draw: st.DrawFn) -> str:
    """A message of some event, with other values in it."""
    message = draw(st.sampled_from(SAMPLES)).message

    def other(found: re.Match[str]) -> str:
        values = _VALUES[found.lastgroup or ""]
        return found[0] if found[0] in _WORDS else draw(values)

    for pattern in (_NAME, _SLOT):
        if draw(st.integers(0, 3)):
            message = pattern.sub(other, message)
    return message


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A message cut, with text put in, with a part lost, or with the end of another."""
    message = draw(messages())
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(message)))
        kind = draw(st.sampled_from(["cut", "put", "lose", "other"]))
        if kind == "cut":
            message = message[:at]
        elif kind == "put":
            message = message[:at] + draw(_JUNK) + message[at:]
        elif kind == "lose":
            message = message[:at] + message[at + draw(st.integers(1, 8)) :]
        else:
            other = draw(st.sampled_from(SAMPLES)).message
            message = message[:at] + other[draw(st.integers(0, len(other))) :]
    return message
