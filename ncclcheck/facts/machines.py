"""Which machine is a process on?

The host of a prefix is `gethostname()` cut at the first dot, so two machines can print the same one; a launcher's label
or the addresses tell them apart. Machines are never joined by likeness of their names.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.schema import table

# Interfaces that have the same address on every machine, or none of its own.
_EVERYWHERE = ["lo", "docker0", "virbr0"]


def one_process_each(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables with one number per process.

    A launcher's label is missing where output without a line's end stands before a record, and a word before a record
    can look like a label. So one (input, host, pid) is one process, unless several labels claim a good part of its
    records: containers have small pids that repeat.
    """
    processes = table(tables, "processes")
    who = ["source", "host", "pid"]
    known = processes.filter(pl.col("host").is_not_null() & pl.col("pid").is_not_null())
    several = known.filter(pl.len().over(who) > 1)
    if several.height == 0:
        return dict(tables)
    labelled = pl.col("task").is_not_null() | pl.col("label_host").is_not_null()
    records = _records_of(tables, several.get_column("proc"))
    several = several.join(records, on="proc", how="left").with_columns(pl.col("records").fill_null(0))
    # a label of few records is an accident; two real ones make two processes
    real = labelled & (pl.col("records") * 8 >= pl.col("records").max().over(who))
    merged = several.with_columns(real=real).filter(pl.col("real").sum().over(who) <= 1)
    into = merged.with_columns(
        target=pl.col("proc")
        .sort_by(pl.col("real"), pl.col("records"), -pl.col("proc").cast(pl.Int64))
        .last()
        .over(who),
        of_process=pl.col("release").drop_nulls().first().over(who),
    )
    numbers = into.select("proc", "target")
    releases = into.filter(pl.col("proc") == pl.col("target")).select("proc", "of_process")
    joined = {name: _renumbered(frame, numbers) for name, frame in tables.items()}
    gone = numbers.filter(pl.col("proc") != pl.col("target")).get_column("proc")
    joined["processes"] = (
        processes.filter(~pl.col("proc").is_in(gone.implode()))
        .join(releases, on="proc", how="left", maintain_order="left")
        .with_columns(release=pl.coalesce("of_process", "release"))
        .drop("of_process")
    )
    return joined


def _records_of(tables: Mapping[str, pl.DataFrame], procs: pl.Series) -> pl.DataFrame:
    """`proc`, `records`: how many rows of facts each of these processes has."""
    counts = [
        frame.filter(pl.col("proc").is_in(procs.implode())).group_by("proc").len("records")
        for name, frame in tables.items()
        if name != "processes" and "proc" in frame.columns
    ]
    none = pl.DataFrame(schema={"proc": pl.UInt32, "records": pl.UInt32})
    return pl.concat([none, *counts]).group_by("proc").agg(pl.col("records").sum())


def _renumbered(frame: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    if "proc" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("proc").replace(numbers.get_column("proc"), numbers.get_column("target")))


