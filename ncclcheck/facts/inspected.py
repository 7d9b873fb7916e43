"""Who the others wait for, by the times of NCCL Inspector.

A rank's time in a collective runs from when it is ready until all are done. The last to arrive has the shortest time,
and what the others take longer they wait for it. Only operations of which every rank's time is there count.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question

# Operations of a communicator that say enough, and how many of them one rank or machine must be the last in.
_FEWEST = 20
_MOSTLY = 0.8
# Waiting that matters: share of the time that ranks spend in collectives.
_MUCH = 0.2


class Last(NamedTuple):
    """A rank, or ranks of one machine, that the others wait for. share: of the operations in which it is the last.
    waiting: share of the other ranks' time in collectives that passes waiting. us: that they wait in one operation, in
    the middle."""

    host: str
    ranks: tuple[int, ...]
    nranks: int
    operations: int
    share: float
    waiting: float
    us: float
    evidence: tuple[Evidence, ...]


@question
def last_to_arrive(facts: Printed) -> Last | None:
    """Of the largest communicator that has one."""
    rows = _whole(facts)
    for part in rows.partition_by("comm", maintain_order=True):
        found = _last_of(facts, part)
        if found is not None:
            return found
    return None


@question
def were_timed(facts: Printed) -> bool:
    """Are there operations enough of some communicator with the times of all its ranks?"""
    rows = _whole(facts)
    operations = rows.group_by("comm").agg(n=pl.struct("op", "sn").n_unique())
    return operations.filter(pl.col("n") >= _FEWEST).height > 0


@question
def _whole(facts: Printed) -> pl.DataFrame:
    """Times of operations that all ranks of a communicator tell, large communicators first."""
    look = ["comm", "op", "sn"]
    rows = facts["inspected"].drop_nulls([*look, "rank", "nranks", "us"])
    rows = rows.filter((pl.col("nranks") > 1) & ~pl.col("op").is_in(["send", "recv"]))
    rows = rows.unique([*look, "rank"], keep="first", maintain_order=True)
    return rows.filter(pl.len().over(look) == pl.col("nranks")).sort("nranks", descending=True, maintain_order=True)


def _last_of(facts: Printed, rows: pl.DataFrame) -> Last | None:
    """rows: of one communicator."""
    operation = ["op", "sn"]
    rows = rows.with_columns(shortest=pl.col("us").min().over(operation), host=pl.col("host").fill_null(""))
    lasts = rows.filter(pl.col("us") == pl.col("shortest")).unique(operation, keep="first", maintain_order=True)
    if lasts.height < _FEWEST:
        return None
    others = rows.filter(pl.col("us") > pl.col("shortest"))
    waits = others.get_column("us") - others.get_column("shortest")
    waiting = float(waits.sum()) / float(rows.get_column("us").sum() or 1)
    middle = waits.median()
    hosts = rows.get_column("host").n_unique()
    for by in (["host", "rank"], *([["host"]] if hosts > 1 else [])):
        most = lasts.group_by(by, maintain_order=True).len().sort("len", descending=True, maintain_order=True).row(0)
        share = most[-1] / lasts.height
        if share >= _MOSTLY and waiting >= _MUCH and isinstance(middle, float):
            mine = lasts.filter(
                pl.all_horizontal(*(pl.col(name) == value for name, value in zip(by, most, strict=False)))
            )
            return Last(
                most[0],
                tuple(mine.get_column("rank").unique().sort()),
                rows.row(0, named=True)["nranks"],
                lasts.height,
                share,
                waiting,
                middle,
                tuple(facts.evidence(*at) for at in mine.select("source", "line").head(2).iter_rows()),
            )
    return None
