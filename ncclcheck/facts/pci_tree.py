"""The PCI tree of a machine, as lspci tells it: devices, the bridges above them, the way between two of them.

Peers below one switch talk through its downstream ports. Devices below different root ports meet in the CPU, whose own
ways no bridge shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, of_kind
from ncclcheck.facts.question import question

# Names of NICs that carry collectives; a link as fast as this (GT/s x lanes) is no management port's.
_COMPUTE_NICS = ("ConnectX", "BlueField", "Elastic Fabric Adapter", "MT2910", "MT28908", "Omni-Path", "Cassini")
_FAST = 8 * 8


class Link(NamedTuple):
    """A link as one end of it tells: GT/s per lane and lanes. None: not told."""

    gts: float | None
    lanes: float | None


class Device(NamedTuple):
    """kind: bridge, gpu, nic, nvswitch or "". now, best: of its link upwards. redirect: does ACS send requests or
    completions of peers upwards? UNKNOWN where lspci may not look (no root), or did not (no -vv)."""

    name: str
    kind: str
    model: str
    now: Link
    best: Link
    redirect: Answer
    part: Part

    def evidence(self, *keys: str) -> tuple[Evidence, ...]:
        """The first lines that tell these keys."""
        found = (self.part.values(key)[:1] for key in keys)
        return tuple(dict.fromkeys(value.evidence for some in found for value in some))

    @property
    def is_named_compute_nic(self) -> bool:
        return self.kind == "nic" and any(name in self.model for name in _COMPUTE_NICS)

    @property
    def is_fast(self) -> bool:
        return (self.best.gts or 0) * (self.best.lanes or 0) >= _FAST


class PciTree(NamedTuple):
    """guest: the machine is a virtual one, and its bridges are not those that carry the traffic."""

    place: Place
    devices: Mapping[str, Device]
    guest: bool

    def above(self, name: str) -> list[Device]:
        """The bridges above a device, from the nearest on."""
        found: list[Device] = []
        while (device := self.devices.get(name)) is not None:
            parent = self.devices.get(device.part.text("parent"))
            if parent is None or parent in found:
                break
            found.append(parent)
            name = parent.name
        return found

    def between(self, a: str, b: str) -> tuple[Device, ...]:
        """The bridges that peer traffic passes below the switch that both devices have; empty: no such switch."""
        here, there = self.above(a), self.above(b)
        shared = {device.name for device in here} & {device.name for device in there}
        if not shared:
            return ()
        return tuple(device for device in (*here, *there) if device.name not in shared)

    @property
    def computing(self) -> tuple[Device, ...]:
        """GPUs, and NICs that may carry collectives: by their name, or fast and below a switch with a GPU."""
        gpus = [device for device in self.devices.values() if device.kind == "gpu"]
        return tuple(
            device
            for device in self.devices.values()
            if device.kind == "gpu"
            or device.is_named_compute_nic
            or (device.kind == "nic" and device.is_fast and any(self.between(device.name, gpu.name) for gpu in gpus))
        )


class PeerPath(NamedTuple):
    """Two GPUs, or a GPU and a NIC, below one switch, and the bridges between."""

    a: Device
    b: Device
    bridges: tuple[Device, ...]


def peer_paths(tree: PciTree) -> Iterator[PeerPath]:
    behind_bridges = [device for device in tree.computing if tree.above(device.name)]
    for a, b in combinations(behind_bridges, 2):
        if "gpu" in (a.kind, b.kind) and (bridges := tree.between(a.name, b.name)):
            yield PeerPath(a, b, bridges)


@question
def pci_trees(facts: Facts) -> tuple[PciTree, ...]:
    """The trees of all machines that any tool tells of; their GPUs are told by nvidia-smi as well."""
    gpus = {(part.place, part.name) for part in of_kind(facts, "gpu")}
    guests = guest_places(facts)
    devices: dict[Place, dict[str, Device]] = {}
    for part in of_kind(facts, "pci"):
        kind = part.text("class") or ("gpu" if (part.place, part.name) in gpus else "")
        devices.setdefault(part.place, {})[part.name] = _device(part, kind)
    return tuple(PciTree(place, found, place in guests) for place, found in devices.items())


@question
def guest_places(facts: Facts) -> frozenset[Place]:
    """Virtual machines, of the places that outputs come from; all of them where the job's own log shows a guest."""
    hosts = {part.place for part in of_kind(facts, "host") if part.values("hypervisor")}
    virtual = {
        part.place
        for part in of_kind(facts, "gpu")
        if any(value.text in ("pass-through", "vgpu") for value in part.values("virtualization"))
    }
    # a GPU is device 0 behind a port of its own: only an emulated bus holds it elsewhere
    odd = {
        part.place
        for part in of_kind(facts, "pci")
        if part.text("class") == "gpu" and (":00:" in part.name or not part.name.endswith(":00.0"))
    }
    everywhere = {part.place for thing in ("host", "gpu", "pci", "port") for part in of_kind(facts, thing)}
    return frozenset(everywhere if facts.guest_signs else hosts | virtual | odd)


def _device(part: Part, kind: str) -> Device:
    now = Link(part.number("gts"), part.number("lanes"))
    told = part.text("redirect")
    # where the link is shown, a bridge that shows no ACS has none
    redirect = Answer.YES if told == "yes" else Answer.NO if told or now.lanes is not None else Answer.UNKNOWN
    best = Link(part.number("gts_max"), part.number("lanes_max"))
    return Device(part.name, kind, part.text("model"), now, best, redirect, part)
