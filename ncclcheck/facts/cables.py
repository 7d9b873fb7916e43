"""Cables that a machine's kernel finds wrong, by network interface."""

from __future__ import annotations

from collections.abc import Mapping

from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Value, of_kind
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question


@question
def cable_errors(facts: Printed) -> Mapping[tuple[Place, str], Value]:
    """By machine and interface: the last event of the cable, where that is an error."""
    last = {(part.place, part.name): part.values("cable")[-1] for part in of_kind(facts, "pci") if part.values("cable")}
    found = {}
    for netdev in of_kind(facts, "netdev"):
        event = last.get((netdev.place, netdev.text("bus_id")))
        if event and event.text.startswith("error"):
            found[netdev.place, netdev.name] = event
    return found
