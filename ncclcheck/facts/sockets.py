"""Are NUMA nodes parts of sockets? `lscpu` and `numactl -H` tell."""

from __future__ import annotations

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question


@question
def sockets_are_split(facts: Printed) -> Answer:
    """YES: the machines have more NUMA nodes with CPUs than sockets (NPS, SNC). UNKNOWN also where machines differ."""
    told = {(part.number("sockets"), part.number("numa_nodes")) for part in of_kind(facts, "host")}
    told.discard((None, None))
    if len(told) != 1:
        return Answer.UNKNOWN
    ((sockets, nodes),) = told
    return Answer.UNKNOWN if sockets is None or nodes is None else Answer.of(nodes > sockets)
