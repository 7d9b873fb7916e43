"""NVLinks of each GPU, by machine, from whatever counts them; and GPUs that have fewer than their siblings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.graph_dump import dumped_gpus
from ncclcheck.facts.matrix import Matrix
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topo_file import topo_files

# Boards of V100 join GPUs with one to three links each, unequally by design; from here on bonds are equal.
_EQUAL_BONDS = 4
# Links of a GPU that can go to other GPUs directly.
_MOST_LINKS = 18
_TOLERANCE_GBPS = 0.6  # NCCL prints one decimal


class GpuLinks(NamedTuple):
    """amount: NVLinks of a GPU, or their bandwidth in GB/s as NCCL counts it."""

    name: str
    amount: float
    evidence: Evidence


class LinkedMachine(NamedTuple):
    """GPUs of one machine. unit: "links" or "GB/s". machine: empty for files and matrices, which name none.

    short: GPUs that have fewer than `most`, the number of their siblings. switched: joined by NVSwitches.
    """

    machine: str
    unit: str
    gpus: tuple[GpuLinks, ...]
    switched: bool
    release: int | None = None

    @property
    def most(self) -> float:
        return max((gpu.amount for gpu in self.gpus), default=0.0)

    @property
    def short(self) -> tuple[GpuLinks, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.amount < self.most - _TOLERANCE_GBPS)


@question
def linked_machines(facts: Printed) -> tuple[LinkedMachine, ...]:
    """Machines with NVLink whose GPUs can be compared: two GPUs or more."""
    found = [*_from_files(facts), *_from_dumps(facts), *_from_matrices(facts)]
    return tuple(machine for machine in found if len(machine.gpus) > 1 and machine.most)


def _from_files(facts: Printed) -> Iterator[LinkedMachine]:
    """Sums over the peers of a GPU: the shares of single switches differ by design."""
    for file in topo_files(facts):
        kinds: dict[str, list[GpuLinks]] = {}
        switched = any(gpu.switched for gpu in file.gpus)
        for gpu in file.gpus:
            # a card without a bridge beside bridged ones is no fault
            if gpu.links is not None and (gpu.links or switched):
                kinds.setdefault(gpu.pci.device, []).append(GpuLinks(gpu.name, gpu.links, gpu.pci.line))
        for gpus in kinds.values():
            yield LinkedMachine("", "links", tuple(gpus), switched)


def _from_dumps(facts: Printed) -> Iterator[LinkedMachine]:
    """Only links to switches: a dump lacks GPUs that the communicator does not use, and links to them."""
    machines: dict[str, list[GpuLinks]] = {}
    releases: dict[str, int | None] = {}
    switched = {gpu.machine for gpu in dumped_gpus(facts) if gpu.switched}
    for gpu in dumped_gpus(facts):
        if gpu.machine in switched:
            machines.setdefault(gpu.machine, []).append(GpuLinks(gpu.gpu, gpu.nvlink_gbps, gpu.evidence))
            releases[gpu.machine] = gpu.release
    for machine, gpus in machines.items():
        yield LinkedMachine(machine, "GB/s", tuple(gpus), True, releases[machine])


def _from_matrices(facts: Printed) -> Iterator[LinkedMachine]:
    """`NV#` cells: the largest bond of a GPU, where all GPUs but those in question are joined alike."""
    for matrix in facts.matrices:
        if matrix.kind == "topo" and not matrix.nvlink_hidden and len(matrix.gpus) > 1:
            yield LinkedMachine("", "links", tuple(_bonds(matrix)), _is_switched(matrix))


def _bonds(matrix: Matrix) -> Iterator[GpuLinks]:
    pairs = {pair: matrix.links.get(pair, 0) for pair in combinations(matrix.gpus, 2) if matrix.between(*pair)}
    most = max(pairs.values(), default=0)
    if most < _EQUAL_BONDS or len(matrix.gpus) < 3:
        return
    bonds = {gpu: [n for pair, n in pairs.items() if gpu in pair] for gpu in matrix.gpus}
    if most * (len(matrix.gpus) - 1) <= _MOST_LINKS and min(pairs.values()) > 0:
        amount = {gpu: sum(mine) for gpu, mine in bonds.items()}  # each pair has links of its own
    else:
        amount = {gpu: max(mine, default=0) for gpu, mine in bonds.items()}
        whole = [gpu for gpu in matrix.gpus if amount[gpu] == most]
        if len(whole) < 3 or any(pairs.get(pair, most) != most for pair in combinations(whole, 2)):
            return  # pairs of cards with bridges
    for gpu, line in matrix.lines.items():
        if gpu in amount:
            yield GpuLinks(gpu, amount[gpu], line)


def _is_switched(matrix: Matrix) -> bool:
    """Each pair shares all links of a GPU: no board has links enough to join that many GPUs directly."""
    return max(sum(matrix.links.get((gpu, other), 0) for other in matrix.gpus) for gpu in matrix.gpus) > _MOST_LINKS
