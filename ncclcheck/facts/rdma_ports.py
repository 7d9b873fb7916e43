"""RDMA ports of machines as tools tell of them, and which of them are the job's rails.

A port is a rail if edges of the job run over it, if NCCL_IB_HCA asks for it by name, or if a matrix shows it beside a
GPU. Where nothing of that is in the input, ports of one adapter type and link layer of a machine are siblings: they can
be compared, if they are as many as a machine has rails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.filters import hca_filters
from ncclcheck.facts.hcas import Listing, near_devices, used_devices, whole_machines
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, Value, of_job
from ncclcheck.facts.question import question
from ncclcheck.facts.telemetry_keys import nccl_name
from ncclcheck.facts.traffic import Traffic

# How a rail is known.
CARRIES, NAMED, NEAR = "carries traffic of the job", "is named in NCCL_IB_HCA", "is near a GPU"
EFA = "EFA"
# Rails of a machine, where its GPUs are not counted.
_RAILS = (4, 8, 16)
# ConnectX-7 bridges that manage the NVSwitches of B200 and B300 boards are InfiniBand ports of this type and rate.
_MANAGER, _MANAGER_GBIT = "MT4129", 100


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


@question
def ports(facts: Traffic) -> tuple[Port, ...]:
    """Ports of the job's machines (of all machines, where none of the job is known), in the order of the input."""
    return tuple(_port(facts, part) for part in of_job(facts, "port"))


def _port(facts: Traffic, part: Part) -> Port:
    last = {key: values[-1] for reading in part.readings for key, values in reading.items()}
    state, netdev = _text(last, "state"), _text(last, "netdev")
    rail, idle = use_of(facts, part.place, part.name)
    return Port(
        part.place, part.name, state, _text(last, "physical"),
        _number(last, "rate_gbit") if state in ("active", "") else 0.0,
        _text(last, "link_layer") or layer_of(netdev), _text(last, "adapter"),
        _number(last, "mtu"), _number(last, "mtu_max"), netdev, rail, idle,
        tuple((key, value.evidence) for key, value in last.items()),
    )  # fmt: skip


def _text(last: Mapping[str, Value], key: str) -> str:
    return last[key].text if key in last else ""


def _number(last: Mapping[str, Value], key: str) -> float:
    return (last[key].number if key in last else None) or 0.0


def layer_of(netdev: str) -> str:
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


def siblings(some: tuple[Port, ...]) -> tuple[tuple[Port, ...], ...]:
    """Ports of one machine, adapter type and link layer, where they are as many as rails: 4, 8, 16."""
    groups: dict[tuple[Place, str, str], list[Port]] = {}
    for port in some:
        if port.adapter and port.layer and not port.is_other:
            groups.setdefault((port.place, port.adapter, port.layer), []).append(port)
    return tuple(tuple(group) for group in groups.values() if len(group) in _RAILS)


@question
def rail_rates(facts: Traffic) -> tuple[float, ...]:
    """Rates of the job's rails, Gb/s; empty: unknown."""
    return tuple(sorted({port.gbit for port in active_ports(facts) if port.rail}))


@question
def sibling_rates(facts: Traffic) -> tuple[float, ...]:
    """The rate of the fastest siblings, Gb/s: the rails of a machine of which no log tells. Empty: unknown."""
    rates = [port.gbit for group in siblings(active_ports(facts)) for port in group]
    return (max(rates),) if rates else ()


@question
def rail_layers(facts: Traffic) -> frozenset[str]:
    """Link layers of the rails, where they are known, else of the fastest siblings."""
    rails = [port for port in active_ports(facts) if port.rail]
    if not rails:
        rails = [p for group in siblings(active_ports(facts)) for p in group if p.gbit == sibling_rates(facts)[0]]
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


def active_ports(facts: Traffic) -> tuple[Port, ...]:
    """Active ports with a rate that may be rails."""
    return tuple(port for port in ports(facts) if port.gbit and not port.is_other)
