"""What tools say of whole machines: states, limits, the size of /dev/shm."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed


class HostState(NamedTuple):
    """Something that an output says of a whole machine, or that is wrong with it. machine: "" where unknown."""

    machine: str
    text: str
    evidence: Evidence


def host_states(facts: Printed, key: str) -> tuple[HostState, ...]:
    """What tools say of hosts under a key, once per machine and text."""
    found = {
        (part.place, value.text): HostState(part.machine, value.text, value.evidence)
        for part in reversed(of_kind(facts, "host"))
        for value in reversed(part.values(key))
    }
    return tuple(reversed(found.values()))


class Told(NamedTuple):
    """What tools say of one property of machines. number: in the key's unit, the smallest; text: as printed."""

    text: str
    number: float
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


def told_below(facts: Printed, key: str, least: float) -> Told | None:
    """The machines on which a property of the host (a limit, the size of /dev/shm) is below `least`, by every output
    that tells it; None: none."""
    small = []
    for host in of_kind(facts, "host"):
        values = [value for value in host.values(key) if value.number is not None]
        if values and all(value.number is not None and value.number < least for value in values):
            small.append((host.machine, values[0]))
    if not small:
        return None
    lowest = min((value for _, value in small), key=lambda value: value.number or 0)
    machines = tuple(sorted({machine for machine, _ in small if machine}))
    return Told(lowest.text, lowest.number or 0, machines, tuple(value.evidence for _, value in small)[:MAX_EVIDENCE])


def is_told(facts: Printed, key: str) -> bool:
    return any(host.values(key) for host in of_kind(facts, "host"))
