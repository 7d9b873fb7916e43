"""Did nccl-tests, and the diagnostics of NCCL itself, get the right results?

The test itself counts (`#wrong`, `Out of bounds values`). Before 2.13 its tables have relative errors instead, of which
only the count at the end is a verdict.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.outputs import places
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question


class WrongResults(NamedTuple):
    """A table with wrong results. sizes: in bytes, those of rows that say so. values: how many are wrong, None where
    the table was cut before its count and its rows have errors in place of counts."""

    collective: str
    hosts: tuple[str, ...]
    sizes: tuple[int, ...]
    values: int | None
    evidence: tuple[Evidence, ...]


@question
def wrong_results(facts: Printed) -> tuple[WrongResults, ...]:
    """Tables in the order of the input."""
    rows = facts["measurements"]
    if rows.height == 0:
        return ()
    worst = pl.max_horizontal(pl.col("wrong").fill_null(0), pl.col("in_wrong").fill_null(0))
    found = []
    # a verdict of the test stands above what its rows look like
    bad = rows.with_columns(worst=worst).filter(
        (pl.col("wrong_values") > 0) | (pl.col("wrong_values").is_null() & (pl.col("worst") > 0))
    )
    for part in bad.partition_by("source", "table", maintain_order=True):
        said = part.filter(pl.col("worst") > 0)
        shown = said if said.height else part.tail(1)
        first = part.row(0, named=True)
        counted = said.filter(pl.col("worst") >= 1).get_column("worst").sum()
        found.append(
            WrongResults(
                first["collective"] or "a collective",
                tuple(first["hosts"] or ()),
                tuple(said.get_column("size").unique().sort()),
                first["wrong_values"] or int(counted) or None,
                tuple(facts.evidence(*at) for at in shown.select("source", "line").head(MAX_EVIDENCE).iter_rows()),
            )
        )
    return tuple(found)


@question
def were_checked(facts: Printed) -> bool:
    """Does some table say that results were right, or wrong?"""
    rows = facts["measurements"]
    told = pl.col("wrong").is_not_null() | pl.col("in_wrong").is_not_null() | (pl.col("wrong_values") > 0)
    return bool(rows.select(told.any()).item()) if rows.height else False


class WrongTransfer(NamedTuple):
    """Bytes that NCCL's own diagnostics wrote to a peer's GPU, or read from it, and that came out as others. direction:
    write or read; path: as NCCL names it ("NVL", "PHB"), "" where it does not."""

    machine: str
    direction: str
    source: int
    destination: int
    path: str
    evidence: Evidence


_TRANSFER = re.compile(r"info p2p: (write|read) mismatch .*?\bsrcRank=(\d+)\b.*?\bdstRank=(\d+)\b(?:.*?\bpath=(\w+))?")


@question
def wrong_transfers(facts: Printed) -> tuple[WrongTransfer, ...]:
    """In the order of the input."""
    rows = facts["telemetry"].filter((pl.col("kind") == "nccl-diag") & (pl.col("key") == "diagnosis"))
    found = []
    for output, text, source, line in rows.select("output", "text", "source", "line").iter_rows():
        told = _TRANSFER.match(text)
        if told:
            machine = places(facts)[output].machine
            ranks = int(told[2]), int(told[3])
            found.append(WrongTransfer(machine, told[1], *ranks, told[4] or "", facts.evidence(source, line)))
    return tuple(found)
