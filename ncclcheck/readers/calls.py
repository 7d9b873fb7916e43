"""Lines of COLL, one per operation and rank: tens of millions in a day, so they are counted and only the last are kept.

Kept whole are the lines of a log that has few. Of a larger one the end of each communicator on each rank is kept, which
is where a job that hangs shows that its ranks call different things.
"""

from __future__ import annotations

import polars as pl

from ncclcheck.readers.folding import merged
from ncclcheck.readers.projection import EventTable

EVENT = "collective"

# Lines that are kept before any is left out, and numbers of operations that are kept then, by rank and communicator.
MOST_KEPT = 2_000_000
LAST_KEPT = 64

# How often each message of an input was printed.
CALLS = {"_source": pl.UInt32, "_text": pl.UInt32, "calls": pl.UInt32}


class Calls:
    """Takes the lines block by block."""

    def __init__(self) -> None:
        self._rows: list[pl.DataFrame] = []
        self._texts: list[pl.DataFrame] = []
        self._calls: list[pl.DataFrame] = []  # `_source`, `_text`, `calls` of lines that were counted

    def add(self, table: EventTable) -> None:
        self._rows.append(table.rows.with_columns(counted=False))
        self._texts.append(table.texts)
        if sum(rows.height for rows in self._rows) > MOST_KEPT:
            rows = self._count()
            last = pl.col("op_count").max().over("_head", "comm") - LAST_KEPT
            self._rows = [rows.filter(pl.col("op_count") > last)]

    def finish(self) -> tuple[EventTable, pl.DataFrame] | None:
        """The lines that are kept, and how often each message was printed (the columns of `CALLS`). None: no line."""
        if not self._rows:
            return None
        rows = self._count().drop("counted")
        calls = pl.concat(self._calls).group_by("_source", "_text", maintain_order=True).agg(pl.col("calls").sum())
        return EventTable(rows, self._texts[0]), calls

    def _count(self) -> pl.DataFrame:
        """All lines with messages that differ, those that are new counted."""
        rows = pl.concat(self._rows, how="diagonal")
        rows, texts = merged(rows, pl.concat(self._texts, how="diagonal").sort("_text"))
        new = rows.filter(~pl.col("counted")).group_by("_source", "_text", maintain_order=True).agg(calls=pl.len())
        self._calls.append(new)
        self._rows, self._texts = [], [texts]
        return rows.with_columns(counted=True)
