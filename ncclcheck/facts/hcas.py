"""Adapters as the machines of one job list them: joined over processes, compared between machines.

A process lists what NCCL_IB_HCA leaves of the active ports. Where every rank is pinned to its own adapter, only the
lists of all ranks of a machine together tell what the machine has; where all processes list the same, one is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.jobs import job_of
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# Lines kept per machine.
_EVIDENCE = 2


class Hca(NamedTuple):
    """A net device. link: "IB", "RoCE" or "EFA". gbit: its rate in Gb/s, 0 where the input does not tell."""

    name: str
    link: str
    gbit: float

    @property
    def parts(self) -> tuple[str, ...]:
        """The devices that a merged one is made of, or itself."""
        return tuple(self.name.split("+"))

    @property
    def bond(self) -> bool:
        return "bond" in self.name.lower()


class Listing(NamedTuple):
    """What one machine lists in one job.

    devices: net devices that NCCL uses, in the order of the (first) list; ports of a merged one are not repeated.
    ranks: of the largest communicator on the machine, as far as known (else processes that list). whole: the lists show
    all that the machine's ranks may use. pinned: its processes list different devices.
    """

    job: int
    machine: str
    devices: tuple[Hca, ...]
    ranks: int
    whole: bool
    pinned: bool
    evidence: tuple[Evidence, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(device.name for device in self.devices)


@question
def comparable(facts: Traffic) -> pl.DataFrame:
    """`proc` and `job`: processes whose adapters may be compared. Without any communicator those of one input: nothing
    ties machines of different files together."""
    if facts.members.height:
        return job_of(facts)
    return facts["processes"].select("proc", job="source")


@question
def listings(facts: Traffic) -> tuple[Listing, ...]:
    """Of every machine and job, by job and machine."""
    jobs = comparable(facts)
    nics = facts.nic_table.join(facts.machine_table, on="proc").join(jobs, on="proc")
    nics = nics.filter(pl.col("machine").is_not_null() & pl.col("job").is_not_null() & pl.col("name").is_not_null())
    nics = nics.sort("source", "line", "index", maintain_order=True)
    if nics.height == 0:
        return ()
    here = ["job", "machine"]
    per_process = nics.group_by(*here, "proc").agg(pl.col("name").unique().sort(), pl.col("source", "line").first())
    lists = per_process.group_by(here).agg(
        pl.col("proc").n_unique().alias("processes"),
        pinned=pl.col("name").n_unique() > 1,
        one=pl.col("name").list.len().max() == 1,
        where=pl.struct("source", "line").sort_by("source", "line").head(_EVIDENCE),
    )
    lists = lists.with_columns(
        pinned_somewhere=pl.col("pinned").any().over("job"),
        several=(pl.col("processes") > 1).any().over("job"),
    )
    lists = lists.join(_ranks(facts, jobs, per_process), on=here, how="left")
    # one device in the only list there is: a rank with its own adapter looks the same
    one_of_many = pl.col("one") & (pl.col("ranks").fill_null(2) > 1) & ~pl.col("several")
    alike = ~pl.col("pinned_somewhere") & ~(one_of_many & pl.lit(bool(facts.settings("NCCL_IB_HCA"))))
    lists = lists.with_columns(
        whole=alike | pl.col("all_list").fill_null(False),
        ranks=pl.max_horizontal("ranks", "processes"),
    )
    devices = (
        nics.group_by(*here, "name", maintain_order=True)
        .agg(pl.col("index").min(), pl.col("link").first(), pl.col("gbit").max())
        .sort(*here, "index", "name")
        .group_by(here, maintain_order=True)
        .agg(pl.struct("name", "link", "gbit").alias("devices"))
    )
    rows = lists.join(devices, on=here).sort(here)
    return tuple(
        Listing(
            row["job"], row["machine"], _undivided(row["devices"]), row["ranks"], row["whole"], row["pinned"],
            tuple(facts.evidence(line["source"], line["line"]) for line in row["where"]),
        )
        for row in rows.iter_rows(named=True)
    )  # fmt: skip


def _ranks(facts: Traffic, jobs: pl.DataFrame, listing: pl.DataFrame) -> pl.DataFrame:
    """`job`, `machine`, `ranks` there, and whether the processes of all of them list (`all_list`)."""
    members = facts.members.filter(pl.col("machine").is_not_null()).join(jobs, on="proc").drop_nulls("job")
    members = members.join(listing.select("proc", lists=pl.lit(True)), on="proc", how="left")
    per_communicator = members.group_by("job", "machine", "cid").agg(
        pl.col("rank").n_unique().alias("seen"),
        pl.col("local_ranks").max(),
        pl.col("lists").fill_null(False).all().alias("lists"),
    )
    size = facts.members.group_by("cid").agg(pl.col("rank").n_unique() >= pl.col("nranks").max())
    size = size.select("cid", complete="rank")
    per_communicator = per_communicator.join(size, on="cid").with_columns(
        ranks=pl.max_horizontal("seen", "local_ranks"),
        all_list=pl.col("lists") & (pl.col("complete") | (pl.col("seen") >= pl.col("local_ranks"))).fill_null(False),
    )
    largest = per_communicator.sort(pl.col("ranks") * -1, "cid").unique(["job", "machine"], keep="first")
    return largest.select("job", "machine", "ranks", "all_list")


def _undivided(rows: list[Mapping[str, str | float | None]]) -> tuple[Hca, ...]:
    """From 2.24.3 on the ports of a merged device (`mlx5_0+mlx5_1`) are listed beside it."""
    devices = [Hca(str(row["name"]), str(row["link"] or ""), float(row["gbit"] or 0)) for row in rows]
    link = {device.name: device.link for device in devices}
    merged = {part for device in devices if len(device.parts) > 1 for part in device.parts}
    return tuple(
        device._replace(link=device.link or link.get(device.parts[0], ""))
        for device in devices
        if device.name not in merged
    )


@question
def near_devices(facts: Traffic) -> frozenset[str]:
    """RDMA devices that a matrix of the input shows beside a GPU, on one PCIe switch; empty: nothing tells."""
    near = [matrix.near_names().values() for matrix in facts.matrices if matrix.kind == "topo"]
    return frozenset(name for of_gpus in near for names in of_gpus for name in names)


@question
def used_devices(facts: Traffic) -> Mapping[str, frozenset[str]]:
    """Net devices on edges between machines, by machine."""
    edges = facts.edge_table.filter((pl.col("transport") == "NET") & (pl.col("scope") == "between"))
    rows = edges.filter(pl.col("machine").is_not_null()).group_by("machine").agg(pl.col("device").unique())
    return {machine: frozenset(devices) for machine, devices in rows.iter_rows()}


@question
def whole_machines(facts: Traffic) -> frozenset[str]:
    """Machines of which every rank of the largest communicator is in the input; without init lines all of them."""
    world = facts.world
    if world is None:
        return frozenset(facts.machines)
    if world.nranks is not None and len(world.ranks) >= world.nranks:
        return frozenset(world.machines)
    members = facts.members.filter((pl.col("cid") == world.id) & pl.col("machine").is_not_null())
    counts = members.group_by("machine").agg(pl.col("rank").n_unique(), pl.col("local_ranks").max())
    return frozenset(counts.filter(pl.col("rank") >= pl.col("local_ranks")).get_column("machine").to_list())
