"""Limits of a process that NCCL or Python ran into: open files, threads."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

FILES, THREADS = "files", "threads"

_FILES = r"(?i)too many open files|\[Errno 24\]"
# EAGAIN alone is a socket's way to say "later"; here somebody wanted a thread or a process.
_THREAD_CALLS = ["pthread_create", "fork", "clone"]
_EAGAIN = r"(?i)resource temporarily unavailable"
_THREADS = (
    r"(?i)(?:thread creation|pthread_create|start(?:ing)? new thread|fork).*resource temporarily unavailable"
    r"|can't start new thread|thread constructor failed"
)


class Limit(NamedTuple):
    """One kind of limit. calls: what failed on it. by_nccl: NCCL itself says so."""

    kind: str
    machines: tuple[str, ...]
    calls: tuple[str, ...]
    by_nccl: bool
    evidence: tuple[Evidence, ...]


@question
def process_limits(facts: Printed) -> tuple[Limit, ...]:
    failures = facts["failures"].filter(pl.col("level") == "WARN")
    said = pl.concat_str(pl.col("errno_text", "error", "text").fill_null(""), separator=" ")
    starts_thread = (pl.col("category") == "thread_failed") | pl.col("call").is_in(_THREAD_CALLS)
    ours = failures.select(
        "proc", "source", "line", "call", said=said, starts_thread=starts_thread.fill_null(False), nccl=pl.lit(True)
    )
    around = facts["around"].filter(pl.col("event").is_in(["python_error", "cpp_terminate"]))
    theirs = around.select(
        "proc", "source", "line", call=pl.lit(None, pl.String),
        said=pl.concat_str(pl.col("exception", "text").fill_null(""), separator=" "),
        starts_thread=pl.lit(False), nccl=pl.lit(False),
    )  # fmt: skip
    rows = pl.concat([ours, theirs]).with_columns(
        kind=pl.when(pl.col("said").str.contains(_FILES)).then(pl.lit(FILES))
        .when(pl.col("said").str.contains(_THREADS)).then(pl.lit(THREADS))
        .when(pl.col("starts_thread") & pl.col("said").str.contains(_EAGAIN)).then(pl.lit(THREADS))
    )  # fmt: skip
    rows = rows.drop_nulls("kind").join(facts.machine_table, on="proc", how="left", maintain_order="left")
    found = []
    for kind in (FILES, THREADS):
        part = rows.filter(pl.col("kind") == kind)
        if part.height:
            first = part.sort("nccl", descending=True, maintain_order=True).unique(
                "machine", keep="first", maintain_order=True
            )
            found.append(
                Limit(
                    kind,
                    tuple(part.get_column("machine").drop_nulls().unique().sort()),
                    tuple(part.get_column("call").drop_nulls().unique().sort()),
                    bool(part.get_column("nccl").any()),
                    tuple(facts.evidence(*at) for at in first.select("source", "line").head(MAX_EVIDENCE).iter_rows()),
                )
            )
    return tuple(found)
