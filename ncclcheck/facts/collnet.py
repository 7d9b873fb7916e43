"""Do communicators have channels for CollNet?"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question


class CollnetChannels(NamedTuple):
    """counts: distinct numbers, where NCCL prints them (2.20.3+). none: the first lines with 0 of them."""

    counts: tuple[int, ...]
    none: tuple[Evidence, ...]


@question
def collnet_channels(facts: Printed) -> CollnetChannels:
    rows = facts["channels"].filter(pl.col("collnet").is_not_null())
    without = rows.filter(pl.col("collnet") == 0).sort("source", "line").head(MAX_EVIDENCE)
    lines = tuple(facts.evidence(source, line) for source, line in without.select("source", "line").iter_rows())
    return CollnetChannels(tuple(rows.get_column("collnet").unique().sort().to_list()), lines)
