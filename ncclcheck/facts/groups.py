"""How communicators lie over nodes: which would fit one node and span several all the same."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


class SpanningGroup(NamedTuple):
    """Communicators of one shape that would fit a node and span several, with more than one rank on a node.

    number: communicators like it. nranks, nnodes, local_ranks: of each. per_node: GPUs of a node that the job uses.
    interleaved: the ranks of a host are not consecutive in a larger communicator, as cyclic placement makes them.
    beside_inner: its processes are in groups inside the node as well, so that the two make up a plan of two dimensions.
    """

    number: int
    nranks: int
    nnodes: int
    local_ranks: int
    per_node: int
    interleaved: bool
    beside_inner: bool
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def spanning_groups(facts: Traffic) -> tuple[SpanningGroup, ...]:
    """By shape, largest first."""
    members = _counted(facts.members.filter(~pl.col("ambiguous")))
    if members.height == 0:
        return ()
    per_node = pl.col("local_ranks").max().over("proc")
    inner = (pl.col("nnodes") == 1) & (pl.col("nranks") > 1)
    members = members.with_columns(
        per_node=per_node,
        smallest_inner=pl.when(inner).then("nranks").min().over("proc"),
        interleaved=pl.col("cid").is_in(_interleaved(members).implode()).any().over("proc"),
    )
    spans = (pl.col("nnodes") > 1) & (pl.col("local_ranks") > 1) & (pl.col("local_ranks") < pl.col("nranks"))
    rows = members.filter(spans & (pl.col("nranks") <= pl.col("per_node")))
    inner_fits = pl.col("smallest_inner") * pl.col("local_ranks") <= pl.col("per_node")
    rows = rows.with_columns(beside_inner=inner_fits.fill_null(False)).sort("source", "last_line")
    shape = ["nranks", "nnodes", "local_ranks", "per_node"]
    found = rows.group_by(shape, maintain_order=True).agg(
        pl.col("cid").n_unique().alias("number"),
        pl.col("interleaved", "beside_inner").any(),
        pl.col("machine").drop_nulls().unique().sort(),
        where=pl.struct("source", line="nodes_line").head(MAX_EVIDENCE),
    )
    return tuple(
        SpanningGroup(
            row["number"], row["nranks"], row["nnodes"], row["local_ranks"], row["per_node"], row["interleaved"],
            row["beside_inner"], tuple(row["machine"]),
            tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]),
        )
        for row in found.sort("nranks", descending=True, maintain_order=True).iter_rows(named=True)
    )  # fmt: skip


@question
def nodes_known(facts: Traffic) -> bool:
    """Is it known of every communicator of several ranks how it lies over nodes?"""
    several = facts.members.filter((pl.col("nranks") > 1).fill_null(True))
    return several.height > 0 and _counted(several.filter(~pl.col("ambiguous"))).height == several.height


def _counted(members: pl.DataFrame) -> pl.DataFrame:
    """The members whose communicator has a count of nodes: NCCL's own, or before 2.20.3 that of the machines where all
    ranks are in the input. `nodes_line`: the line that tells."""
    whole = (pl.col("rank").n_unique() == pl.col("nranks").max()).over("cid") & pl.col(
        "machine"
    ).is_not_null().all().over("cid")
    machines, here = pl.col("machine").n_unique().over("cid"), pl.len().over("cid", "machine")
    counted = members.with_columns(
        nnodes=pl.coalesce("nnodes", pl.when(whole).then(machines.cast(pl.Int64))),
        local_ranks=pl.coalesce("local_ranks", pl.when(whole).then(here.cast(pl.Int64))),
        nodes_line="last_line",
    )
    return counted.drop_nulls(["nranks", "nnodes", "local_ranks"])


def _interleaved(members: pl.DataFrame) -> pl.Series:
    """Communicators (`cid`) in which the ranks of some machine are not consecutive."""
    placed = members.drop_nulls(["machine", "rank"]).unique(["cid", "rank"], keep="first").sort("cid", "rank")
    runs = placed.group_by("cid").agg(
        (pl.col("machine") != pl.col("machine").shift(1)).fill_null(True).sum().alias("runs"),
        pl.col("machine").n_unique().alias("machines"),
    )
    return runs.filter(pl.col("runs") > pl.col("machines")).get_column("cid")
