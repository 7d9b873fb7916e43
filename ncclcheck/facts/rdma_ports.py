"""RDMA ports of machines as tools tell of them, and which of them are the job's rails.

A port is a rail if edges of the job run over it, if NCCL_IB_HCA asks for it by name, or if a matrix shows it beside a
GPU. Where nothing of that is in the input, ports of one adapter type and link layer of a machine are siblings: they can
be compared, if they are as many as a machine has rails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.filters import hca_filters
from ncclcheck.facts.hcas import Listing, near_devices, used_devices, whole_machines
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, Value, of_kind
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# How a rail is known.
CARRIES, NAMED, NEAR = "carries traffic of the job", "named in NCCL_IB_HCA", "near a GPU"
EFA = "EFA"
# Rails of a machine, where its GPUs are not counted.
_RAILS = (4, 8, 16)
# ConnectX-7 bridges that manage the NVSwitches of B200 and B300 boards are InfiniBand ports of this type and rate.
_MANAGER, _MANAGER_GBIT = "MT4129", 100
# Losses of a carrier that are no restart.
_FLAPS = 3
# What a RoCE port makes of Ethernet's usual 1500 bytes, and what it can do.
_SMALL_MTU, _FULL_MTU = 1024, 4096


class Port(NamedTuple):
    """A port by its latest readings. name: device and port ("mlx5_0/1").

    state, physical, layer: as `telemetry_keys` words them, "" unknown. gbit: Gb/s of an active port, else 0 (one that
    is down shows a default). mtu, mtu_max: bytes, 0 unknown. rail: how it is known to be one of the job's, "" if it is
    not. idle: the job's edges are all known and none is on it. lines: where the values stand, by key.
    """

    place: Place
    name: str
    state: str
    physical: str
    gbit: float
    layer: str
    adapter: str
    mtu: float
    mtu_max: float
    netdev: str
    rail: str
    idle: bool
    lines: tuple[tuple[str, Evidence], ...]

    @property
    def machine(self) -> str:
        return self.place.machine

    @property
    def device(self) -> str:
        """As NCCL names it."""
        return nccl_name(self.name)

    @property
    def is_other(self) -> bool:
        """Made for something else than to be one of several equal rails: EFA, bonds, managers of NVSwitches."""
        managing = self.adapter == _MANAGER and self.layer == "infiniband" and self.gbit == _MANAGER_GBIT
        return self.adapter == EFA or "bond" in self.name + self.netdev or (managing and not self.rail)

    def evidence(self, *keys: str) -> tuple[Evidence, ...]:
        lines = dict(self.lines)
        return tuple(lines[key] for key in keys if key in lines)


class Odd(NamedTuple):
    """Ports that differ from their like. usual: one of those that they should be like. sure: they are rails.
    others: how many of their like on one machine are as they should be."""

    ports: tuple[Port, ...]
    usual: Port
    sure: bool
    others: int = 0


@question
def ports(facts: Traffic) -> tuple[Port, ...]:
    """Ports of the job's machines (of all machines, where none of the job is known), in the order of the input."""
    found = [_port(facts, part) for part in of_kind(facts, "port")]
    ours = {*facts.machines, ""}
    return tuple(port for port in found if port.machine in ours or not facts.machines)


def _port(facts: Traffic, part: Part) -> Port:
    last = {key: part.values(key)[-1] for reading in part.readings for key in reading}
    state, netdev = _text(last, "state"), _text(last, "netdev")
    rail, idle = use_of(facts, part.place, part.name)
    return Port(
        part.place, part.name, state, _text(last, "physical"),
        _number(last, "rate_gbit") if state in ("active", "") else 0.0,
        _text(last, "link_layer") or _layer_of(netdev), _text(last, "adapter"),
        _number(last, "mtu"), _number(last, "mtu_max"), netdev, rail, idle,
        tuple((key, value.evidence) for key, value in last.items()),
    )  # fmt: skip


def nccl_name(port: str) -> str:
    """A port ("mlx5_0/1") as NCCL names it: the second one of a card is a device of its own."""
    device, _, number = port.rpartition("/")
    return device if number == "1" else f"{device}:{number}"


def _text(last: Mapping[str, Value], key: str) -> str:
    return last[key].text if key in last else ""


def _number(last: Mapping[str, Value], key: str) -> float:
    return (last[key].number if key in last else None) or 0.0


def _layer_of(netdev: str) -> str:
    """The link layer by the kernel's name of the interface: IPoIB begins with ib."""
    if not netdev:
        return ""
    return "infiniband" if re.match(r"ib(?:p|s|o)?\d", netdev) else "ethernet"