def machine_of(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """`proc` and `machine` for every process; null: no host, or one that several machines have and no address."""
    processes = table(tables, "processes").select("proc", "source", "host", "pid", "label_host")
    base = pl.coalesce("label_host", pl.when(pl.col("host") == "").then(pl.lit("(no name)")).otherwise("host"))
    processes = processes.with_columns(base=_plain_names(processes, base))
    # a word before a line that is not NCCL's is a machine only if NCCL's records name it too
    nccl = pl.col("host").is_not_null() | pl.col("pid").is_not_null()
    processes = processes.with_columns(
        base=pl.when(nccl | pl.col("base").is_in(pl.col("base").filter(nccl).implode())).then("base")
    )
    machines = processes.join(
        _telling_address(processes, table(tables, "interfaces")), on="proc", how="left", maintain_order="left"
    )
    known = pl.col("address").drop_nulls()
    here = ["source", "base"]
    only = pl.when(known.n_unique().over(here) == 1).then(known.first().over(here))
    machines = machines.with_columns(split=known.n_unique().over("base") > 1, address=pl.coalesce("address", only))
    name = pl.when(~pl.col("split")).then("base").otherwise(pl.concat_str("base", pl.lit("@"), "address"))
    return machines.select("proc", name.alias("machine"))


def _telling_address(processes: pl.DataFrame, interfaces: pl.DataFrame) -> pl.DataFrame:
    """`proc` and `address` of the interface that has different addresses under one name of a machine."""
    named = processes.drop_nulls("base").select("proc", "base").join(addresses(interfaces), on="proc")
    best = (
        named.group_by("base", "name")
        .agg(
            pl.col("address").n_unique().alias("addresses"),
            pl.col("proc").n_unique().alias("procs"),
            pl.col("order").min(),
        )
        .filter(pl.col("addresses") > 1)
        .sort("base", -pl.col("procs").cast(pl.Int64), "order", "name")
        .unique("base", keep="first", maintain_order=True)
        .select("base", "name")
    )
    told = (
        named.join(best, on=["base", "name"])
        .unique("proc", keep="first", maintain_order=True)
        .select("proc", "base", "address")
    )
    if told.height == 0:
        return told.select("proc", "address")
    # who does not print that interface may share another one with somebody who does
    others = named.join(told, on="proc", how="anti").join(best.select("base"), on="base", how="semi")
    shared = (
        named.join(told.select("proc", telling="address"), on="proc")
        .select("base", "name", "address", "telling")
        .unique()
    )
    lent = others.join(shared, on=["base", "name", "address"]).group_by("proc").agg(pl.col("telling").unique())
    lent = lent.filter(pl.col("telling").list.len() == 1).select("proc", address=pl.col("telling").list.first())
    return pl.concat([told.select("proc", "address"), lent])


def told_apart_by_device(
    tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame | None:
    """Machines of one name whose addresses do not tell them apart (blanked out by whoever posted the log): the new
    `proc` and `machine`, or None where there are none.

    A device occurs once on a machine. If several ranks of one communicator have the same one, they are on several
    machines where NCCL counts fewer ranks in the node than were seen, or where two of them are joined over a network
    (and NCCL does not complain of a GPU used twice). The first ranks of each device are taken for one machine, the
    second ones for another.
    """
    here = ["cid", "machine"]
    device = [*here, "bus_id", "nvml_dev"]
    known = members.filter(
        pl.col("machine").is_not_null()
        & ~pl.col("ambiguous")
        & (pl.col("bus_id").is_not_null() | pl.col("nvml_dev").is_not_null())
    )
    several = known.select(*device, "proc").unique().group_by(device).len().filter(pl.col("len") > 1)
    known = known.join(several.select(here).unique(), on=here, how="semi", maintain_order="left")
    if known.height == 0:
        return None
    failures = table(tables, "failures")
    complained = failures.select((pl.col("category") == "duplicate_gpu").any()).item()
    networked = _joined_over_network(tables, known)
    more = pl.col("rank").n_unique().over(here) > pl.col("local_ranks").min().over(here)
    apart = known.filter(more.fill_null(False) | (pl.lit(not complained) & pl.col("cid").is_in(networked.implode())))
    apart = apart.sort("cid", "rank").with_columns(number=pl.int_range(pl.len()).over(device))
    # the largest communicator tells; a process is on one machine
    first = apart.filter(pl.col("cid") == pl.col("cid").min().over("proc"))
    numbers = first.group_by("proc").agg(pl.col("number").unique(), pl.col("machine").first().alias("name"))
    if numbers.height == 0 or numbers.select((pl.col("number").list.len() > 1).any()).item():
        return None
    numbers = numbers.select("proc", "name", number=pl.col("number").list.first() + 1)
    names = numbers.get_column("name").unique()
    placed = machines.join(numbers, on="proc", how="left", maintain_order="left")
    machine = (
        pl.when(pl.col("number").is_not_null()).then(pl.format("{}@{}", "machine", "number"))
        .when(~pl.col("machine").is_in(names.implode())).then("machine")
    )  # fmt: skip
    return placed.select("proc", machine.alias("machine"))


def _joined_over_network(tables: Mapping[str, pl.DataFrame], members: pl.DataFrame) -> pl.Series:
    """Communicators (`cid`) of which two ranks with one device on one machine are joined over a network."""
    edges = (
        table(tables, "edges")
        .filter(pl.col("transport") == "NET")
        .select("proc", "src", "dst", "src_dev", "dst_dev")
        .unique()
    )
    edges = edges.filter(pl.col("src_dev").eq_missing(pl.col("dst_dev")))
    who = members.select("proc", "cid", "machine", "rank", "bus_id", "nvml_dev")
    peers = who.drop("proc").rename({"rank": "peer"})
    same = ["cid", "machine", "bus_id", "nvml_dev"]
    found = who.join(edges, on="proc").filter((pl.col("rank") == pl.col("src")) | (pl.col("rank") == pl.col("dst")))
    found = found.with_columns(peer=pl.when(pl.col("rank") == pl.col("src")).then("dst").otherwise("src"))
    return found.join(peers, on=[*same, "peer"], nulls_equal=True).get_column("cid").unique()


def _plain_names(processes: pl.DataFrame, base: pl.Expr) -> pl.Series:
    """Where label and prefix name the same machines one to one, the prefix's name is the better one to print."""
    named = processes.select(base.alias("base"), "host", "label_host")
    pairs = named.drop_nulls().unique()
    one_to_one = pairs.filter(pl.len().over("label_host") == 1, pl.len().over("host") == 1, pl.col("host") != "")
    return named.get_column("base").replace(one_to_one.get_column("label_host"), one_to_one.get_column("host"))


def addresses(interfaces: pl.DataFrame) -> pl.DataFrame:
    """`proc`, `name`, `address` and `order` of the interfaces that can tell machines apart, bootstrap before sockets
    before out-of-band."""
    use = pl.col("use").replace_strict({"bootstrap": 0, "socket": 1, "oob": 2}, return_dtype=pl.Int64, default=3)
    usable = (
        ~pl.col("name").is_in(_EVERYWHERE)
        & (pl.col("address") != "")
        & ~pl.col("address").str.contains(r"^127\.|^::1$|^0\.0\.0\.0$")
        & ~pl.col("address").str.contains("[xX*]")  # blanked out by whoever posted the log
    )
    order = (use * 1000 + pl.col("index").fill_null(0)).alias("order")
    return interfaces.filter(usable).select("proc", "name", "address", order).unique(maintain_order=True)
