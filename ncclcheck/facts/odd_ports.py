"""RDMA ports that differ from their like: slower, not active, of a smaller MTU.

Rails of a machine are alike, and so are siblings where nothing tells which ports are rails (`rdma_ports`).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ncclcheck.facts.outputs import Place
from ncclcheck.facts.question import question
from ncclcheck.facts.rdma_ports import Port, active_ports, ports, siblings
from ncclcheck.facts.traffic import Traffic

# What a RoCE port makes of Ethernet's usual 1500 bytes, and what it can do.
_SMALL_MTU, _FULL_MTU = 1024, 4096


class Odd(NamedTuple):
    """Ports that differ from their like. usual: one of those that they should be like. sure: they are rails.
    others: how many of their like on one machine are as they should be."""

    ports: tuple[Port, ...]
    usual: Port
    sure: bool
    others: int = 0


@question
def slow_ports(facts: Traffic) -> tuple[Odd, ...]:
    """Active ports that are slower than the other rails, or siblings, of their machine."""
    active = active_ports(facts)
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
