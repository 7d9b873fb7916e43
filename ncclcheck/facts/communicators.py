"""Which records belong to one communicator?

Pointers are per process and are used again after a destroy. Ids (`commId`) join ranks from 2.16.2 on, but splits of
2.23.4 and newer have none, and those of 2.18.3 to 2.22.3 share one among twins. So a membership (one rank of one
communicator) is found first, then its key: the id with the ordinal on the GPU; else the parent's key with split
counter and colour; else run, size and ordinal.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.schema import table

# More ranks than any job has: a number beyond is a torn or forged line, and tells nothing.
_MOST_RANKS = 1 << 20

# Splits of splits of splits: deeper ones have not been seen.
_MAX_DEPTH = 8

# What the brackets of channel lines hold: the CUDA device, the bus id or the NVML device.
_BUS_ID_FROM, _NVML_FROM = 20500, 21803


def memberships(tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of a communicator that some process printed.

    Columns: proc, source, tid, machine, comm, rank, nranks, nvml_dev, cuda_dev, bus_id, nnodes, local_ranks, mnnvl,
    started, completed, first_line, last_line, key (of the communicator), ambiguous, cid (0, 1, ... by size, largest
    first).
    """
    inits = table(tables, "inits")
    if inits.height == 0:
        return pl.DataFrame(schema=_SCHEMA)
    counts = pl.col("rank", "nranks", "nnodes", "local_ranks")
    inits = (
        inits.with_columns(pl.when(counts.is_between(0, _MOST_RANKS)).then(counts))
        .with_columns(
            # records without a pointer (release 2.2) belong together by rank
            comm=pl.coalesce("comm", pl.format("rank {} of {}", "rank", "nranks"))
        )
        .sort("proc", "line", maintain_order=True)
    )
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
    processes = table(tables, "processes").select("proc", "host", "pid", "release")
    members = members.join(processes, on="proc", how="left", maintain_order="left")
    members = _lives(_keyed(members))
    members = _told_apart(members, tables)
    sizes = members.group_by("key").agg(pl.col("nranks").max(), pl.col("member").min())
    order = sizes.sort(pl.col("nranks").fill_null(0) * -1, "member").select("key").with_row_index("cid")
    return members.join(order, on="key", how="left", maintain_order="left").select(*_SCHEMA)


_SCHEMA = {
    "member": pl.UInt32, "proc": pl.UInt32, "source": pl.UInt32, "tid": pl.UInt32, "machine": pl.String,
    "release": pl.Int32, "comm": pl.String, "rank": pl.Int64, "nranks": pl.Int64, "nvml_dev": pl.Int64,
    "cuda_dev": pl.Int64, "bus_id": pl.String, "nnodes": pl.Int64, "local_ranks": pl.Int64, "mnnvl": pl.Int64,
    "started": pl.Boolean, "completed": pl.Boolean, "first_line": pl.UInt32, "last_line": pl.UInt32,
    "begin": pl.UInt32, "end": pl.UInt32, "until": pl.UInt32, "key": pl.String,
    "ambiguous": pl.Boolean, "cid": pl.UInt32,
}  # fmt: skip

# Equal columns mean one membership, even if it stands in two inputs.
_SAME = ["host", "pid", "comm"]

# The last line there can be.
FOREVER = 2**32 - 1


def same_device(bracket: pl.Expr) -> pl.Expr:
    """Is this text in the brackets of a channel line the GPU of the membership in the same row; true where unknown."""
    told = (
        pl.when(pl.col("release") < _BUS_ID_FROM).then(bracket == pl.col("cuda_dev").cast(pl.String))
        .when(pl.col("release") < _NVML_FROM).then(bracket == pl.col("bus_id"))
        .when(pl.col("release").is_not_null()).then(bracket == pl.col("nvml_dev").cast(pl.String))
        .when(bracket.str.starts_with("0x")).then(bracket == pl.col("bus_id"))
        .otherwise((bracket == pl.col("nvml_dev").cast(pl.String)) | (bracket == pl.col("cuda_dev").cast(pl.String)))
    )  # fmt: skip
    return told.fill_null(True)


def at_init(rows: pl.DataFrame, members: pl.DataFrame) -> pl.Series:
    """The `member` whose init is under way on the thread of each row (proc, tid, line): null where none is."""
    windows = members.select("proc", "tid", pl.col("begin").alias("line"), "end", "member").sort("line")
    placed = (
        rows.select("proc", "tid", "line")
        .with_row_index("row")
        .sort("line")
        .join_asof(windows, on="line", by=["proc", "tid"], strategy="backward", check_sortedness=False)
        .sort("row")
    )
    return placed.select(pl.when(pl.col("line") <= pl.col("end")).then("member")).get_column("member")


def _lives(members: pl.DataFrame) -> pl.DataFrame:
    """begin, end: lines of init on the thread. until: line where the pointer becomes that of another communicator.

    Before 2.18.3 there is no START: init then begins where the one before on the same thread is complete. Init that
    does not complete goes on until the next one on its thread.
    """
    thread, pointer = ["proc", "tid"], ["proc", "comm"]
    members = members.sort("proc", "first_line", "member")
    before = pl.col("last_line").shift(1).over(thread) + 1
    begin = pl.when(pl.col("started") | ~pl.col("completed")).then("first_line").otherwise(before.fill_null(0))
    after = pl.col("first_line").shift(-1).over(thread) - 1
    end = pl.when("completed").then("last_line").otherwise(after.fill_null(FOREVER))
    until = pl.col("first_line").shift(-1).over(pointer).fill_null(FOREVER)
    return members.with_columns(
        begin=begin.cast(pl.UInt32), end=end.cast(pl.UInt32), until=until.cast(pl.UInt32)
    ).sort("member")  # fmt: skip


