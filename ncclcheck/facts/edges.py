"""Channel lines: whose communicator, which kind, between machines or inside one?

Channel lines carry no communicator. Candidates are those whose rank in this process is the printing side; where several
are left, a question counts as answered only if all of them give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.schema import table

_LOOK = ["proc", "own", "src", "dst", "src_dev", "dst_dev", "direction", "transport", "method", "network", "net_dev",
         "gdr", "proxy_rank", "read", "is_p2p"]  # fmt: skip


def printed_edges(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The edges with `own` and `peer` rank and `own_dev`. Source ranks print P2P and SHM, both ends print NET."""
    edges = table(tables, "edges")
    receiving = pl.col("direction").eq_missing("receive")
    return edges.with_columns(
        own=pl.when(receiving).then("dst").otherwise("src"),
        peer=pl.when(receiving).then("src").otherwise("dst"),
        own_dev=pl.when(receiving).then("dst_dev").otherwise("src_dev"),
        is_p2p=pl.col("conn").eq_missing(1),
    )


def edge_groups(edges: pl.DataFrame, members: pl.DataFrame, machines: pl.DataFrame, crossing: pl.DataFrame) -> pl.DataFrame:
    """Edges of one process that look alike, with machine, communicator (`cid`, null: not decided) and `scope`.

    crossing: per `cid` whether it goes between machines (true, false or null).
    """
    groups = edges.group_by(*_LOOK, "peer", "own_dev", maintain_order=True).agg(
        pl.col("source").first(),
        pl.col("line").min(),
        pl.col("tid").first(),
        pl.col("channel").alias("channels"),
        edges=pl.len(),
    )
    groups = groups.join(machines, on="proc", how="left", maintain_order="left").with_row_index("group")
    candidates = _candidates(groups, members)
    return _scoped(groups, candidates, members, crossing).drop("group")


