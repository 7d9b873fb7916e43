"""Channel lines: whose communicator, which kind, between machines or inside one?

Channel lines carry no communicator. Candidates are those whose rank in this process is the printing side; where several
are left, a question counts as answered only if all of them give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.communicators import FOREVER, at_init, same_device
from ncclcheck.facts.schema import table

# `cid` of ring edges of inputs that have no init lines at all.
NO_INIT = -1


def printed_edges(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The edges with `own` and `peer` rank and `own_dev`. Source ranks print P2P and SHM, both ends print NET."""
    edges = table(tables, "edges")
    receiving = pl.col("direction").eq_missing("receive")
    return edges.with_columns(
        own=pl.when(receiving).then("dst").otherwise("src"),
        peer=pl.when(receiving).then("src").otherwise("dst"),
        own_dev=pl.when(receiving).then("dst_dev").otherwise("src_dev"),
        peer_dev=pl.when(receiving).then("src_dev").otherwise("dst_dev"),
        is_p2p=pl.col("conn").eq_missing(1),
    )


def alike(members: pl.DataFrame, crossing: pl.DataFrame) -> pl.DataFrame:
    """The members with `like`: the first communicator with the same ranks on the same GPUs. Jobs make many of one kind,
    and for most questions it does not matter to which of them a line belongs.

    crossing: per `cid` whether it goes between machines (true, false or null) and its `nnodes`.
    """
    gpu = (pl.col(name).cast(pl.String).fill_null("-") for name in ("rank", "bus_id", "nvml_dev", "cuda_dev"))
    seat = pl.concat_str(pl.col("machine").fill_null(pl.format("? {}", "cid")), *gpu, separator=" ")
    looks = members.group_by("cid").agg(seat.sort().str.join("|").alias("seats"), pl.col("nranks").max())
    looks = looks.join(crossing, on="cid", how="left")
    likes = looks.select("cid", like=pl.col("cid").min().over("seats", "nranks", "nnodes", "crosses"))
    return members.join(likes, on="cid", how="left", maintain_order="left")


def edge_groups(
    edges: pl.DataFrame, members: pl.DataFrame, machines: pl.DataFrame, crossing: pl.DataFrame
) -> pl.DataFrame:
    """Edges of one process that look alike, with machine and `scope`, and whose they are: `cid`, that of the first
    communicator of its kind, null where several are possible; `like`, null where communicators of other kinds are
    possible as well; `candidates`, how many kinds are possible. members and crossing: see `alike`.
    """
    placed = edges.with_columns(member=at_init(edges, members), era=_era(edges, members))
    placed = placed.join(members.select("member", of="like"), on="member", how="left", maintain_order="left")
    # a process that makes communicator after communicator of one kind prints the same edges again and again
    alike = ["proc", "look", "of", "era"]
    printed = placed.group_by(alike).agg(edges=pl.col("lines").list.len().sum())
    placed = placed.unique([*alike, "channels"], keep="first", maintain_order=True)
    lists = ["channels", "lines"]
    others = [name for name in placed.columns if name not in (*alike, *lists)]
    groups = placed.group_by(alike, maintain_order=True).agg(pl.col(others).first(), pl.col(lists).explode())
    groups = groups.join(printed, on=alike, how="left", nulls_equal=True, maintain_order="left")
    groups = groups.join(machines, on="proc", how="left", maintain_order="left").with_row_index("group")
    crossing = crossing.rename({"cid": "like"})
    return _scoped(groups, _candidates(groups, members), crossing).drop("group", "member", "era", "of", "look")


def _era(edges: pl.DataFrame, members: pl.DataFrame) -> pl.Series:
    """How many kinds of communicators have started in the process: the candidates for an edge are of the same kinds
    until one of another kind starts."""
    starts = members.filter("started").sort("first_line").unique(["proc", "like"], keep="first", maintain_order=True)
    starts = starts.select("proc", line="first_line", era=pl.int_range(pl.len()).over("proc") + 1)
    placed = (
        edges.select("proc", "line")
        .with_row_index("row")
        .sort("line")
        .join_asof(starts, on="line", by="proc", strategy="backward", check_sortedness=False)
        .sort("row")
    )
    return placed.get_column("era").fill_null(0)


