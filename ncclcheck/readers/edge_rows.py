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

_OF_ROW = ("proc", "source", "line", "tid", "look", "channels", "lines")
_LOOK = [name for name in TABLES["edges"] if name not in _OF_ROW]


def edge_rows(events: Events) -> pl.DataFrame | None:
    """The rows; None where no edge is printed."""
    printed = events.parts("channel_connect")
    if printed is None:
        return None
    del events.tables["channel_connect"]  # most of what there is; nothing else asks for it
    texts = _looks(printed.texts.filter(pl.col("transport") != "COLLNET"))
    looks = texts.select("look", *_LOOK).unique("look")
    found = printed.rows.select(*printed.key, "_head", line="_line", channels="channel")
    found = found.join(texts.select(*printed.key, "look"), on=printed.key, nulls_equal=True, maintain_order="left")
    del printed
    found = _without_cut_end(found.select("_head", "line", "channels", "look"), looks, events)
    groups = (
        found.with_columns(step=_steps_before(found, events))
        .group_by("_head", "step", "look", maintain_order=True)
        .agg(pl.col("line").first(), pl.col("channels"), pl.col("line").alias("lines"))
    )
    groups = groups.join(looks, on="look", how="left", maintain_order="left")
    who = events.processes.select("_head", "proc", "tid", source="_source")
    return conform("edges", groups.join(who, on="_head", how="left", maintain_order="left"))


def _looks(texts: pl.DataFrame) -> pl.DataFrame:
    """The distinct messages with `look`, the number of those that mean the same."""
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
    sources = events.processes.select("_head", source="_source")
    bare = looks.filter(pl.col("transport") == "NET", ~pl.col("gdr")).get_column("look")
    last = rows.filter(pl.col("look").is_in(bare.implode())).join(sources, on="_head")
    last = last.filter(events.at_end())
    if last.height == 0:
        return rows
    told = rows.select("_head", "look").unique().join(looks.filter("gdr"), on="look", how="semi")
    told = told.join(sources, on="_head").select("source").unique()
    return rows.join(last.join(told, on="source", how="semi"), on=["_head", "line"], how="anti")


def _steps_before(rows: pl.DataFrame, events: Events) -> pl.Series:
    """How many steps stand before each row, when those of each process stand together."""
    steps = [table.rows.select("_head", line="_line") for name in _STEPS if (table := events.tables.get(name))]
    if not steps:
        return pl.repeat(0, rows.height, dtype=pl.UInt32, eager=True)
    procs = events.processes.get_column("proc").cast(pl.UInt64) * 2**32
    places = [procs.gather(part.get_column("_head")) + part.get_column("line") for part in (pl.concat(steps), rows)]
    return places[0].sort().search_sorted(places[1])
