"""How much of the input is not as NCCL wrote it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question


class Damage(NamedTuple):
    """records: all of NCCL. Lines: joined, which held several whole records; mended, in which halves of a record were
    put together; torn, of which a part is lost; cut, which end too early, of them `at_end` as the last line of an
    input. unknown: records of a form that no release has. evidence: the first lines by kind."""

    records: int
    joined: int
    mended: int
    torn: int
    cut: int
    at_end: int
    unknown: int
    evidence: dict[str, tuple[Evidence, ...]]

    @property
    def lost(self) -> int:
        return self.torn + self.cut


@question
def damage(facts: Printed) -> Damage:
    readings, rows = facts["readings"], facts["damage"]
    count = dict(rows.group_by("kind").len().iter_rows())
    ends = readings.select("source", line="lines").cast({"line": pl.UInt32})
    at_end = rows.filter(pl.col("kind") == "cut").join(ends, on=["source", "line"], how="semi").height
    torn, cut = count.get("torn", 0), count.get("cut", 0)
    first = rows.sort("source", "line").group_by("kind", maintain_order=True).head(MAX_EVIDENCE)
    evidence: dict[str, tuple[Evidence, ...]] = {}
    for kind, source, line in first.select("kind", "source", "line").iter_rows():
        evidence[kind] = (*evidence.get(kind, ()), facts.evidence(source, line))
    return Damage(
        records=int(readings.get_column("records").sum()),
        joined=count.get("joined", 0),
        mended=count.get("mended", 0),
        torn=torn,
        cut=cut,
        at_end=at_end,
        unknown=max(0, int(readings.get_column("unrecognised").sum()) - torn - cut),
        evidence=evidence,
    )
