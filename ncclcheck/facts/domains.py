"""Ranks of one machine that NCCL does not count as one node, and network edges inside a machine.

A name proves little here: hosts are printed up to the first dot. Ranks of one name are on one machine for certain if
they print the same address for bootstrap, or if they are threads of one process.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.edges import NO_INIT
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.machines import addresses
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# Until here NCCL drops its NICs where all ranks are one node: a network edge there proves that they are not.
_NICS_STAY_FROM = 22807
# Containers of every machine get addresses of this network.
_DOCKER = r"^172\.17\."


class Inside(NamedTuple):
    """Ranks of one communicator on one machine, some of them joined over the network, or not in one node.

    ranks: how many are on the machine; local_ranks: how many of them NCCL counts in a node, None where it does not say.
    nranks: of the communicator. split: it is certain that they are several nodes; False: NCCL's choice; None: unknown.
    proven: that it is one machine. networks: on the edges; empty: no edge is printed.
    """

    machines: tuple[str, ...]
    ranks: int
    local_ranks: int | None
    nranks: int | None
    split: bool | None
    proven: bool
    networks: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def networked_inside(facts: Traffic) -> tuple[Inside, ...]:
    """By communicator and machine, those alike given once; the largest communicators first."""
    members = facts.members.filter(~pl.col("ambiguous")) if facts.members.height else _by_edges(facts)
    members = members.drop_nulls(["rank", "machine"])
    if members.height == 0:
        return ()
    members = members.join(_bootstrap(facts), on="proc", how="left").with_columns(pl.col("cid").cast(pl.Int64))
    here = members.group_by("cid", "machine").agg(
        pl.col("rank").n_unique().alias("ranks"),
        pl.col("local_ranks").min(),
        pl.col("nranks", "nnodes").max(),
        pl.col("release").max(),
        gpus=pl.struct("bus_id", "nvml_dev", "cuda_dev").n_unique(),
        proven=(pl.col("at").null_count() == 0) & (pl.col("at").n_unique() == 1) | (pl.col("proc").n_unique() == 1),
        where=pl.struct("source", line="last_line").sort_by("source", "last_line").head(MAX_EVIDENCE),
    )
    here = here.filter((pl.col("ranks") > 1) & (pl.col("gpus") == pl.col("ranks")))
    here = here.join(_net_edges(facts, members), on=["cid", "machine"], how="left").with_columns(
        networks=pl.col("networks").fill_null([])
    )
    fewer, edged = pl.col("local_ranks") < pl.col("ranks"), pl.col("networks").list.len() > 0
    whole = pl.col("ranks") == pl.col("nranks")
    split = (
        pl.when(fewer).then(True)
        .when(edged & (pl.col("local_ranks") == pl.col("ranks"))).then(False)
        .when(edged & whole & (pl.col("release") < _NICS_STAY_FROM)).then(True)
    )  # fmt: skip
    rows = here.with_columns(split=split).filter(fewer.fill_null(False) | edged).sort("cid", "machine")
    look = ["ranks", "local_ranks", "nranks", "split", "proven", "networks"]
    found = rows.group_by(look, maintain_order=True).agg(
        pl.col("machine").unique().sort(),
        where=pl.coalesce("edge_lines", "where").explode().head(MAX_EVIDENCE),
    )
    return tuple(
        Inside(
            tuple(row["machine"]), row["ranks"], row["local_ranks"], row["nranks"], row["split"],
            row["proven"], tuple(row["networks"]),
            tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]),
        )
        for row in found.iter_rows(named=True)
    )  # fmt: skip


def _by_edges(facts: Traffic) -> pl.DataFrame:
    """Members of an excerpt without init lines: the ranks that print channels, each in one process, and as many as a
    ring has."""
    sizes = facts["rings"].select(pl.col("ranks").list.len().max()).item() if facts["rings"].height else None
    printing = facts.edge_table.group_by(pl.col("own").alias("rank")).agg(
        pl.col("proc", "machine", "source").first(),
        pl.col("own_dev").first().alias("bus_id"),
        pl.col("line").min().alias("last_line"),
        pl.col("proc").n_unique().alias("procs"),
    )
    releases = facts["processes"].select("proc", "release")
    return printing.filter(pl.col("procs") == 1).join(releases, on="proc", how="left").with_columns(
        cid=pl.lit(NO_INIT, pl.Int64), nranks=pl.lit(sizes, pl.Int64), nnodes=pl.lit(None, pl.Int64),
        local_ranks=pl.lit(None, pl.Int64), nvml_dev=pl.lit(None, pl.Int64), cuda_dev=pl.lit(None, pl.Int64),
    )  # fmt: skip


def _bootstrap(facts: Traffic) -> pl.DataFrame:
    """`proc` and `at`: interface and address of its bootstrap."""
    usable = addresses(facts["interfaces"]).filter(~pl.col("address").str.contains(_DOCKER))
    first = usable.sort("order").unique("proc", keep="first", maintain_order=True)
    return first.select("proc", at=pl.format("{} {}", "name", "address"))


def _net_edges(facts: Traffic, members: pl.DataFrame) -> pl.DataFrame:
    """`cid`, `machine`, `networks`, `edge_lines`: network edges with both ends on one machine."""
    whose = pl.col("like").cast(pl.Int64) if facts.members.height else pl.lit(NO_INIT, pl.Int64)
    edges = facts.edge_table.filter(pl.col("transport") == "NET").with_columns(cid=whose).drop_nulls("cid")
    edges = edges.select("cid", "own", "peer", "network", "source", "line").sort("source", "line")
    edges = edges.unique(["cid", "own", "peer", "network"], keep="first", maintain_order=True)
    seat = members.select("cid", pl.col("rank").alias("own"), "machine").unique(["cid", "own"], keep="first")
    both = edges.join(seat, on=["cid", "own"]).join(
        seat.rename({"own": "peer"}), on=["cid", "peer", "machine"], how="semi"
    )
    return both.group_by("cid", "machine").agg(
        pl.col("network").drop_nulls().unique().sort().alias("networks"),
        pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE).alias("edge_lines"),
    )
