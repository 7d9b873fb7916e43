"""What each machine is made of, as NCCL's topology dump shows it, so that machines of one job can be compared."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


class Inventory(NamedTuple):
    """One machine. nvlinks: (GPU, total of its NVLinks in GB/s); pci: GB/s of the GPUs' slots, lowest first; nets:
    rates of its net devices in GB/s, lowest first. evidence: the dump's line of each GPU."""

    machine: str
    nvlinks: tuple[tuple[str, float], ...]
    pci: tuple[float, ...]
    nets: tuple[float, ...]
    evidence: tuple[Evidence, ...]

    @property
    def gpus(self) -> int:
        return len(self.nvlinks)


@question
def inventories(facts: Traffic) -> tuple[Inventory, ...]:
    """Machines of the largest communicator whose dumps are whole: patterns follow the dump on its thread, and all ranks
    of the machine that print one print the same."""
    world = facts.world
    dumps = facts["topology"]
    if world is None or dumps.height == 0 or len(world.machines) < 2:
        return ()
    thread = ["proc", "tid"]
    whole = facts["graphs"].select(thread).unique()
    ranks = facts.members.filter(pl.col("cid") == world.id).select("proc", "machine").drop_nulls().unique("proc")
    rows = dumps.join(whole, on=thread, how="semi").join(ranks, on="proc", maintain_order="left")
    if rows.height == 0:
        return ()
    device = (pl.col("node") == "GPU") & (pl.col("link") != "NVL")
    rows = rows.with_columns(gpu=pl.when(device).then("id").forward_fill().over(thread), device=device)
    # a thread that prints several dumps repeats itself
    rows = rows.unique([*thread, "depth", "link", "node", "id", "gpu"], keep="first", maintain_order=True)
    links = rows.filter(pl.col("link") == "NVL").group_by(*thread, "gpu").agg(pl.col("bw").sum())
    gpus = (
        rows.filter("device")
        .select(*thread, "machine", "gpu", "source", "line", slot="bw")
        .join(links, on=[*thread, "gpu"], how="left", maintain_order="left")
        .with_columns(pl.col("bw").fill_null(0.0).round(1))
        .sort("gpu", maintain_order=True)
    )
    nets = rows.filter(pl.col("net_gbps").is_not_null()).group_by(thread).agg(pl.col("net_gbps").round(2).sort())
    looks = (
        gpus.group_by(*thread, maintain_order=True)
        .agg(pl.col("machine").first(), pl.col("gpu", "bw", "source", "line"), pl.col("slot").sort())
        .join(nets, on=thread, how="left", maintain_order="left")
    )
    look = pl.struct("gpu", "bw", "slot", "net_gbps")
    agreed = looks.filter(look.n_unique().over("machine") == 1).unique("machine", keep="first", maintain_order=True)
    return tuple(_inventory(facts, row) for row in agreed.iter_rows(named=True))


def _inventory(facts: Traffic, row: dict[str, Any]) -> Inventory:
    return Inventory(
        row["machine"],
        tuple(zip(row["gpu"], row["bw"], strict=True)),
        tuple(slot for slot in row["slot"] if slot is not None),
        tuple(row["net_gbps"] or ()),
        tuple(facts.evidence(source, line) for source, line in zip(row["source"], row["line"], strict=True)),
    )


def usual(values: list[tuple[float, ...]]) -> tuple[float, ...]:
    """What most machines have; where even, the higher one."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], sum(value), value))
