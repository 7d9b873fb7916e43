"""One way in: sources to fact tables, whatever kinds of evidence they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from ncclcheck.readers.events import Blocks, read_events
from ncclcheck.readers.nccl_log import WANTED, log_tables
from ncclcheck.readers.other_kinds import OtherKinds


class InputReading(NamedTuple):
    """What one input held: kinds of evidence, all lines, NCCL records with and without a known form. notes: what of
    it could not be read."""

    kinds: tuple[str, ...]
    lines: int
    recognised: int
    unrecognised: int
    notes: tuple[str, ...] = ()


class Reading(NamedTuple):
    """tables: the fact tables that have rows. inputs: one per source, in order."""

    tables: Mapping[str, pl.DataFrame]
    inputs: tuple[InputReading, ...]


def read_sources(sources: Sequence[Blocks]) -> Reading:
    """Read every source once; readers of all kinds look at the same blocks."""
    other = OtherKinds()
    events = read_events(sources, WANTED, other.look)
    tables = log_tables(events)
    for name, frame in other.tables().items():
        tables[name] = pl.concat([tables[name], frame]) if name in tables else frame
    tables["inputs"] = other.inputs(events.counts)
    told = set(tables["around"].get_column("source")) if "around" in tables else set()
    inputs = []
    for index, count in enumerate(events.counts):
        kinds = ["nccl-log"] if count.recognised or count.unrecognised else []
        kinds += sorted(other.kinds.get(index, set()) | ({"job-output"} if index in told else set()))
        notes = tuple(other.notes.get(index, ()))
        inputs.append(InputReading(tuple(kinds), count.lines, count.recognised, count.unrecognised, notes))
    return Reading(tables, tuple(inputs))
