"""Which NIC is a GPU's own, and how are GPUs joined: what a careful reader takes from a table of paths.

Tables are those of `nvidia-smi topo -m` and NCCL's topology files. Where every NIC is equally far from every GPU
(guests whose PCI tree is flat, Grace machines of which each NIC has a PCI domain of its own) the table does not tell.
"""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.matrix import NEAR, Matrix
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topo_file import path_tables, topo_files

# Links of the largest GPU that is joined to others without switches (H100).
_MOST_LINKS = 18


class GpuSeat(NamedTuple):
    """A GPU in its machine.

    nics: those nearest to it, by RDMA name where it is told; empty: the table does not tell. path: class of the path to
    them, "" where the row is not whole or there is no NIC. links: its NVLinks (through switches all of them, else the
    sum over its neighbours); None: the table does not tell.
    """

    gpu: str
    nics: tuple[str, ...]
    path: str
    links: int | None


class Nearness(NamedTuple):
    """One table.

    rails: NICs on the PCIe switch of some GPU, in the table's order. others: NICs that are not (storage, management,
    front end), where there are rails and all rows. groups: GPUs that share their nearest NICs, each group once.
    """

    kind: str
    seats: tuple[GpuSeat, ...]
    rails: tuple[str, ...]
    others: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    evidence: Evidence

    @property
    def told(self) -> int:
        """GPUs whose NICs the table tells."""
        return sum(bool(seat.path) for seat in self.seats)

    @property
    def sharing(self) -> str:
        """How GPUs and rails go together, in words; "" where there are no rails or not all rows."""
        if not self.rails or self.told < len(self.seats):
            return ""
        far = sum(seat.path not in NEAR for seat in self.seats)
        if far:
            return f"{far} of {len(self.seats)} GPUs have no NIC near them"
        sizes, nics = {len(group) for group in self.groups}, {len(seat.nics) for seat in self.seats}
        if len(sizes) > 1 or len(nics) > 1:
            return "NICs and GPUs go together unevenly"
        size, each = sizes.pop(), nics.pop()
        if size == 1:
            return "one NIC per GPU" if each == 1 else f"{each} NICs per GPU"
        return f"{size} GPUs share {'a NIC' if each == 1 else f'{each} NICs'}"


@question
def nearness(facts: Printed) -> tuple[Nearness, ...]:
    """Every table with GPUs, in the order of the input."""
    totals = {id(file.matrix): {gpu.name: gpu.links for gpu in file.gpus} for file in topo_files(facts) if file.gpus}
    return tuple(_nearness(one, totals.get(id(one))) for one in path_tables(facts) if one.gpus)


def _nearness(matrix: Matrix, totals: dict[str, int | None] | None) -> Nearness:
    cells = {matrix.between(gpu, nic) for gpu in matrix.gpus for nic in matrix.nics}
    undecided = len(cells) == 1 and len(matrix.nics) > 1 and not cells & NEAR
    near = {gpu: _near(matrix, gpu) for gpu in matrix.gpus}
    on_switch = {nic for nics, path in near.values() if path in NEAR for nic in nics}
    groups: dict[tuple[str, ...], list[str]] = {}
    for gpu, (nics, path) in near.items():
        if path in NEAR:
            groups.setdefault(nics, []).append(gpu)
    seats = tuple(
        GpuSeat(
            gpu,
            () if undecided else tuple(_name(matrix, nic) for nic in nics),
            path,
            totals[gpu] if totals else _links(matrix, gpu),
        )
        for gpu, (nics, path) in near.items()
    )
    whole = all(path for _, path in near.values())
    return Nearness(
        kind=matrix.kind,
        seats=seats,
        rails=tuple(_name(matrix, nic) for nic in matrix.nics if nic in on_switch),
        others=tuple(_name(matrix, nic) for nic in matrix.nics if nic not in on_switch) if on_switch and whole else (),
        groups=tuple(tuple(group) for group in groups.values()),
        evidence=matrix.lines[matrix.gpus[0]],
    )


def _near(matrix: Matrix, gpu: str) -> tuple[tuple[str, ...], str]:
    """The nearest NICs and their class; nothing where the row is not whole."""
    best = matrix.best(gpu)
    if best is None or any(matrix.between(gpu, nic) is None for nic in matrix.nics):
        return (), ""
    return tuple(nic for nic in matrix.nics if matrix.between(gpu, nic) == best), best


def _name(matrix: Matrix, nic: str) -> str:
    return matrix.nic_names.get(nic, nic)


def _links(matrix: Matrix, gpu: str) -> int | None:
    """Bonds of a mesh add up; through switches every bond is all the links there are, and their sum is more than any
    GPU has."""
    if matrix.nvlink_hidden:
        return None
    bonds = [matrix.links.get((gpu, other), 0) for other in matrix.gpus if other != gpu]
    if not bonds:
        return None
    return sum(bonds) if sum(bonds) <= _MOST_LINKS else max(bonds)
