"""What the names of NCCL's networks mean."""

from __future__ import annotations

import re

# (pattern on the name NCCL prints, kind). Kinds: ib, efa, tcpx, tcpxo, socket, other.
_KINDS = [
    (re.compile(r"^(?:Fast)?Socket", re.I), "socket"),
    (re.compile(r"^FasTrak", re.I), "tcpxo"),
    (re.compile(r"TCPX", re.I), "tcpx"),
    (re.compile(r"Libfabric|^OFI", re.I), "efa"),
    (re.compile(r"^IB|RDMA|^UCX|^gIB", re.I), "ib"),
]

RDMA = frozenset({"ib", "efa"})


def kind(network: str) -> str:
    """The kind of network behind a name such as `IB`, `IBext_v8`, `AWS Libfabric`, `FasTrak` or `Socket`."""
    for pattern, found in _KINDS:
        if pattern.search(network):
            return found
    return "other"