def _candidates(groups: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """`group`, `like`, `cid`, `peer_machine`: the communicators that an edge may belong to, with every machine on which
    the peer may be (several rows where a communicator is ambiguous)."""
    gpu = ["release", "nvml_dev", "cuda_dev", "bus_id"]
    since = pl.when("started").then("first_line").otherwise(0).alias("since")
    members = members.with_columns(since)
    own = members.group_by("proc", pl.col("rank").alias("own"), "like", *gpu, maintain_order=True).agg(
        pl.col("nranks").max(), pl.col("until").max(), pl.col("since").min(), pl.col("cid").sort_by("since").first(),
        # from here on there are two of this kind
        second=pl.col("since").sort().get(1, null_on_oob=True).fill_null(FOREVER),
    )  # fmt: skip
    joined = groups.select("group", "proc", "own", "peer", "own_dev", "peer_dev", "line", "member").join(
        own, on=["proc", "own"]
    )
    alive = pl.col("line").is_between("since", "until", closed="left")
    large_enough = pl.col("nranks").is_null() | (pl.col("nranks") > pl.col("peer"))
    joined = joined.filter(alive & large_enough & same_device(pl.col("own_dev")))
    # lines between START and COMPLETE on one thread belong to that communicator
    at_work = members.select("member", of="cid", kind="like")
    joined = joined.join(at_work, on="member", how="left")
    during = (pl.col("like") == pl.col("kind")).fill_null(False)
    joined = joined.filter(during | ~during.any().over("group"))
    cid = pl.when(during).then("of").when(pl.col("line") < pl.col("second")).then("cid")
    peers = members.select("like", pl.col("rank").alias("peer"), *gpu, pl.col("machine").alias("peer_machine"),
                           peer_seen=pl.lit(True)).unique()  # fmt: skip
    joined = joined.select("group", "like", "peer", "peer_dev", cid=cid).join(peers, on=["like", "peer"], how="left")
    possible = joined.filter(pl.col("peer_seen").is_null() | same_device(pl.col("peer_dev")))
    return possible.select("group", "like", "cid", "peer_machine").unique()


def _scoped(groups: pl.DataFrame, candidates: pl.DataFrame, crossing: pl.DataFrame) -> pl.DataFrame:
    judged = candidates.join(groups.select("group", "machine", "transport"), on="group").join(
        crossing, on="like", how="left"
    )
    same, net = pl.col("machine") == pl.col("peer_machine"), pl.col("transport") == "NET"
    between = (
        pl.when(~net).then(False)
        .when(pl.col("nnodes") == 1).then(False)
        .when(pl.col("peer_machine").is_not_null() & pl.col("machine").is_not_null()).then(~same)
        # the peer's log is not here: a network edge of a communicator that goes between machines
        .when(pl.col("crosses")).then(True)
    )  # fmt: skip
    verdicts = (
        judged.with_columns(between=between)
        .group_by("group")
        .agg(
            pl.col("between").drop_nulls().n_unique().alias("answers"),
            pl.col("between").null_count().alias("open"),
            pl.col("between").first(),
            pl.col("cid", "like").first(),
            pl.col("like").n_unique().alias("candidates"),
        )
    )
    agreed = (pl.col("answers") == 1) & (pl.col("open") == 0)
    verdicts = verdicts.select(
        "group", "candidates",
        pl.when(pl.col("candidates") == 1).then(pl.col("cid", "like")),
        scope=pl.when(agreed).then(pl.when("between").then(pl.lit("between")).otherwise(pl.lit("inside"))),
    )  # fmt: skip
    scoped = groups.join(verdicts, on="group", how="left", maintain_order="left").with_columns(
        pl.col("candidates").fill_null(0)
    )
    excerpt = pl.when(pl.col("candidates") == 0).then(_without_communicator(groups))
    return scoped.with_columns(scope=pl.coalesce("scope", excerpt, pl.lit("unknown")))


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


def ring_edges(tables: Mapping[str, pl.DataFrame], groups: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Network edges between machines that belong to rings. Communicators of one kind give one row per end of an edge;
    `cid` is their `like`.

    A ring edge follows the order that rank 0 prints (`Channel 00/08 : 0 1 2 ...`). Where that is not in the input, the
    edges before `Connected all rings` on one thread are those of rings. Edges that may belong to several communicators,
    or to one whose ranks could not be told apart, are not decided and left out.
    """
    between = groups.filter((pl.col("scope") == "between") & (pl.col("transport") == "NET") & ~pl.col("is_p2p"))
    twins = members.filter("ambiguous").get_column("like").unique()
    excerpt = (pl.col("candidates") == 0) & pl.lit(members.height == 0)
    own = ~pl.col("like").is_in(twins.implode())
    cid = pl.when(excerpt).then(NO_INIT).when(own).then(pl.col("like").cast(pl.Int64)).alias("cid")
    look = ["proc", "machine", "device", "own_dev", "proxy_rank", "src", "dst", "src_dev", "dst_dev", "direction"]
    between = between.select(cid, *look, "tid", "source", "line", "channels", "lines").drop_nulls("cid")
    # jobs make many communicators of one kind, each with the same edges
    between = between.sort("source", "line").drop("line")
    between = between.unique(["cid", *look, "channels"], keep="first", maintain_order=True)
    printed = between.explode("channels", "lines").rename({"channels": "channel", "lines": "line"})
    # one end of one edge through several devices: lines of several communicators that look alike
    end = ["cid", "channel", "src", "dst", "src_dev", "dst_dev", "direction"]
    ways = printed.group_by(end).agg(pl.struct("machine", "device", "proxy_rank").n_unique().alias("ways"))
    printed = printed.join(ways.filter(pl.col("ways") == 1), on=end, nulls_equal=True, maintain_order="left")
    if printed.height == 0:
        return printed.with_columns(ring=pl.lit(False))
    order = _successors(tables, members)
    ringed = order.select("cid", "channel").unique().with_columns(ordered=pl.lit(True))
    edge = ["cid", "channel", "src", "dst"]
    in_order = printed.join(order.with_columns(follows=pl.lit(True)), on=edge, how="left").join(
        ringed, on=["cid", "channel"], how="left"
    )
    by_order = pl.when("ordered").then(pl.col("follows").fill_null(False))
    connected = table(tables, "connected").select("proc", "tid", "line", "what").sort("line")
    placed = (
        in_order.with_columns(by_order=by_order)
        .sort("line")
        .join_asof(connected, on="line", by=["proc", "tid"], strategy="forward", check_sortedness=False)
    )
    placed = placed.with_columns(ring=pl.coalesce("by_order", pl.col("what") == "rings"))
    ring = placed.filter(pl.col("ring").fill_null(False)).sort("source", "line")
    return ring.unique(end, keep="first", maintain_order=True)


def _successors(tables: Mapping[str, pl.DataFrame], members: pl.DataFrame) -> pl.DataFrame:
    """`cid` (NO_INIT: excerpts without init lines), `channel`, `src`, `dst`: dst follows src in that ring."""
    rings = (
        table(tables, "rings").with_columns(size=pl.col("ranks").list.len().cast(pl.Int64)).filter(pl.col("size") > 1)
    )
    # long lists are cut at the end of the line's room: only whole rings tell
    whole = (pl.col("ranks").list.n_unique() == pl.col("size")) & (pl.col("ranks").list.max() == pl.col("size") - 1)
    rings = rings.filter(whole)
    if members.height:
        owners = members.select("member", "nranks", cid=pl.col("like").cast(pl.Int64))
        rings = rings.with_columns(member=at_init(rings, members)).join(owners, on="member")
        rings = rings.filter(pl.col("size") == pl.col("nranks"))
    else:
        rings = rings.with_columns(cid=pl.lit(NO_INIT, pl.Int64))
    # channels repeat their rings, and communicators those of their likes
    rings = rings.unique(["cid", "channel", "ranks"])
    following = pl.concat_list(pl.col("ranks").list.slice(1), pl.col("ranks").list.first())
    return rings.select("cid", "channel", src="ranks", dst=following).explode("src", "dst").unique()
