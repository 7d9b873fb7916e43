"""Which ranks and which subsystems are in the input: what could be seen, and what could not."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence


class Absent(NamedTuple):
    """Ranks of one communicator without a record. arrived: some rank is past the first exchange, so all of them are."""

    nranks: int
    seen: tuple[int, ...]
    arrived: bool
    evidence: tuple[Evidence, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        present = set(self.seen)
        return tuple(rank for rank in range(self.nranks) if rank not in present)


class Visibility(NamedTuple):
    """Which kinds of lines the input holds. log: any NCCL record. info: any INFO record. Others: lines of that
    subsystem."""

    log: bool
    info: bool
    init: bool
    env: bool
    net: bool
    graph: bool
    channels: bool
