"""How long init took, and what ranks waited for."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# A rank that waited for less than this part of what most did came late itself.
_LATE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class InitTimes:
    """Init of the communicators of one size. Seconds are medians over the ranks that print them, `longest` is the
    longest total. late: ranks that waited much shorter than the others, with the seconds of the shortest wait."""

    nranks: int
    ranks: int
    total: float
    longest: float
    bootstrap: float
    connections: float
    late: tuple[int, ...]
    late_machines: tuple[str, ...]
    shortest: float
    evidence: tuple[Evidence, ...]


@question
def init_times(facts: Traffic) -> tuple[InitTimes, ...]:
    """Largest communicators first. Of several inits of a rank the longest counts."""
    rows = (
        facts["timings"]
        .filter((pl.col("kind") == "init") & (pl.col("nranks") > 1) & pl.col("total").is_not_null())
        .join(facts.machine_table, on="proc", how="left", maintain_order="left")
        .sort("total", descending=True, maintain_order=True)
        .unique(["nranks", "rank", "proc"], keep="first", maintain_order=True)
    )
    found = []
    for (nranks,), part in rows.partition_by("nranks", as_dict=True, maintain_order=True).items():
        median = part.select(pl.col("total", "bootstrap", "connections").median().fill_null(0.0)).row(0, named=True)
        late = part.filter(pl.col("bootstrap") < _LATE_SHARE * median["bootstrap"]).sort("bootstrap")
        shown = pl.concat([part.sort("bootstrap", descending=True).head(1), late.head(MAX_EVIDENCE - 1)])
        found.append(
            InitTimes(
                nranks=int(nranks),
                ranks=part.height,
                total=median["total"],
                longest=float(part.select(pl.col("total").max()).item()),
                bootstrap=median["bootstrap"],
                connections=median["connections"],
                late=tuple(late.get_column("rank").drop_nulls().unique().sort()),
                late_machines=tuple(late.get_column("machine").drop_nulls().unique().sort()),
                shortest=float(part.select(pl.col("bootstrap").min().fill_null(0.0)).item()),
                evidence=tuple(
                    facts.evidence(*at) for at in shown.select("source", "line").unique(maintain_order=True).iter_rows()
                ),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.nranks))
