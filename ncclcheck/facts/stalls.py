"""Did the first collective of the job never finish?"""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.deaths import deaths
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


@question
def first_collective_stalls(facts: Traffic) -> tuple[Evidence, ...]:
    """The lines of PyTorch's watchdog, if every one of them is about the first collective of its group, and nothing
    else on record ends the job: no warning of NCCL, no death of a process. Empty: no, or not known."""
    ended = facts["around"].filter(pl.col("event") == "watchdog_timeout").sort("source", "line")
    if ended.height == 0 or not ended.select(pl.col("text").str.contains(r"SeqNum=1,").fill_null(False).all()).item():
        return ()
    if deaths(facts) or any(failure.level == "WARN" for failure in facts.failures()):
        return ()
    lines = ended.select("source", "line").head(MAX_EVIDENCE)
    return tuple(facts.evidence(source, line) for source, line in lines.iter_rows())
