"""`nvidia-smi topo -m` as rules ask of it: which NIC is near which GPU, and how GPUs reach each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.schema import table

# Near to far. NV is a bond of NVLinks; C2C joins a GPU to its CPU.
ORDER = ("NV", "C2C", "PIX", "PXB", "P2C", "PHB", "NODE", "SYS")

# A NIC this near reaches the GPU without crossing a CPU's host bridge.
NEAR = frozenset({"PIX", "PXB", "P2C"})

# Names of RDMA devices; other NICs of a matrix (storage controllers do not appear) are judged with them.
_RDMA = ("mlx", "bnxt_re", "hfi1", "rdmap", "irdma", "ionic", "qedr", "efa", "roce", "ib")


class Matrix(NamedTuple):
    """One matrix.

    kind: "topo" or "p2p-...". path: class between two devices, both ways round where the table has it. links: NVLinks
    between two GPUs. nic_names: RDMA device behind a NIC column, where a legend tells. damaged: characters or rows are
    lost, so that what is left may be told wrong.
    """

    kind: str
    complete: bool
    nvlink_hidden: bool
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    nic_names: Mapping[str, str]
    path: Mapping[tuple[str, str], str]
    links: Mapping[tuple[str, str], int]
    cpu_affinity: Mapping[str, str]
    numa_affinity: Mapping[str, str]
    lines: Mapping[str, Evidence]
    damaged: bool = False

    def between(self, a: str, b: str) -> str | None:
        """Class of the path between two devices, None where neither cell was readable."""
        return self.path.get((a, b)) or self.path.get((b, a))

    def gpu_pairs(self) -> tuple[tuple[str, str, str], ...]:
        """(a, b, class) of all pairs of GPUs that the table tells."""
        return tuple(
            (a, b, found)
            for i, a in enumerate(self.gpus)
            for b in self.gpus[i + 1 :]
            if (found := self.between(a, b)) is not None
        )

    def nvlinks(self) -> tuple[int, ...]:
        """Links of the best joined GPU: what its row adds up to (a mesh), then its largest bond (switches: all links
        to every peer); empty without NVLink."""
        rows = [[self.links.get((gpu, other), 0) for other in self.gpus] for gpu in self.gpus]
        best = max(rows, key=sum, default=[])
        return tuple(dict.fromkeys((sum(best), max(best)))) if any(best) else ()

    def known_gpus(self) -> tuple[str, ...]:
        """GPUs whose path to every NIC is known: only those may be judged."""
        return tuple(gpu for gpu in self.gpus if all(self.between(gpu, nic) for nic in self.nics))

    def near_names(self) -> dict[str, frozenset[str]]:
        """RDMA devices on the PCIe switch of each GPU, by name; only those that the legend names."""
        return {
            gpu: frozenset(
                self.nic_names[nic] for nic in self.nics if nic in self.nic_names and self.between(gpu, nic) in NEAR
            )
            for gpu in self.gpus
        }

    def best(self, gpu: str) -> str | None:
        """The nearest class of NIC that a GPU has."""
        found = [path for nic in self.nics if (path := self.between(gpu, nic)) in ORDER]
        return min(found, key=ORDER.index, default=None)


def matrices(tables: Mapping[str, pl.DataFrame], paths: tuple[str, ...]) -> tuple[Matrix, ...]:
    """All matrices of the input, in order."""
    if "matrices" not in tables:
        return ()
    devices, cells = _by_block(tables["matrix_devices"]), _by_block(table(tables, "matrix_cells"))
    found = []
    for row in tables["matrices"].iter_rows(named=True):
        mine = devices.get(row["block"], [])
        path: dict[tuple[str, str], str] = {}
        links: dict[tuple[str, str], int] = {}
        for cell in cells.get(row["block"], []):
            path[cell["a"], cell["b"]] = cell["path"]
            if cell["links"]:
                links[cell["a"], cell["b"]] = cell["links"]
        names = {d["name"]: d["rdma_name"] for d in mine if d["rdma_name"]}
        nics = [d["name"] for d in mine if d["kind"] == "nic" and _is_rdma(names.get(d["name"]))]
        found.append(
            Matrix(
                kind=row["kind"], complete=row["complete"], nvlink_hidden=row["nvlink_hidden"],
                gpus=tuple(d["name"] for d in mine if d["kind"] == "gpu"), nics=tuple(nics), nic_names=names,
                path=path, links=links,
                cpu_affinity={d["name"]: d["cpu_affinity"] for d in mine if d["cpu_affinity"]},
                numa_affinity={d["name"]: d["numa_affinity"] for d in mine if d["numa_affinity"]},
                lines={d["name"]: Evidence(paths[row["source"]], d["line"], "") for d in mine},
                damaged=bool(row["damaged"]),
            )
        )  # fmt: skip
    return tuple(found)


def _by_block(frame: pl.DataFrame) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        rows.setdefault(row["block"], []).append(row)
    return rows


def _is_rdma(name: str | None) -> bool:
    """Without a legend every NIC column counts: the tool lists RDMA devices only."""
    return name is None or name.lower().startswith(_RDMA)
