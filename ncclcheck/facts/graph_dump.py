"""GPUs as NCCL's topology dump in a log shows them (subsystem GRAPH): their PCI link and their NVLinks."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topology_sources import bus_id_text


class DumpedGpu(NamedTuple):
    """pci_gbps: of its own link. nvlink_gbps: all its NVLinks together, 0 without. switched: they lead to NVSwitches.
    release: of the process that printed it."""

    machine: str
    gpu: str
    pci_gbps: float | None
    nvlink_gbps: float
    switched: bool
    release: int | None
    evidence: Evidence


@question
def dumped_gpus(facts: Printed) -> tuple[DumpedGpu, ...]:
    """Each GPU of each machine once: all processes of a machine print the same."""
    rows = facts["topology"].join(facts.machine_table.drop_nulls("machine"), on="proc")
    is_gpu = (pl.col("node") == "GPU") & (pl.col("link") == "PCI")
    gpu_line = pl.when(is_gpu).then("line").forward_fill().over(_THREAD)
    gpu_depth = pl.when(is_gpu).then("depth").forward_fill().over(_THREAD)
    is_last = pl.col("line").shift(-1).over(_THREAD).is_null()
    rows = rows.sort(*_THREAD, "line").with_columns(
        gpu_line=gpu_line, below=pl.col("depth") - gpu_depth, is_last=is_last
    )
    bonds = (
        rows.filter((pl.col("link") == "NVL") & (pl.col("below") > 0))
        .group_by(*_THREAD, "gpu_line")
        .agg(pl.col("bw").sum().alias("nvlink"), (pl.col("node") == "NVS").any().alias("switched"))
    )
    gpus = (
        rows.filter(is_gpu & ~pl.col("is_last"))  # an excerpt that ends here may lack the GPU's links
        .join(bonds, on=[*_THREAD, "gpu_line"], how="left", nulls_equal=True)
        .join(facts["processes"].select("proc", "release"), on="proc", how="left")
        .sort("source", "line")
        .group_by("machine", "id", maintain_order=True)
        .agg(pl.col("bw", "release", "source", "line").first(), pl.col("nvlink").max(), pl.col("switched").any())
    )
    return tuple(
        DumpedGpu(
            row["machine"], bus_id_text(row["id"] or ""), row["bw"], row["nvlink"] or 0.0, bool(row["switched"]),
            row["release"], facts.evidence(row["source"], row["line"]),
        )
        for row in gpus.iter_rows(named=True)
    )  # fmt: skip


_THREAD = ["proc", "tid"]
