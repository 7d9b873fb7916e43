"""How many channels a communicator has for its collectives, and how many net devices it could use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.communicators import at_init
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.seen import Nic
from ncclcheck.facts.traffic import Traffic


class Channels(NamedTuple):
    """Channels of one communicator. counts: distinct numbers that its ranks print. gpus: its most ranks on one machine.
    devices: fewest net devices that one of its machines lists, 0: no list. evidence: the lines with the counts, lowest
    first."""

    cid: int
    counts: tuple[int, ...]
    gpus: int
    devices: int
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def channel_counts(facts: Traffic) -> tuple[Channels, ...]:
    """By communicator, of those that say how many channels they have; the largest first."""
    printed = _printed(facts)
    members = facts.members.filter(~pl.col("ambiguous"))
    if printed.height == 0 or members.height == 0:
        return ()
    placed = printed.with_columns(member=at_init(printed, members))
    # one communicator and one such line in a process: the thread does not matter
    only = members.group_by("proc").agg(pl.col("member").first().alias("only"), pl.len().alias("several"))
    only = only.filter(pl.col("several") == 1).join(printed.group_by("proc").len("said"), on="proc")
    placed = placed.join(only.filter(pl.col("said") == 1), on="proc", how="left", maintain_order="left")
    placed = placed.with_columns(member=pl.coalesce("member", "only")).join(
        members.select("member", "cid"), on="member", maintain_order="left"
    )
    found = placed.sort("channels", "source", "line").unique(["cid", "channels"], keep="first", maintain_order=True)
    found = found.group_by("cid").agg(
        pl.col("channels").unique().sort(), where=pl.struct("source", "line").head(MAX_EVIDENCE)
    )
    here = members.group_by("cid", "machine").agg(
        pl.max_horizontal(pl.col("rank").n_unique().cast(pl.Int64), pl.col("local_ranks").max()).alias("gpus")
    )
    sizes = here.group_by("cid").agg(pl.col("gpus").max(), pl.col("machine").drop_nulls().sort())
    listed = {machine: len(usable(nics)) for machine, nics in facts.nic_lists.items()}
    return tuple(
        Channels(
            row["cid"], tuple(row["channels"]), row["gpus"],
            min((listed[machine] for machine in row["machine"] if machine in listed), default=0),
            tuple(row["machine"]), tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]),
        )
        for row in found.join(sizes, on="cid").sort("cid").iter_rows(named=True)
    )  # fmt: skip


def _printed(facts: Traffic) -> pl.DataFrame:
    """`proc`, `tid`, `source`, `line`, `channels`: what every rank prints in the end, else the rings of rank 0."""
    said = facts["channels"].filter(pl.col("coll") > 0)
    if said.height:
        return said.select("proc", "tid", "source", "line", channels="coll")
    rings = facts["rings"].filter(pl.col("nchannels") > 0)
    return rings.select("proc", "tid", "source", "line", channels="nchannels").unique(
        ["proc", "tid", "channels"], keep="first", maintain_order=True
    )


def usable(nics: Sequence[Nic]) -> tuple[str, ...]:
    """Cards that a machine could use side by side: a merged device or two ports of a card count once, and of several
    link layers or rates only the most common kind."""
    merged = {part for nic in nics if "+" in nic.name for part in nic.name.split("+")}
    single = [nic for nic in nics if nic.name not in merged]
    kinds = [(nic.link, nic.gbit) for nic in single]
    most = max(kinds, key=kinds.count, default=None)
    return tuple(dict.fromkeys(nic.name.partition(":")[0] for nic in single if (nic.link, nic.gbit) == most))
