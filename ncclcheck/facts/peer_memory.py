"""Can a NIC's driver reach GPU memory through the peer memory module, by lsmod and the kernel's log?"""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.parts import Part, of_kind
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

_MODULES = ("nvidia_peermem", "nv_peer_mem")
# Modules without which a machine has no RDMA to give GPU memory to.
_RDMA = ("ib_core", "ib_uverbs", "mlx5_ib", "mlx4_ib", "efa", "irdma", "bnxt_re")


class NoPeerMemory(NamedTuple):
    """Machines with RDMA and a GPU driver whose peer memory module is not loaded. refused: the kernel would not take it
    for want of this symbol; "": nobody asked. dmabuf: the driver's modules are the open ones, which can do without
    (True), the proprietary ones, which cannot (False), or nothing tells (None)."""

    machines: tuple[str, ...]
    refused: str
    dmabuf: bool | None
    evidence: tuple[Evidence, ...]


@question
def without_peer_memory(facts: Printed) -> NoPeerMemory | None:
    modules: dict[object, dict[str, Part]] = {}
    for part in of_kind(facts, "module"):
        modules.setdefault(part.place, {})[part.name] = part
    lacking = {place: lines for place, found in modules.items() if (lines := _lacks(found))}
    if not lacking:
        return None
    refused = [
        value.text
        for place in lacking
        for name in _MODULES
        if name in modules[place]
        for value in modules[place][name].values("missing_symbol")
    ]
    flavours = {part.text("driver_flavour") for part in of_kind(facts, "host") if part.place in lacking} - {""}
    return NoPeerMemory(
        tuple(sorted({part.machine for part in of_kind(facts, "module") if part.place in lacking and part.machine})),
        refused[0] if refused else "",
        flavours == {"open"} if len(flavours) == 1 else None,
        tuple(line for lines in lacking.values() for line in lines)[:MAX_EVIDENCE],
    )


def _lacks(modules: dict[str, Part]) -> tuple[Evidence, ...]:
    """The lines that say so of one machine; none where it may be loaded, or there is no RDMA."""
    peers = [modules[name] for name in _MODULES if name in modules]
    if any(value.text == "yes" for part in peers for value in part.values("loaded")):
        return ()
    refused = [value.evidence for part in peers for value in part.values("missing_symbol")]
    absent = [part.values("loaded")[0].evidence for part in peers if part.values("loaded")]
    rdma = any(value.text == "yes" for name in _RDMA if name in modules for value in modules[name].values("loaded"))
    if refused or (len(absent) == len(_MODULES) and rdma):
        return tuple(dict.fromkeys([*refused, *absent]))
    return ()