def use_of(facts: Traffic, place: Place, port: str) -> tuple[str, bool]:
    """How a port ("mlx5_0/1") is known to be a rail, and whether it is known to be idle."""
    device, name = port.rpartition("/")[0], nccl_name(port)
    used = {part for net in used_devices(facts).get(place.machine, ()) for part in net.split("+")}
    if name in used:
        return CARRIES, False
    filters = [one for one in hca_filters(facts) if one.machine == place.machine or not place.machine]
    if filters and all(one.names_devices and one.takes(device) for one in filters):
        return NAMED, False
    if name in near_devices(facts) and not filters:
        return NEAR, False
    seen = facts.rings_connected and place.machine in whole_machines(facts)
    idle = bool(used) and seen and not any(part.startswith("NET/") for part in used)
    return "", idle


def same_kind(port: Port) -> tuple[Place, str, str]:
    """What siblings have in common."""
    return (port.place, port.adapter, port.layer)


def siblings(some: tuple[Port, ...]) -> tuple[tuple[Port, ...], ...]:
    """Ports of one machine, adapter type and link layer, where they are as many as rails: 4, 8, 16."""
    groups: dict[tuple[Place, str, str], list[Port]] = {}
    for port in some:
        if port.adapter and port.layer and not port.is_other:
            groups.setdefault(same_kind(port), []).append(port)
    return tuple(tuple(group) for group in groups.values() if len(group) in _RAILS)


@question
def slow_ports(facts: Traffic) -> tuple[Odd, ...]:
    """Active ports that are slower than the other rails, or siblings, of their machine."""
    active = _active(facts)
    found = [*_odd_rails(active)]
    found += [odd for odd in _odd_siblings(active) if not any(p in one.ports for one in found for p in odd.ports)]
    return tuple(found)


def _odd_rails(active: tuple[Port, ...]) -> list[Odd]:
    rails: dict[tuple[Place, str, str], list[Port]] = {}
    for port in active:
        if port.rail:
            rails.setdefault((port.place, port.rail, port.layer), []).append(port)
    found = []
    for group in rails.values():
        usual = max(group, key=lambda port: port.gbit)
        less = tuple(port for port in group if port.gbit < usual.gbit)
        if less:
            found.append(Odd(less, usual, True))
    return found


def _odd_siblings(active: tuple[Port, ...]) -> list[Odd]:
    found = []
    for group in siblings(active):
        common, count = Counter(port.gbit for port in group).most_common(1)[0]
        less = tuple(port for port in group if port.gbit < common)
        if less and count * 2 > len(group) and not any(port.idle for port in less):
            found.append(Odd(less, next(port for port in group if port.gbit == common), False))
    return found


@question
def down_ports(facts: Traffic) -> tuple[Odd, ...]:
    """Ports that are not active though they are rails, or though all their siblings are. Ports that somebody switched
    off count only as rails."""
    known = tuple(port for port in ports(facts) if port.state)
    by_place: dict[Place, list[Port]] = {}
    for port in known:
        by_place.setdefault(port.place, []).append(port)
    found = []
    for mine in by_place.values():
        up = [port for port in mine if port.state == "active" and not port.is_other]
        rails = tuple(port for port in mine if port.state != "active" and port.rail)
        if rails:
            found.append(Odd(rails, next(iter(up), rails[0]), True, sum(bool(port.rail) for port in up)))
            continue
        for group in siblings(tuple(mine)):
            down = tuple(p for p in group if p.state != "active" and p.physical != "disabled")
            active = [port for port in group if port.state == "active"]
            if len(down) == 1 and len(active) >= len(group) - 2:
                found.append(Odd(down, active[0], False, len(active)))
    return tuple(found)


@question
def rail_rates(facts: Traffic) -> tuple[float, ...]:
    """Rates of the job's rails, Gb/s; empty: unknown."""
    return tuple(sorted({port.gbit for port in _active(facts) if port.rail}))


@question
def sibling_rates(facts: Traffic) -> tuple[float, ...]:
    """The rate of the fastest siblings, Gb/s: the rails of a machine of which no log tells. Empty: unknown."""
    rates = [port.gbit for group in siblings(_active(facts)) for port in group]
    return (max(rates),) if rates else ()


@question
def rail_layers(facts: Traffic) -> frozenset[str]:
    """Link layers of the rails, where they are known, else of the fastest siblings."""
    rails = [port for port in _active(facts) if port.rail]
    if not rails:
        rails = [p for group in siblings(_active(facts)) for p in group if p.gbit == sibling_rates(facts)[0]]
    return frozenset(port.layer for port in rails if port.layer)


