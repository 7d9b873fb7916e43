"""What network plugins say of themselves beyond NCCL's own words."""

from __future__ import annotations

import re

import polars as pl

from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.seen import Seen

# aws-ofi-nccl, in the order of its releases.
_NO_PROVIDER = re.compile(
    r"Only EFA provider is supported|any optimal provider|No eligible providers|fi_getinfo\(\) call failed"
    r"|No viable endpoint"
)
# GPUDirect-TCPX: its receive daemon has not answered for ten seconds.
_CONTROL_TIMEOUT = r"\b[rt]x ctrl timeout cnt \d+"


@question
def without_provider(facts: Printed) -> tuple[Seen, ...]:
    """The OFI plugin finds no provider for RDMA. It may find one for another of its protocols after that."""
    return tuple(seen for seen in facts.notes("net_ofi_message") if _NO_PROVIDER.search(seen.value))


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
