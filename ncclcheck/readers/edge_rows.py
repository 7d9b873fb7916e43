"""Channel lines to rows of the fact table `edges`: by far the most lines of a log, so they are joined at once.

A process prints an edge per channel, all alike. Those of one thread between two steps of its communicators (a start, an
end of init, `Connected all rings`) become one row: between two steps nothing that rules ask can change.
"""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.schema import TABLES, conform
from ncclcheck.readers.events import Events

# Events between which all edges of a process belong to the same communicators.
_STEPS = ("init_start", "init_complete", "comm_nodes", "legacy_comm", "connected")

_OF_ROW = ("proc", "source", "line", "tid", "channels", "lines")
_LOOK = [name for name in TABLES["edges"] if name not in _OF_ROW]


def edge_rows(events: Events) -> pl.DataFrame | None:
    """The rows; None where no edge is printed."""
    printed = events.parts("channel_connect")
    if printed is None:
        return None
    texts = _looks(printed.texts.filter(pl.col("transport") != "COLLNET"))
    looks = texts.select("look", *_LOOK).unique("look")
    numbers = texts.select(*printed.key, "look", pl.col("channel").alias("channels"))
    rows = printed.rows.select(*printed.key, "_head", proc="_proc", source="_source", line="_line", tid="_tid")
    rows = rows.join(numbers, on=printed.key, nulls_equal=True, maintain_order="left").drop(printed.key)
    rows = _without_cut_end(rows, looks, events)
    groups = (
        rows.with_columns(step=_steps_before(rows, events))
        .group_by("_head", "step", "look", maintain_order=True)
        .agg(pl.col("proc", "tid", "source", "line").first(), pl.col("channels"), pl.col("line").alias("lines"))
    )
    return conform("edges", groups.join(looks, on="look", how="left", maintain_order="left"))


def _looks(texts: pl.DataFrame) -> pl.DataFrame:
    """The distinct messages with `look`: equal where they differ in the channel only."""
    texts = texts.with_columns(
        src_dev=pl.coalesce(pl.col("src_dev").cast(pl.String), "src_bus_id"),
        dst_dev=pl.coalesce(pl.col("dst_dev").cast(pl.String), "dst_bus_id"),
    )
    texts = texts.with_columns(pl.col(name).cast(TABLES["edges"][name], strict=False) for name in _LOOK)
    looks = texts.select(_LOOK).unique(maintain_order=True).with_row_index("look")
    return texts.join(looks, on=_LOOK, how="left", nulls_equal=True, maintain_order="left")


def _without_cut_end(rows: pl.DataFrame, looks: pl.DataFrame, events: Events) -> pl.DataFrame:
    """Without an edge in the last line of an input that lacks the /GDRDMA of its fellows: who cut the input may have
    cut the line."""
    last = rows.join(events.last_lines(), on=["source", "line"], how="semi")
    bare = last.join(looks.filter(pl.col("transport") == "NET", ~pl.col("gdr")), on="look", how="semi")
    if bare.height == 0:
        return rows
    told = rows.join(looks.filter("gdr"), on="look", how="semi").get_column("source").unique()
    return rows.join(bare.filter(pl.col("source").is_in(told.implode())), on=["source", "line"], how="anti")


def _steps_before(rows: pl.DataFrame, events: Events) -> pl.Series:
    """How many steps stand before each row, when those of each process stand together."""
    steps = [found.rows for event in _STEPS if (found := events.parts(event)) is not None]
    if not steps:
        return pl.repeat(0, rows.height, dtype=pl.UInt32, eager=True)
    order = pl.concat([step.select(place=_place("_proc", "_line")) for step in steps]).to_series().sort()
    return order.search_sorted(rows.select(_place("proc", "line")).to_series())


def _place(proc: str, line: str) -> pl.Expr:
    return pl.col(proc).cast(pl.UInt64) * 2**32 + pl.col(line)
