"""Which records belong to one communicator?

Pointers are per process and are used again after a destroy. Ids (`commId`) join ranks from 2.16.2 on, but splits of
2.23.4 and newer have none, and those of 2.18.3 to 2.22.3 share one among twins. So a membership (one rank of one
communicator) is found first, then its key: the id with the ordinal within the process; else the parent's key with split
counter and colour; else size and ordinal.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.schema import table

# Splits of splits of splits: deeper ones have not been seen.
_MAX_DEPTH = 8


def memberships(tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of a communicator that some process printed.

    Columns: proc, source, tid, machine, comm, rank, nranks, nvml_dev, cuda_dev, bus_id, nnodes, local_ranks, mnnvl,
    started, completed, first_line, last_line, key (of the communicator), ambiguous, cid (0, 1, ... by size, largest
    first).
    """
    inits = table(tables, "inits")
    if inits.height == 0:
        return pl.DataFrame(schema=_SCHEMA)
    inits = inits.with_columns(
        # records without a pointer (release 2.2) belong together by rank
        comm=pl.coalesce("comm", pl.format("rank {} of {}", "rank", "nranks"))
    ).sort("proc", "line", maintain_order=True)
    pointer = ["proc", "comm"]
    start, complete = pl.col("phase") == "START", pl.col("phase") == "COMPLETE"
    inits = inits.with_columns(
        instance=pl.when(start.any().over(pointer))
        .then(start.cast(pl.Int32).cum_sum().over(pointer))
        .otherwise((complete.cast(pl.Int32).cum_sum() - complete.cast(pl.Int32)).over(pointer))
    )
    known = ["rank", "nranks", "nvml_dev", "cuda_dev", "bus_id", "comm_id", "parent", "split", "color", "nnodes",
             "local_ranks", "mnnvl"]  # fmt: skip
    members = inits.group_by("proc", "comm", "instance", maintain_order=True).agg(
        pl.col("source", "tid").first(),
        *(pl.col(name).drop_nulls().first() for name in known),
        started=start.any(),
        completed=complete.any(),
        first_line=pl.col("line").min(),
        last_line=pl.col("line").max(),
    )
    members = members.join(machines, on="proc", how="left", maintain_order="left").with_row_index("member")
    members = _keyed(members)
    members = _told_apart(members)
    sizes = members.group_by("key").agg(pl.col("nranks").max(), pl.col("member").min())
    order = sizes.sort(pl.col("nranks").fill_null(0) * -1, "member").select("key").with_row_index("cid")
    return members.join(order, on="key", how="left", maintain_order="left").select(*_SCHEMA)


_SCHEMA = {
    "proc": pl.UInt32, "source": pl.UInt32, "tid": pl.UInt32, "machine": pl.String, "comm": pl.String, "rank": pl.Int64,
    "nranks": pl.Int64, "nvml_dev": pl.Int64, "cuda_dev": pl.Int64, "bus_id": pl.String, "nnodes": pl.Int64,
    "local_ranks": pl.Int64, "mnnvl": pl.Int64, "started": pl.Boolean, "completed": pl.Boolean,
    "first_line": pl.UInt32, "last_line": pl.UInt32, "key": pl.String, "ambiguous": pl.Boolean, "cid": pl.UInt32,
}  # fmt: skip


def _keyed(members: pl.DataFrame) -> pl.DataFrame:
    """Give every membership its communicator's key."""
    ordinal = pl.int_range(pl.len()).over("proc", "rank", "nranks", "comm_id", "parent")
    members = members.sort("member").with_columns(ordinal=ordinal)
    parents = members.select("proc", pl.col("comm").alias("parent"), "member", "first_line")
    owned = (
        members.filter(pl.col("comm_id").is_null() & pl.col("parent").is_not_null())
        .select("proc", "parent", pl.col("member").alias("child"), pl.col("first_line").alias("born"))
        .join(parents, on=["proc", "parent"])
        .filter(pl.col("first_line") < pl.col("born"))
        .sort("first_line")
        .group_by("child")
        .agg(pl.col("member").last().alias("parent_member"))
    )
    members = members.join(owned, left_on="member", right_on="child", how="left", maintain_order="left")
    by_id = pl.format("id {} {} {}", "comm_id", pl.col("nranks").fill_null(-1), "ordinal")
    by_size = pl.format("size {} {}", pl.col("nranks").fill_null(-1), "ordinal")
    split = pl.format("{} {}", pl.coalesce("split", "ordinal"), pl.col("color").fill_null(-1))
    orphan = pl.format("split of ? {} {}", pl.col("nranks").fill_null(-1), split)
    is_split = pl.col("comm_id").is_null() & pl.col("parent").is_not_null()
    members = members.with_columns(
        key=pl.when(pl.col("comm_id").is_not_null()).then(by_id)
        .when(is_split & pl.col("parent_member").is_null()).then(orphan)
        .when(~is_split).then(by_size),
        split_name=split,
    )  # fmt: skip
    for _ in range(_MAX_DEPTH):
        if members.get_column("key").null_count() == 0:
            break
        keys = members.select(pl.col("member").alias("parent_member"), pl.col("key").alias("parent_key"))
        members = members.join(keys, on="parent_member", how="left", maintain_order="left").with_columns(
            key=pl.coalesce("key", pl.format("{} / {}", "parent_key", "split_name"))
        ).drop("parent_key")
    return members.with_columns(pl.col("key").fill_null(orphan))


def _told_apart(members: pl.DataFrame) -> pl.DataFrame:
    """Twins under one key: a rank occurs twice. They are told apart if each machine holds a whole one."""
    doubled = pl.struct("rank", "proc").n_unique().over("key") > pl.col("rank").n_unique().over("key")
    if not members.select(doubled.any()).item():
        return members.with_columns(ambiguous=pl.lit(False))
    whole = (
        (pl.col("rank").n_unique().over("key", "machine") == pl.len().over("key", "machine"))
        & (pl.len().over("key", "machine") == pl.col("nranks"))
    ).all().over("key")
    apart = doubled & whole & pl.col("machine").is_not_null()
    return members.with_columns(
        ambiguous=doubled & ~apart,
        key=pl.when(apart).then(pl.format("{} on {}", "key", "machine")).otherwise("key"),
    )
