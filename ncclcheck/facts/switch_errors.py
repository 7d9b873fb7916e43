"""Errors of NVSwitches (SXids) that stop the fabric, told by the kernel, the fabric manager or NCCL."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question

_FATAL = "fatal"


class SwitchError(NamedTuple):
    """A fatal error. switch: bus id, "" where only the machine is named. number: of the SXid."""

    machine: str
    switch: str
    number: int
    evidence: Evidence


@question
def fatal_switch_errors(facts: Printed) -> tuple[SwitchError, ...]:
    """Fatal ones, once per switch and number. Others a switch mends by itself."""
    found: dict[tuple[Place, str, int], SwitchError] = {}
    for part in (*of_kind(facts, "pci"), *of_kind(facts, "host")):
        for value in part.values("sxid"):
            error = SwitchError(part.machine, part.name, int(value.number or 0), value.evidence)
            if value.text == _FATAL:
                found.setdefault((part.place, part.name, error.number), error)
    named = {(place, number) for place, switch, number in found if switch}
    return tuple(error for (place, _, number), error in found.items() if error.switch or (place, number) not in named)
