"""Leaf switches behind the adapters, as `ibnetdiscover` tells them.

A fabric is wired by rails where adapter k of all machines of a group sits on one leaf: traffic between equal adapters
stays below the spine. Where all adapters of a machine sit on one leaf there are no rails to keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.telemetry_keys import nccl_name

# Machines on a leaf that must agree before one of another kind is odd, and the part of them that is a kind of its own.
_AGREE, _KIND = 3, 0.25


class Misplaced(NamedTuple):
    """An adapter on a leaf where the other machines have other ones. usual: those. adapters: of the machine."""

    machine: str
    device: str
    leaf: str
    usual: tuple[str, ...]
    adapters: int
    evidence: tuple[Evidence, ...]


class Leaves(NamedTuple):
    """rails: by machine and device, the rail of a fabric that is wired so: the devices that sit on its leaves. flat:
    machines whose adapters all sit on one leaf. misplaced: of the job's machines, of all where none is known."""

    rails: Mapping[tuple[str, str], str]
    flat: frozenset[str]
    misplaced: tuple[Misplaced, ...]


class _Port(NamedTuple):
    machine: str
    device: str
    leaf: str
    line: Evidence


@question
def leaves(facts: Printed) -> Leaves:
    """Of all machines that the fabric's listing names."""
    ports = []
    for part in of_kind(facts, "port"):
        told = part.value("switch")
        if told and part.machine:
            ports.append(_Port(part.machine, nccl_name(part.name), told.text, told.evidence))
    on_machine: dict[str, list[_Port]] = {}
    for port in ports:
        on_machine.setdefault(port.machine, []).append(port)
    flat = {machine for machine, some in on_machine.items() if len(some) > 1 and len({p.leaf for p in some}) == 1}
    railed = [p for p in ports if len({other.leaf for other in on_machine[p.machine]}) > 1]
    usual = _usual(railed)
    homes = {device for devices in usual.values() for device in devices}
    odd = [port for port in railed if usual[port.leaf] and port.device not in usual[port.leaf] and port.device in homes]
    return Leaves(
        {(port.machine, port.device): " ".join(usual[port.leaf]) for port in railed if usual[port.leaf]},
        frozenset(flat),
        tuple(_misplaced(facts, odd, on_machine, usual)),
    )


def _usual(ports: list[_Port]) -> dict[str, tuple[str, ...]]:
    """Devices that machines have on each leaf, where enough of them agree."""
    on_leaf: dict[str, list[_Port]] = {}
    for port in ports:
        on_leaf.setdefault(port.leaf, []).append(port)
    found = {}
    for leaf, some in on_leaf.items():
        machines = len({port.machine for port in some})
        counts = Counter(port.device for port in some)
        kinds = sorted(device for device, count in counts.items() if count > 1 and count >= machines * _KIND)
        found[leaf] = tuple(kinds) if any(counts[device] >= _AGREE for device in kinds) else ()
    return found


def _misplaced(
    facts: Printed, odd: list[_Port], on_machine: Mapping[str, list[_Port]], usual: Mapping[str, tuple[str, ...]]
) -> list[Misplaced]:
    """Not where all adapters of a machine are elsewhere: it counts them in another way."""
    ours = {*facts.machines} & on_machine.keys()
    found = []
    for port in odd:
        mine = on_machine[port.machine]
        renamed = sum(one.machine == port.machine for one in odd) == len(mine)
        if not renamed and (port.machine in ours or not ours):
            peer = next(
                one.line for some in on_machine.values() for one in some
                if one.leaf == port.leaf and one.device in usual[port.leaf]
            )  # fmt: skip
            lines = (port.line, peer)
            found.append(Misplaced(port.machine, port.device, port.leaf, usual[port.leaf], len(mine), lines))
    return found
