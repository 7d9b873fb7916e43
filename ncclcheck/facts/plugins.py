"""What network plugins say of themselves beyond NCCL's own words."""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.seen import Seen

# GPUDirect-TCPX: its receive daemon has not answered for ten seconds.
_CONTROL_TIMEOUT = r"\b[rt]x ctrl timeout cnt \d+"


@question
def control_timeouts(facts: Printed) -> tuple[Seen, ...]:
    """Warnings of GPUDirect-TCPX about control messages that do not come, as one: each has other numbers."""
    rows = facts["failures"].filter(
        (pl.col("category") == "warn") & pl.col("text").str.contains(_CONTROL_TIMEOUT).fill_null(False)
    )
    if rows.height == 0:
        return ()
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    machines = rows.get_column("machine").drop_nulls().unique().sort().to_list()
    first = rows.sort("source", "line").select("source", "line").head(MAX_EVIDENCE)
    evidence = tuple(facts.evidence(source, line) for source, line in first.iter_rows())
    return (Seen("control timeout", tuple(machines), evidence, rows.height),)
