"""Interfaces that lost their carrier, by the logs of a machine."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.parts import Part, of_job
from ncclcheck.facts.question import question
from ncclcheck.facts.rdma_ports import Port, layer_of, ports
from ncclcheck.facts.traffic import Traffic

# Losses of a carrier that are no restart.
_FLAPS = 3


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
        return layer_of(self.netdev) == "infiniband" or (self.port is not None and bool(self.port.rail))


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
    for part in of_job(facts, "netdev"):
        lost = part.values("carrier_lost")
        if lost:
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