def _keyed(members: pl.DataFrame) -> pl.DataFrame:
    """Give every membership its communicator's key."""
    members = members.sort("member")
    # one process can drive several GPUs, each with ranks of its own
    gpu = pl.coalesce("bus_id", pl.col("nvml_dev", "cuda_dev", "rank").cast(pl.String)).fill_null("")
    size = pl.col("nranks").fill_null(-1)
    # in the order of the log: the same in every process of a communicator
    ordinal = pl.int_range(pl.len()).over("proc", "gpu", "nranks", "comm_id", "is_split", order_by="first_line")
    members = members.with_columns(
        gpu=gpu, is_split=pl.col("comm_id").is_null() & pl.col("parent").is_not_null()
    ).with_columns(ordinal=ordinal)
    parents = members.select(
        "proc", pl.col("comm").alias("parent"), pl.col("member").alias("parent_member"), "first_line"
    ).sort("first_line")
    # the latest one before: pointers are used again
    owned = (
        members.filter("is_split")
        .select("proc", "parent", "member", "first_line")
        .sort("first_line")
        .join_asof(parents, on="first_line", by=["proc", "parent"], allow_exact_matches=False, check_sortedness=False)
        .select("member", "parent_member")
    )
    members = members.join(owned, on="member", how="left", maintain_order="left")
    # 2.23.4 does not count the splits of a parent
    counted = pl.int_range(pl.len()).over("proc", "gpu", "parent", "parent_member", order_by="first_line")
    split = pl.format("{} {} {}", pl.coalesce("split", counted), pl.col("color").fill_null(-1), size)
    by_id = pl.format("id {} {} {}", "comm_id", size, "ordinal")
    by_size = pl.format("size {} {} run {}", size, "ordinal", "run")
    is_split = pl.col("is_split")
    members = members.with_columns(split_name=split, run=_run(members)).with_columns(
        key=pl.when(pl.col("comm_id").is_not_null()).then(by_id)
        .when(is_split & pl.col("parent_member").is_null()).then(pl.format("split of ? {}", "split_name"))
        .when(~is_split).then(by_size),
    )  # fmt: skip
    for _ in range(_MAX_DEPTH):
        if members.get_column("key").null_count() == 0:
            break
        keys = members.select(pl.col("member").alias("parent_member"), pl.col("key").alias("parent_key"))
        members = (
            members.join(keys, on="parent_member", how="left", maintain_order="left")
            .with_columns(key=pl.coalesce("key", pl.format("{} / {}", "parent_key", "split_name")))
            .drop("parent_key")
        )
    return members.with_columns(pl.col("key").fill_null(pl.format("split of ? {}", "split_name")))


def _run(members: pl.DataFrame) -> pl.Series:
    """Restarts append to one file: a rank that comes back on the same GPU in another process is the next run's."""
    seat = ["machine", "gpu", "rank", "nranks", "ordinal"]
    if members.select(seat).n_unique() == members.height:
        return pl.repeat(1, members.height, dtype=pl.UInt32, eager=True)
    place = pl.col("source").cast(pl.Int64) * 2**32 + pl.col("first_line").cast(pl.Int64)
    since = place.min().over(*seat, *_SAME)
    return members.select(since.rank("dense").over(seat)).to_series()


def _told_apart(members: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Twins under one key: a rank occurs twice. They are told apart if each machine holds a whole one, or if each is
    whole on GPUs of one place on all machines and the channel lines do not say otherwise."""
    doubled = pl.struct("rank", *_SAME).n_unique().over("key") > pl.col("rank").n_unique().over("key")
    members = members.with_columns(doubled=doubled)
    if not members.get_column("doubled").any():
        return members.with_columns(ambiguous=pl.lit(False))

    def whole(place: str) -> pl.Expr:
        here = ["key", place]
        once = pl.col("rank").n_unique().over(here) == pl.len().over(here)
        return (once & (pl.len().over(here) == pl.col("nranks")) & pl.col(place).is_not_null()).all().over("key")

    contradicted = _contradicted(members, tables)
    place = (
        pl.when(whole("machine")).then("machine")
        .when(whole("gpu") & ~pl.col("key").is_in(contradicted.implode())).then("gpu")
    )  # fmt: skip
    members = members.with_columns(place=pl.when("doubled").then(place))
    return members.with_columns(
        ambiguous=pl.col("doubled") & pl.col("place").is_null(),
        key=pl.coalesce(pl.format("{} on {}", "key", "place"), "key"),
    )


def _contradicted(members: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.Series:
    """Keys of twins of which a channel line joins GPUs of different places during init."""
    twins = members.filter("doubled")
    edges = table(tables, "edges").join(twins.select("proc").unique(), on="proc", how="semi")
    edges = edges.with_columns(member=at_init(edges, members)).join(twins, on="member", suffix="_of")
    differ = pl.col("src_dev") != pl.col("dst_dev")
    return edges.filter(differ).get_column("key").unique()
