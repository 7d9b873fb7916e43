"""Drawing the picture of the job (see `picture`) from the facts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl

from ncclcheck.facts import networks
from ncclcheck.facts.operations import choices, operations
from ncclcheck.facts.picture import CommunicatorKind, GpuRow, JobPicture, MachineKind
from ncclcheck.facts.releases import release_text
from ncclcheck.facts.seen import Communicator

if TYPE_CHECKING:
    from ncclcheck.facts.facts import Facts


def picture_of(facts: Facts) -> JobPicture:
    world = facts.world
    return JobPicture(
        library="RCCL" if facts.is_rccl else "NCCL",
        release=", ".join(release_text(code) for code in facts.releases) or _window(facts),
        cuda=_cuda(facts),
        gpu=", ".join(facts.gpu_names),
        machines=len(facts.machines),
        ranks_seen=len(world.ranks) if world else 0,
        ranks_total=world.nranks if world else None,
        networks=tuple(sorted({seen.value for seen in facts.networks})),
        communicators=_communicators(facts),
        operations=operations(facts),
        kinds=_kinds(facts),
        choices=choices(facts),
    )


def _window(facts: Facts) -> str:
    low, high = facts.release_window
    if low and high:
        told = release_text(low) if low == high else f"{release_text(low)} to {release_text(high)}"
    elif low or high:
        told = f"{release_text(low)} or newer" if low else f"{release_text(high or 0)} or older"
    return f"{told} (from the form of its lines)" if low or high else ""


def _cuda(facts: Facts) -> str:
    printed = facts["versions"].get_column("cuda").drop_nulls().unique().sort().to_list()
    return ", ".join(version for version in printed if version.strip("."))


def _communicators(facts: Facts) -> tuple[CommunicatorKind, ...]:
    kinds = Counter((c.nranks or 0, c.nnodes, _spread(c)) for c in facts.communicators if c.nranks)
    largest_first = sorted(kinds.items(), key=lambda item: (-item[0][0], -(item[0][1] or 0), item[0][2]))
    return tuple(CommunicatorKind(count, nranks, nnodes, spread) for (nranks, nnodes, spread), count in largest_first)


def _spread(communicator: Communicator) -> str:
    if communicator.nnodes == 1:
        return "inside one node"
    if communicator.local_ranks == 1:
        return "one rank per node"
    return "several per node" if communicator.nnodes else "unknown"


def _kinds(facts: Facts) -> tuple[MachineKind, ...]:
    """Machines that look alike, most numerous first."""
    gpus = _gpu_rows(facts)
    ranks = (
        facts.members.filter((pl.col("cid") == 0) & pl.col("machine").is_not_null())
        .group_by("machine")
        .agg(pl.col("rank").n_unique())
    )
    on_machine = dict(ranks.iter_rows())
    looks: dict[tuple[int, tuple[str, ...], tuple[GpuRow, ...]], list[str]] = {}
    for machine in facts.machines:
        devices = tuple(nic.name for nic in facts.nic_lists.get(machine, ()))
        looks.setdefault((on_machine.get(machine, 0), devices, gpus.get(machine, ())), []).append(machine)
    ordered = sorted(looks.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple(MachineKind(tuple(hosts), count, devices, rows) for (count, devices, rows), hosts in ordered)


def _gpu_rows(facts: Facts) -> dict[str, tuple[GpuRow, ...]]:
    """Per machine: each GPU's NICs, GDR and path inside the node."""
    table = facts.edge_table.filter(pl.col("machine").is_not_null())
    if table.height == 0:
        return {}
    gpu = pl.coalesce("own_dev", pl.format("rank {}", "own"), pl.lit("unknown"))
    net, inside = pl.col("transport") == "NET", pl.col("transport") != "NET"
    telling = [
        name for name in table.get_column("network").drop_nulls().unique() if networks.kind(name) in networks.RDMA
    ]
    tells = net & (pl.col("gdr") | pl.col("network").is_in(telling))
    proxied = pl.col("proxy_rank").is_not_null() & (pl.col("proxy_rank") != pl.col("own"))
    way = (
        pl.when(pl.col("method").is_null() | (pl.col("transport") == "SHM"))
        .then("transport")
        .otherwise(pl.format("{}/{}", "transport", "method"))
    )
    rows = table.group_by("machine", gpu.alias("gpu")).agg(
        pl.col("device").filter(net & ~proxied).drop_nulls().unique().sort().alias("nics"),
        pl.col("device").filter(net & proxied).drop_nulls().unique().sort().alias("proxied"),
        pl.col("gdr").filter(tells & (pl.col("direction") == "send")).unique().alias("send"),
        pl.col("gdr").filter(tells & (pl.col("direction") == "receive")).unique().alias("receive"),
        way.filter(inside).unique().sort().alias("ways"),
    )
    found: dict[str, list[GpuRow]] = {}
    for row in rows.iter_rows(named=True):
        nics = row["nics"] or [f"{name} (PXN)" for name in row["proxied"]]
        cell = GpuRow(row["gpu"], tuple(nics), _gdr(set(row["send"]), set(row["receive"])), ", ".join(row["ways"]))
        found.setdefault(row["machine"], []).append(cell)
    return {machine: tuple(sorted(cells, key=_device_order)) for machine, cells in found.items()}


def _gdr(send: set[bool | None], receive: set[bool | None]) -> str:
    both = send | receive
    if not both or None in both:
        return "" if not both else "unknown"
    if both == {True}:
        return "yes"
    if both == {False}:
        return "no"
    if receive == {True} and send == {False}:
        return "receive only"
    if send == {True} and receive == {False}:
        return "send only"
    return "mixed"


def _device_order(row: GpuRow) -> tuple[int, str]:
    return (int(row.gpu), "") if row.gpu.isdigit() else (1 << 20, row.gpu)
