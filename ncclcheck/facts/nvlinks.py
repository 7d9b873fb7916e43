"""NVLinks of each GPU, by machine, from whatever counts them; and GPUs that have fewer than their siblings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.gpu_parts import ALL_LINKS, Gpu, Link, gpu_parts
from ncclcheck.facts.graph_dump import dumped_gpus
from ncclcheck.facts.matrix import Matrix
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import ends, rise
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topo_file import topo_files

# Boards of V100 join GPUs with one to three links each, unequally by design; from here on bonds are equal.
_EQUAL_BONDS = 4
# Links of a GPU that can go to other GPUs directly.
_MOST_LINKS = 18
_TOLERANCE_GBPS = 0.6  # NCCL prints one decimal


class GpuLinks(NamedTuple):
    """amount: NVLinks of a GPU, or their bandwidth in GB/s as NCCL counts it. down: links shown as inactive."""

    name: str
    amount: float
    evidence: Evidence
    down: int = 0


class LinkedMachine(NamedTuple):
    """GPUs of one machine. unit: "links" or "GB/s". machine: empty for files and matrices, which name none.

    short: GPUs that have fewer than `most`, the number of their siblings. switched: joined by NVSwitches. model: of the
    GPUs where their tool names it, and does not tell how they are joined.
    """

    machine: str
    unit: str
    gpus: tuple[GpuLinks, ...]
    switched: bool
    release: int | None = None
    model: str = ""

    @property
    def most(self) -> float:
        return max((gpu.amount for gpu in self.gpus), default=0.0)

    @property
    def short(self) -> tuple[GpuLinks, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.amount < self.most - _TOLERANCE_GBPS)


@question
def linked_machines(facts: Printed) -> tuple[LinkedMachine, ...]:
    """Machines with NVLink whose GPUs can be compared: two GPUs or more, or one that has links that are down."""
    found = [*_from_files(facts), *_from_dumps(facts), *_from_matrices(facts), *_from_tools(facts)]
    return tuple(one for one in found if one.most and (len(one.gpus) > 1 or any(gpu.down for gpu in one.gpus)))


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


def _from_tools(facts: Printed) -> Iterator[LinkedMachine]:
    """Active links of the GPUs of one model. A GPU counts where all links that others show are shown of it, too: lists
    are cut, and links that are down stand in them."""
    for (place, model), members in _told(facts).items():
        numbers = {link.number for gpu in members for link in _states(gpu)} - {ALL_LINKS}
        counted = []
        for gpu in members:
            states = _states(gpu)
            shown = {link.number for link in states}
            if shown >= numbers or ALL_LINKS in shown:
                down = [link for link in states if _is_down(link)]
                line = (down or states)[0].values("active")[-1].evidence
                counted.append(GpuLinks(gpu.name.replace("gpu", "GPU"), len(states) - len(down), line, len(down)))
        yield LinkedMachine(place.machine, "links", tuple(counted), False, model=model)


def _told(facts: Printed) -> dict[tuple[Place, str], list[Gpu]]:
    """GPUs whose links' states are told, by machine and model."""
    found: dict[tuple[Place, str], list[Gpu]] = {}
    for gpu in gpu_parts(facts):
        if _states(gpu) and gpu.part.text("model"):
            found.setdefault((gpu.part.place, gpu.part.text("model")), []).append(gpu)
    return found


def _states(gpu: Gpu) -> list[Link]:
    return [link for link in gpu.links if link.values("active")]


class DarkGpus(NamedTuple):
    """GPUs of one model on one machine without a single active NVLink, though each is one of several."""

    machine: str
    model: str
    names: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def dark_gpus(facts: Printed) -> tuple[DarkGpus, ...]:
    found = []
    for (place, model), members in _told(facts).items():
        down = [link for gpu in members for link in _states(gpu)]
        several = len(members) > 1 or any((gpu.part.number("index") or 0) > 0 for gpu in members)
        if several and all(_is_down(link) for link in down):
            lines = tuple(link.values("active")[-1].evidence for link in down)
            found.append(DarkGpus(place.machine, model, tuple(gpu.name for gpu in members), lines))
    return tuple(found)


def _is_down(link: Link) -> bool:
    """As the last output that speaks of it has it."""
    return link.values("active")[-1].text == "no"


class LinkErrors(NamedTuple):
    """NVLinks of a GPU that lose data. what: in words; links: their numbers."""

    gpu: Gpu
    what: str
    links: tuple[str, ...]
    evidence: tuple[Evidence, ...]


# Counters of which a later output may show more: what the link had to repeat, or to train anew.
_RISING = {"replay_errors": "replays", "recovery_errors": "recoveries"}


@question
def link_errors(facts: Printed) -> tuple[LinkErrors, ...]:
    """Links whose recovery failed, and counters that rose between two outputs; one output alone shows no rise."""
    found = []
    for gpu in gpu_parts(facts):
        failed = {link.number: value for link in gpu.links for value in link.values("recovery_failed") if value.number}
        if failed:
            lines = tuple(value.evidence for value in failed.values())
            found.append(LinkErrors(gpu, "recoveries that failed", tuple(failed), lines))
        for key, words in _RISING.items():
            rose = {link.number: values for link in gpu.links if rise(values := link.values(key))}
            if rose:
                lines = tuple(value.evidence for values in rose.values() for value in ends(values) or ())
                found.append(LinkErrors(gpu, f"{words} that rise", tuple(rose), lines))
    return tuple(found)


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
