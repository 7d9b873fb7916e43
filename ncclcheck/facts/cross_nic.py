"""May the rings of a machine change their NIC?"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question


class CrossNic(NamedTuple):
    """A machine whose ring patterns all have this crossNic, with the first of them."""

    machine: str
    value: int
    evidence: Evidence


@question
def cross_nic_by_machine(facts: Printed) -> tuple[CrossNic, ...]:
    """Machines with one value for all their rings; communicators of other sizes may have another one."""
    rings = facts["graphs"].filter((pl.col("pattern") == 4) & pl.col("cross_nic").is_not_null())
    rings = rings.join(facts.machine_table, on="proc").drop_nulls("machine").sort("source", "line")
    each = rings.group_by("machine", maintain_order=True).agg(
        pl.col("cross_nic").n_unique().alias("values"), pl.col("cross_nic", "source", "line").first()
    )
    return tuple(
        CrossNic(row["machine"], row["cross_nic"], facts.evidence(row["source"], row["line"]))
        for row in each.filter(pl.col("values") == 1).iter_rows(named=True)
    )