def _candidates(groups: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """`group`, `cid`: the communicators that an edge may belong to."""
    joined = groups.select("group", "proc", "own", "peer", "own_dev", "tid", "line").join(
        members.select("proc", pl.col("rank").alias("own"), "nranks", "nvml_dev", "cuda_dev", "bus_id", "first_line",
                       "last_line", pl.col("tid").alias("comm_tid"), "completed", "cid"),
        on=["proc", "own"],
    )  # fmt: skip
    device = pl.col("own_dev")
    same_device = (
        device.is_null()
        | (device == pl.col("bus_id"))
        | (device == pl.col("nvml_dev").cast(pl.String))
        | (device == pl.col("cuda_dev").cast(pl.String))
        | (pl.col("bus_id").is_null() & pl.col("nvml_dev").is_null())
    )
    fits = same_device.fill_null(True) & (pl.col("nranks").is_null() | (pl.col("nranks") > pl.col("peer")))
    joined = joined.filter(fits).with_columns(
        during=(pl.col("tid") == pl.col("comm_tid"))
        & (pl.col("line") >= pl.col("first_line"))
        & (pl.col("line") <= pl.col("last_line"))
    )
    # lines between START and COMPLETE on one thread belong to that communicator
    return joined.filter(pl.col("during") | ~pl.col("during").any().over("group")).select("group", "cid").unique()


def _scoped(groups: pl.DataFrame, candidates: pl.DataFrame, members: pl.DataFrame, crossing: pl.DataFrame) -> pl.DataFrame:
    where = members.select("cid", pl.col("rank").alias("peer"), pl.col("machine").alias("peer_machine")).unique(
        ["cid", "peer"], keep="none" if members.get_column("ambiguous").any() else "any"
    )
    judged = (
        candidates.join(groups.select("group", "peer", "machine", "transport"), on="group")
        .join(where, on=["cid", "peer"], how="left")
        .join(crossing, on="cid", how="left")
    )
    same, net = pl.col("machine") == pl.col("peer_machine"), pl.col("transport") == "NET"
    between = (
        pl.when(~net).then(False)
        .when(pl.col("nnodes") == 1).then(False)
        .when(pl.col("peer_machine").is_not_null() & pl.col("machine").is_not_null()).then(~same)
        # the peer's log is not here: a network edge of a communicator that goes between machines
        .when(pl.col("crosses")).then(True)
    )  # fmt: skip
    verdicts = judged.with_columns(between=between).group_by("group").agg(
        pl.col("between").drop_nulls().n_unique().alias("answers"),
        pl.col("between").null_count().alias("open"),
        pl.col("between").first(),
        pl.col("cid").first(),
        pl.len().alias("candidates"),
    )
    agreed = (pl.col("answers") == 1) & (pl.col("open") == 0)
    verdicts = verdicts.select(
        "group",
        scope=pl.when(agreed).then(pl.when("between").then(pl.lit("between")).otherwise(pl.lit("inside"))),
        cid=pl.when(pl.col("candidates") == 1).then("cid"),
    )
    scoped = groups.join(verdicts, on="group", how="left", maintain_order="left")
    return scoped.with_columns(scope=pl.coalesce("scope", _without_communicator(groups), pl.lit("unknown")))


def _without_communicator(groups: pl.DataFrame) -> pl.Series:
    """Excerpts without init lines: a rank is where it prints. Used only where a rank prints on one machine alone."""
    ranks = groups.select(pl.col("own").alias("peer"), pl.col("machine").alias("peer_machine")).unique().drop_nulls()
    ranks = ranks.filter(pl.len().over("peer") == 1)
    found = groups.select("peer", "machine", "transport").join(ranks, on="peer", how="left", maintain_order="left")
    between = (
        pl.when(pl.col("transport") != "NET").then(pl.lit("inside"))
        .when(pl.col("machine") != pl.col("peer_machine")).then(pl.lit("between"))
    )  # fmt: skip
    return found.select(between.alias("scope")).get_column("scope")


def ring_edges(
    tables: Mapping[str, pl.DataFrame], edges: pl.DataFrame, groups: pl.DataFrame, members: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """Network edges between machines that belong to rings, one row per printed line, and how many could not be decided.

    A ring edge follows the order that rank 0 prints (`Channel 00/08 : 0 1 2 ...`). Where rank 0 is not in the input, the
    edges before `Connected all rings` on one thread are those of rings.
    """
    look = [*_LOOK, "peer", "own_dev"]
    between = groups.filter((pl.col("scope") == "between") & (pl.col("transport") == "NET") & ~pl.col("is_p2p"))
    printed = edges.filter((pl.col("transport") == "NET") & ~pl.col("is_p2p"))
    printed = printed.join(between.select(*look, "cid", "machine", "device"), on=look, nulls_equal=True)
    if printed.height == 0:
        return printed.with_columns(ring=pl.lit(False)), 0
    printed = printed.with_columns(pl.col("cid").cast(pl.Int64).fill_null(-1))
    order = _successors(tables, members)
    ringed = order.select(pl.col("cid").unique()).get_column("cid").to_list()
    in_order = printed.join(order.with_columns(follows=pl.lit(True)), on=["cid", "channel", "src", "dst"], how="left")
    by_order = pl.when(pl.col("cid").is_in(ringed)).then(pl.col("follows").fill_null(False))
    in_order = in_order.with_columns(by_order=by_order)
    connected = table(tables, "connected").select("proc", "tid", "line", "what").sort("line")
    placed = in_order.sort("line").join_asof(connected, on="line", by=["proc", "tid"], strategy="forward", check_sortedness=False)
    ring = pl.coalesce("by_order", pl.col("what") == "rings")
    placed = placed.with_columns(ring=ring)
    undecided = placed.get_column("ring").null_count()
    return placed.filter(pl.col("ring").fill_null(False)), undecided


def _successors(tables: Mapping[str, pl.DataFrame], members: pl.DataFrame) -> pl.DataFrame:
    """`cid` (-1: excerpts without init lines), `channel`, `src`, `dst`: b follows a in the ring of that channel."""
    rings = table(tables, "rings").filter(pl.col("ranks").list.len() > 1)
    rings = rings.with_columns(size=pl.col("ranks").list.len().cast(pl.Int64)).with_row_index("ring")
    owners = rings.select("ring", "proc", "tid", "line", "size").join(
        members.select("proc", pl.col("nranks").alias("size"), pl.col("tid").alias("comm_tid"), "first_line", "last_line", "cid"),
        on=["proc", "size"], how="left",
    )  # fmt: skip
    during = (pl.col("tid") == pl.col("comm_tid")) & pl.col("line").is_between("first_line", "last_line")
    owners = owners.with_columns(during=during.fill_null(False))
    owners = owners.filter(pl.col("during") | ~pl.col("during").any().over("ring")).select("ring", "cid").unique()
    rings = rings.join(owners, on="ring", how="left")
    following = pl.concat_list(pl.col("ranks").list.slice(1), pl.col("ranks").list.first())
    pairs = rings.select(pl.col("cid").cast(pl.Int64).fill_null(-1), "channel", src="ranks", dst=following).explode("src", "dst")
    return pairs.unique()
