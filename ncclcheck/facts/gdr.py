"""GPUDirect RDMA: which devices and which pairs of GPU and NIC NCCL takes it for, and how far they are apart."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.matrix import ORDER, Matrix
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# Path types by number, from the release on that has them so. Until 2.5.7 the scale is that of `nvidia-smi topo -m`.
_TYPES = (
    (22705, ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")),
    (22703, ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS")),
    (22602, ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    (21801, ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    (21207, ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS")),
    (20803, ("LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS")),
    (20604, ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET")),
    (0, ("PIX", "PXB", "PHB", "NODE", "SYS")),
)
_EXCLUSIVE_UNTIL = 20604  # before, the limit itself is refused
_FAR = ("PHB", "NODE", "SYS")


def path_type(release: int | None, number: int) -> str:
    """The path type behind a number of a distance line, "" where the release is unknown or has no such number."""
    if release is None:
        return ""
    names = next(names for since, names in _TYPES if release >= since)
    return names[number] if 0 <= number < len(names) else ""


def limit_is_refused(release: int | None) -> bool:
    return release is not None and release < _EXCLUSIVE_UNTIL


class TooFar(NamedTuple):
    """Pairs of GPU and NIC that NCCL refuses for their distance. everywhere: these machines have no better pair."""

    distance: int
    limit: int
    machines: tuple[str, ...]
    everywhere: bool
    pairs: int
    evidence: tuple[Evidence, ...]


@question
def too_far(facts: Printed) -> tuple[TooFar, ...]:
    """Refused pairs by distance, those of machines without any good pair first."""
    rows = facts["gdr"].filter((pl.col("kind") == "distance") & pl.col("distance").is_not_null())
    if rows.height == 0:
        return ()
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    place = pl.coalesce("machine", pl.lit("?"))
    rows = rows.with_columns(everywhere=(~pl.col("enabled")).all().over(place))
    grouped = (
        rows.filter(~pl.col("enabled"))
        .group_by("everywhere", "distance", "limit", maintain_order=True)
        .agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.struct("machine", "gpu", "hca").n_unique().alias("pairs"),
            where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
        )
        .sort("everywhere", "distance", descending=[True, False])
    )
    return tuple(
        TooFar(
            row["distance"], row["limit"], tuple(row["machine"]), row["everywhere"], row["pairs"],
            tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]),
        )
        for row in grouped.iter_rows(named=True)
    )  # fmt: skip


@question
def devices_that_can(facts: Printed) -> frozenset[str]:
    """Devices that NCCL takes GPUDirect RDMA for (2.13.4+ says so of each, with NET)."""
    rows = facts["gdr"].filter((pl.col("kind") == "hca") & pl.col("enabled"))
    return frozenset(rows.get_column("hca").drop_nulls().unique().to_list())


@question
def far_patterns(facts: Printed) -> tuple[tuple[str, str, Evidence], ...]:
    """(machine, path type, line) of ring patterns whose way from GPU to NIC crosses a CPU's host bridge."""
    rings = facts["graphs"].filter((pl.col("pattern") == 4) & pl.col("type_inter").is_in(_FAR))
    rows = rings.join(facts.machine_table, on="proc").unique(["machine", "type_inter"], keep="first").sort("machine")
    return tuple(
        (row["machine"] or "", row["type_inter"], facts.evidence(row["source"], row["line"]))
        for row in rows.iter_rows(named=True)
    )


class FarUse(NamedTuple):
    """A NIC that a machine uses for a GPU although the matrix has a nearer one for it, which carries nothing there."""

    machine: str
    gpu: str
    nic: str
    path: str
    nearer: tuple[str, ...]
    nearer_path: str
    gdr: bool
    evidence: tuple[Evidence, ...]


@question
def far_use(facts: Traffic) -> tuple[FarUse, ...]:
    """Edges between machines against the matrix of the input, where there is just one and it names its NICs."""
    matrices = [one for one in facts.matrices if one.kind == "topo" and one.complete and one.nic_names]
    if len(matrices) != 1:
        return ()
    matrix = matrices[0]
    columns = {name: nic for nic, name in matrix.nic_names.items()}
    edges = facts.edge_table.filter(
        (pl.col("transport") == "NET")
        & (pl.col("scope") == "between")
        & pl.col("proxy_rank").is_null()  # another GPU hands the data over: it is the near one
        & pl.col("device").is_in(list(columns))
        & pl.col("own_dev").str.contains(r"^\d{1,2}$")
    ).select("machine", "own_dev", "device", "gdr", "source", "line")
    used = dict(edges.group_by("machine").agg(pl.col("device").unique()).iter_rows())
    found = []
    for row in edges.unique(["machine", "own_dev", "device"], keep="first", maintain_order=True).iter_rows(named=True):
        gpu, nic = f"GPU{row['own_dev']}", columns[row["device"]]
        nearer = _nearer(matrix, gpu, nic)
        names = tuple(matrix.nic_names.get(one, one) for one in nearer)
        path = matrix.between(gpu, nic)
        if path in _FAR and nearer and not {*names} & {*used[row["machine"]]}:
            lines = (facts.evidence(row["source"], row["line"]), matrix.lines[gpu])
            best = matrix.best(gpu) or ""
            found.append(
                FarUse(row["machine"] or "", gpu, row["device"], path, names, best, row["gdr"] or False, lines)
            )
    return tuple(found)


def _nearer(matrix: Matrix, gpu: str, nic: str) -> tuple[str, ...]:
    """The NICs nearest to a GPU, if they are nearer than this one."""
    path, best = matrix.between(gpu, nic), matrix.best(gpu)
    if path not in ORDER or best is None or ORDER.index(best) >= ORDER.index(path):
        return ()
    return tuple(other for other in matrix.nics if matrix.between(gpu, other) == best)