def with_rates(facts: Traffic, machines: Sequence[Listing]) -> list[Listing]:
    """Listings with the rates that tools tell of their devices, if they tell all that the log leaves open: rates of
    some machines alone cannot be compared."""
    told = {(port.machine, port.device): port for port in ports(facts) if port.gbit}
    found = []
    for one in machines:
        mine = [told[key] for device in one.devices if not device.gbit and (key := (one.machine, device.name)) in told]
        rates = {port.device: port.gbit for port in mine}
        rated = tuple(device._replace(gbit=device.gbit or rates.get(device.name, 0.0)) for device in one.devices)
        slowest = sorted(mine, key=lambda port: port.gbit)[:1]
        lines = tuple(line for port in slowest for line in port.evidence("rate_gbit"))
        found.append(one._replace(devices=rated, evidence=(*one.evidence[:1], *lines, *one.evidence[1:])))
    return found if all(device.gbit for one in found for device in one.devices) else list(machines)


def _active(facts: Traffic) -> tuple[Port, ...]:
    """Active ports with a rate that may be rails."""
    return tuple(port for port in ports(facts) if port.gbit and not port.is_other)


@question
def small_mtus(facts: Traffic) -> tuple[Port, ...]:
    """Active RoCE rails at 1024 bytes that can do 4096: the interface has Ethernet's default of 1500. Siblings count
    as rails on a machine without InfiniBand."""
    active = tuple(port for port in ports(facts) if port.state == "active" and not port.is_other)
    fabric = {port.place for port in active if port.layer == "infiniband"}
    of_groups = {port for group in siblings(active) for port in group if port.place not in fabric and not port.idle}
    rails = [port for port in active if port.layer == "ethernet" and (port.rail or port in of_groups)]
    return tuple(port for port in rails if 0 < port.mtu <= _SMALL_MTU and port.mtu_max >= _FULL_MTU)


@question
def unequal_mtus(facts: Traffic) -> tuple[Odd, ...]:
    """Ports whose MTU is smaller than that of the same port on most other machines."""
    alike: dict[tuple[str, str, str], list[Port]] = {}
    for port in ports(facts):
        if port.state == "active" and port.mtu and port.layer and not port.is_other and not port.idle:
            alike.setdefault((port.name, port.adapter, port.layer), []).append(port)
    small: dict[tuple[float, float], list[tuple[Port, Port]]] = {}
    for group in alike.values():
        usual = max(group, key=lambda port: (sum(port.mtu == other.mtu for other in group), port.mtu))
        for port in group:
            if port.mtu != usual.mtu and port.place != usual.place:
                small.setdefault((port.mtu, usual.mtu), []).append((port, usual))
    return tuple(
        Odd(tuple(port for port, _ in pairs), pairs[0][1], all(port.rail for port, _ in pairs))
        for pairs in small.values()
    )


class Carrier(NamedTuple):
    """An interface that lost its carrier. lost: how often. returned: it has one at the end. port: the one behind it."""

    machine: str
    netdev: str
    lost: int
    returned: bool
    port: Port | None
    evidence: tuple[Evidence, ...]

    @property
    def is_fabric(self) -> bool:
        """IPoIB, or the interface of a rail."""
        return _layer_of(self.netdev) == "infiniband" or (self.port is not None and bool(self.port.rail))


@question
def flapping(facts: Traffic) -> tuple[Carrier, ...]:
    """Interfaces of the fabric that lost their carrier again and again, or for good. What all of a machine did alike
    was a restart, of the machine, its driver or a switch."""
    on_machine: dict[str, list[Carrier]] = {}
    for one in carriers(facts):
        if one.is_fabric:
            on_machine.setdefault(one.machine, []).append(one)
    found = []
    for some in on_machine.values():
        alike = min(one.lost for one in some) if len(some) > 1 else 0
        all_gone = len(some) > 1 and not any(one.returned for one in some)
        found += [one for one in some if one.lost - alike >= _FLAPS or not (one.returned or all_gone)]
    return tuple(found)


@question
def carriers(facts: Traffic) -> tuple[Carrier, ...]:
    """Interfaces of the job's machines that lost their carrier, by logs of the machine."""
    behind = {(port.place, port.netdev): port for port in ports(facts)}
    found = []
    for part in of_kind(facts, "netdev"):
        lost = part.values("carrier_lost")
        if lost and (part.machine in ("", *facts.machines) or not facts.machines):
            found.append(
                Carrier(
                    part.machine, part.name, _losses(part),
                    part.values("link")[-1].text == "yes", behind.get((part.place, part.name)),
                    (lost[0].evidence, lost[-1].evidence) if len(lost) > 1 else (lost[0].evidence,),
                )
            )  # fmt: skip
    return tuple(found)


def _losses(part: Part) -> int:
    """Losses, over all outputs: each counts its own."""
    counts = [
        max((int(value.number or 0) for value in one.get("carrier_lost", ())), default=0) for one in part.readings
    ]
    return sum(counts)
