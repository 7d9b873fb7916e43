"""Do the ranks of one communicator use one network?"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from ncclcheck.facts import networks
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


class Mixture(NamedTuple):
    """A communicator whose ranks use networks that do not talk to each other.

    parts: per network its names and its machines, fewest machines first; sockets before others where even.
    """

    cid: int
    nranks: int | None
    parts: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def family(network: str) -> str:
    """Networks of one family talk to each other: the version of a plugin's interface does not matter, who made it does
    (NCCL's own InfiniBand transport and a plugin's do not understand each other)."""
    if networks.kind(network) == "efa":
        return "libfabric"
    return re.sub(r"_v\d+$", "", network)


@question
def mixtures(facts: Traffic) -> tuple[Mixture, ...]:
    """Communicators whose ranks use different networks, largest first; alike ones once."""
    used = _used(facts)
    families = {name: family(name) for name in used.get_column("network").unique().to_list()}
    used = used.with_columns(family=pl.col("network").replace_strict(families, return_dtype=pl.String))
    mixed = used.filter(pl.col("family").n_unique().over("cid") > 1)
    parts = mixed.group_by("cid", "family").agg(
        pl.col("network").unique().sort(), pl.col("machine").drop_nulls().unique().sort()
    )
    sizes = {communicator.id: communicator.nranks for communicator in facts.communicators if not communicator.ambiguous}
    found: dict[tuple[tuple[tuple[str, ...], tuple[str, ...]], ...], Mixture] = {}
    for cid, group in sorted(parts.partition_by("cid", as_dict=True).items()):
        if cid[0] not in sizes:
            continue
        rows = [(tuple(names), tuple(machines)) for names, machines in group.select("network", "machine").iter_rows()]
        rows.sort(key=lambda part: (len(part[1]), networks.kind(part[0][0]) != "socket", part))
        found.setdefault(tuple(rows), Mixture(cid[0], sizes[cid[0]], tuple(rows)))
    return tuple(found.values())


def _used(facts: Traffic) -> pl.DataFrame:
    """`cid`, `machine`, `network` of all ranks whose network is known: from their own words, and from their edges."""
    said = facts.said_networks.join(facts.machine_table, on="proc", how="left").select("cid", "machine", "network")
    edges = facts.edge_table.filter((pl.col("transport") == "NET") & pl.col("cid").is_not_null())
    shown = edges.select(pl.col("cid").cast(pl.UInt32), "machine", "network")
    return pl.concat([said, shown]).drop_nulls("network").unique()
