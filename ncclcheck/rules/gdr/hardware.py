"""Hardware that has no GPUDirect RDMA, and edges that go without it, as the rules of this family need them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.rules.common import rides_on_tcp

if TYPE_CHECKING:
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import EdgeGroup

_WITHOUT_GDR = re.compile(r"\b(?:GeForce|GTX|TITAN)\b|\bRTX \d0\d0\b", re.I)


def cards_without_gdr(facts: Facts) -> list[str]:
    """Names of GPUs that are sold without GPUDirect RDMA."""
    return [name for name in facts.gpu_names if _WITHOUT_GDR.search(name)]


def omni_path(facts: Facts) -> bool:
    """Are all devices Omni-Path, which does not read GPU memory over verbs?"""
    devices = [nic.name for nics in facts.nic_lists.values() for nic in nics]
    return bool(devices) and all(name.startswith("hfi1") for name in devices)


def staged_edges(facts: Facts) -> list[EdgeGroup]:
    """Edges between machines on RDMA that go through host memory."""
    return [
        edge
        for edge in facts.net_edges()
        if not edge.gdr and networks.kind(edge.network) in networks.RDMA and not rides_on_tcp(facts, edge.network)
    ]
