"""What shows that a job, or the init of a communicator, came to an end: errors that climbed out of NCCL, aborts,
connections given up, processes that died, timeouts.

Without an end on record a rank that says nothing more may still be at work.
"""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.deaths import deaths
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# An error that reaches these files of NCCL ends init or a collective; further down it may be a probe that fails.
_TOP_FILES = r"(?:^|/)(?:init|group|bootstrap|enqueue)\.c[cu]$"
# Results of NCCL that are no error: success, in progress.
_NO_ERROR = [0, 7]

ENDING = {"proc": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "what": pl.String}


@question
def endings(facts: Traffic) -> pl.DataFrame:
    """One row per line that tells of an end: proc (null: not known whose), source, line, what (in words)."""
    failures = facts["failures"]
    traces = failures.filter(
        (pl.col("category") == "error_trace")
        & pl.col("src_file").str.contains(_TOP_FILES)
        & ~pl.col("code").is_in(_NO_ERROR)
    )
    gave_up = failures.filter((pl.col("category") == "socket_connect_gaveup") & (pl.col("level") == "WARN"))
    aborts = facts["ends"].filter(pl.col("kind") == "Abort")
    watched = facts["around"].filter(pl.col("event").str.starts_with("watchdog"))
    paths = {path: source for source, path in reversed(list(enumerate(facts.paths)))}
    died = pl.DataFrame(
        [(None, paths[one.evidence.path], one.evidence.line, one.what) for one in deaths(facts)],
        schema=ENDING,
        orient="row",
    )
    parts = [
        traces.with_columns(what=pl.format("NCCL returned error {}", "code")),
        gave_up.with_columns(what=pl.lit("a connection was given up")),
        aborts.with_columns(what=pl.lit("the communicator was aborted")),
        watched.with_columns(what=pl.lit("PyTorch's watchdog ended it")),
        died,
    ]
    return pl.concat([part.select(*ENDING) for part in parts]).sort("source", "line", maintain_order=True)


def has_ended(facts: Traffic) -> bool:
    return endings(facts).height > 0
