"""GPUs that tools list by name, machine by machine."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question


class NamedMachine(NamedTuple):
    """GPUs of one machine, or of one list that names no machine (host is empty). ranks: those that the lines name."""

    host: str
    gpus: int
    names: tuple[str, ...]
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]


@question
def named_machines(facts: Printed) -> tuple[NamedMachine, ...]:
    """Machines with their GPUs. A device counts once, however many processes list it."""
    rows = facts["gpu_names"].filter(pl.col("device").is_not_null())
    where = ["source", pl.col("host").fill_null("")]
    grouped = rows.group_by(where, maintain_order=True).agg(
        pl.col("device").n_unique().alias("gpus"),
        pl.col("name").unique().sort(),
        pl.col("rank").drop_nulls().unique().sort(),
        pl.col("line").head(MAX_EVIDENCE),
    )
    return tuple(
        NamedMachine(
            row["host"],
            row["gpus"],
            tuple(row["name"]),
            tuple(row["rank"]),
            tuple(facts.evidence(row["source"], n) for n in row["line"]),
        )
        for row in grouped.iter_rows(named=True)
    )
