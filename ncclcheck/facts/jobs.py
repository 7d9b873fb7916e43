"""Which processes are of one job (one run of it)?

Restarts append to one file, and files of several jobs are read together. What must agree within a job (settings,
versions, adapters) says nothing across two of them. A communicator ties its processes together. A process in none is
counted to the job of its input, if there is one only; if no communicator is known at all, all are taken for one job.
"""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


@question
def job_of(facts: Traffic) -> pl.DataFrame:
    """`proc` and `job` (a number) for every process; null: of several jobs, nothing tells which."""
    processes = facts["processes"].select("proc", "source")
    tied = _tied(facts.members.filter(~pl.col("ambiguous")).select("proc", "cid"))
    if tied.height == 0:
        return processes.select("proc", job=pl.lit(0, pl.UInt32))
    placed = processes.join(tied, on="proc", how="left", maintain_order="left")
    known = pl.col("job").drop_nulls()
    only_here = pl.when(known.n_unique().over("source") == 1).then(known.first().over("source"))
    only_one = pl.when(known.n_unique() == 1).then(known.first())
    return placed.select("proc", job=pl.coalesce("job", only_here, only_one))


@question
def processes_per_machine(facts: Traffic) -> int:
    """The most processes that one machine has, of those with a host and a process number; 0: none has."""
    known = facts["processes"].filter(pl.col("host").is_not_null() & pl.col("pid").is_not_null())
    each = known.join(facts.machine_table, on="proc").group_by("machine").agg(pl.col("host", "pid").n_unique())
    most = each.get_column("pid").max()
    return int(str(most)) if most is not None else 0


def _tied(pairs: pl.DataFrame) -> pl.DataFrame:
    """`proc`, `job`: processes that share communicators (`cid`), directly or through others, have the least of their
    numbers in common."""
    pairs = pairs.unique().with_columns(job="proc")
    while True:
        further = pairs.with_columns(pl.col("job").min().over("cid")).with_columns(pl.col("job").min().over("proc"))
        if further.equals(pairs):
            return further.select("proc", "job").unique("proc")
        # what a process has found out since helps all that point to it: long chains are short this way
        known = further.select("proc", "job").unique("proc")
        pairs = further.with_columns(pl.col("job").replace(known.get_column("proc"), known.get_column("job")))
