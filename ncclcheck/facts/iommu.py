"""IOMMUs of machines, by what the kernel says: do they translate what devices send each other?"""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.pci_tree import PciTree, guest_places, pci_trees
from ncclcheck.facts.question import question


class Iommu(NamedTuple):
    """mode: off, passthrough, translated. refused: devices whose access it refused (GPUs, NICs). evidence: of both."""

    place: Place
    mode: str
    refused: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def iommus(facts: Facts) -> tuple[Iommu, ...]:
    """Of machines that are not guests."""
    guests, bare = guest_places(facts), _bare(facts)
    gpus = {(part.place, part.name) for part in of_kind(facts, "gpu")}
    found = []
    refused = {tree.place: _refused(tree, gpus) for tree in pci_trees(facts)}
    modes = {}
    for host in of_kind(facts, "host"):
        mode, enabled = host.value("iommu"), host.value("iommu_enabled")
        if mode:
            modes[host.place] = mode
        elif enabled and host.place in bare:  # in a guest the command line is a wish
            modes[host.place] = enabled._replace(text="translated")
    for place in dict.fromkeys([*modes, *(place for place, devices in refused.items() if devices)]):
        if place in guests:
            continue
        devices = refused.get(place, {})
        lines = (*((modes[place].evidence,) if place in modes else ()), *devices.values())
        found.append(Iommu(place, modes[place].text if place in modes else "", tuple(devices), lines))
    return tuple(found)


def _refused(tree: PciTree, gpus: set[tuple[Place, str]]) -> dict[str, Evidence]:
    """GPUs and NICs of a machine that the IOMMU refused an address. gpus: of all machines."""
    return {
        device.name: device.part.values("dma_fault")[0].evidence
        for device in tree.devices.values()
        if device.part.values("dma_fault") and (device.kind in ("gpu", "nic") or (tree.place, device.name) in gpus)
    }


def _bare(facts: Facts) -> frozenset[Place]:
    """Machines of which a tool says that they are no guests."""
    by_cpu = {part.place for part in of_kind(facts, "host") if part.values("sockets") and not part.values("hypervisor")}
    gpus = of_kind(facts, "gpu")
    return frozenset(by_cpu | {part.place for part in gpus if part.text("virtualization") == "none"})
