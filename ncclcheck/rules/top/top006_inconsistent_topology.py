"""Machines of one job are not built alike: NVLinks, GPU models, slots or net devices differ.

## What it finds

The odd one out among the machines of a job:

- NVLinks: the topology dump of NCCL (GRAPH: `+ NVL[370.8] - NVS/0`) adds up to fewer GB/s for a GPU than on the other
  machines; or two matrices of `nvidia-smi topo -m`, with equal GPUs, of which one lacks links. Error.
- Other GPU models, as nccl-tests lists them by host. Warning.
- Net devices: another number or other rates in the dump. Warning.
- Slots: other PCIe rates of the GPUs in the dump. These are the most a slot can do, and a number that could not be read
  counts as 12.0, so this is a warning of low confidence, and none in virtual machines.

Machines are compared only where the whole dump is in the input (`Pattern` lines follow it), all ranks of the machine
print the same one, and it has as many GPUs as the others: jobs may place ranks unevenly.

## Why it costs

Collectives run at the pace of the slowest machine: a GPU that lost k of its L NVLinks keeps (L-k)/L of its bandwidth
and makes the whole ring as slow, where the network between machines is not slower anyway; mixed GPU models also give
different compute times, and the fast ones wait at each step.

## Example

    hx-3:771:820 [0] NCCL INFO + PCI[48.0] - GPU/1b000 (16)
    hx-3:771:820 [0] NCCL INFO               + NVL[329.6] - NVS/0

The other machines of the job have 370.8 for every GPU: two of 18 links are missing.

## How to fix

    nvidia-smi nvlink -s                  # on the odd machine and on a good one: links, and their speed
    nvidia-smi topo -m
    nvidia-smi --query-gpu=name,pcie.link.gen.max,pcie.link.width.max --format=csv
    ibstat | grep -E "CA '|Rate|State"

Take the machine out of the partition until it is equal again: reset or reseat the GPU, mend the port. Pools with
several GPU models: constrain the job (`--constraint`, node labels).

## When it is not a problem

Machines whose NVSwitch bonds are split differently but add up to the same (5+5+4+4). Bus ids, CPU models and the
order of devices are not compared.

## References

- NCCL sources: `src/graph/topo.cc` (ncclTopoPrint), `src/graph/topo.h` (rates per link)
- NVIDIA documentation: nvidia-smi nvlink, topo
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

from ncclcheck.facts.inventory import Inventory, inventories, usual
from ncclcheck.facts.named_gpus import NamedMachine, named_machines
from ncclcheck.rules.common import compared, counted, listed, no_number
from ncclcheck.rules.gpus import possible
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.matrix import Matrix
    from ncclcheck.rules.common import Numbers

_NEEDS = "the topology dumps of all machines (NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH), or `nvidia-smi topo -m` of each"
_LINK_FIX = (
    "nvidia-smi nvlink -s there and on a good machine; reset or reseat the GPU, and keep the machine out meanwhile"
)

# Matrices with different links: a job has a few, a damaged file any number.
_MOST_KINDS = 64


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    machines = _comparable(inventories(facts))
    found = [
        *_links(facts, estimator, machines),
        *_matrices(facts, estimator),
        *_models(facts, estimator),
        *_nets(machines),
        *_slots(facts, machines),
    ]
    yield from found
    compared_any = len(machines) > 1 or len(facts.matrices) > 1
    if not found and not compared_any and len(facts.machines) != 1:
        yield NotEvaluated(_NEEDS)


def _comparable(machines: tuple[Inventory, ...]) -> list[Inventory]:
    """Those that have as many GPUs as most."""
    if not machines:
        return []
    gpus = usual([(float(one.gpus),) for one in machines])[0]
    return [one for one in machines if one.gpus == gpus]


def _links(facts: Facts, estimator: Estimator, machines: list[Inventory]) -> Iterator[Finding]:
    totals = {one.machine: tuple(sorted(total for _, total in one.nvlinks)) for one in machines}
    if len(set(totals.values())) < 2:
        return
    normal = usual(list(totals.values()))
    odd = [one for one in machines if totals[one.machine] != normal and min(totals[one.machine]) < max(normal)]
    if not odd:
        return
    worst = min(odd, key=lambda one: min(totals[one.machine]))
    best = max(normal)
    gpu, low = min(worst.nvlinks, key=lambda link: link[1])
    lines = [line for one in odd for (_, total), line in zip(one.nvlinks, one.evidence, strict=True) if total < best]
    good = next(one for one in machines if totals[one.machine] == normal)
    yield _finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"NVLinks of {listed([one.machine for one in odd])} differ from those of"
        f" {counted(len(machines) - len(odd), 'other machine')}: GPU {gpu} of {worst.machine} has {low:g} GB/s, the"
        f" usual is {best:g}",
        _LINK_FIX,
        tuple(one.machine for one in odd),
        (*lines[:3], good.evidence[0]),
        _lost(facts, estimator, low / best),
    )


def _lost(facts: Facts, estimator: Estimator, share: float) -> Numbers:
    links = {gpu.nvlinks for gpu in possible(facts, estimator) if gpu.nvlink}
    if len(links) != 1:
        return no_number("the GPU model, and with it the number of its links, is not in the input")
    whole = links.pop()
    left = round(whole * share)
    if left < 1:
        return compared(estimator, {"intra": "nvlink"}, {"intra": ("pcie-cpu", "shm")})
    return compared(estimator, {"intra": "nvlink", "nvlinks": whole}, {"intra": "nvlink", "nvlinks": left})


def _matrices(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """Two matrices of equal GPUs, of which one lacks links."""
    tables = [one for one in facts.matrices if one.kind == "topo" and one.complete and not one.nvlink_hidden]
    kinds = {(one.gpus, frozenset(one.links.items())): one for one in reversed(tables) if one.links}
    for less, more in permutations(list(reversed(kinds.values()))[:_MOST_KINDS], 2):
        if less.gpus != more.gpus or max(less.links.values()) != max(more.links.values()):
            continue  # another kind of machine
        mine, other = _links_of(less), _links_of(more)
        fewer = [gpu for gpu in less.gpus if mine[gpu] < other[gpu]]
        if fewer and all(mine[gpu] <= other[gpu] for gpu in less.gpus):
            worst = min(fewer, key=lambda gpu: mine[gpu] / other[gpu])
            yield _finding(
                Severity.ERROR,
                Confidence.MEDIUM,
                f"Two machines with equal GPUs differ in NVLinks: {worst} of one has {mine[worst]} over all its peers,"
                f" {worst} of the other {other[worst]}",
                _LINK_FIX,
                (),
                (less.lines[worst], more.lines[worst]),
                _lost(facts, estimator, mine[worst] / other[worst]),
            )
            return


def _links_of(matrix: Matrix) -> dict[str, int]:
    return {gpu: sum(matrix.links.get((gpu, peer), 0) for peer in matrix.gpus) for gpu in matrix.gpus}


def _models(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """GPU models by host, as one tool lists them."""
    by_source: dict[str, list[NamedMachine]] = {}
    for one in named_machines(facts):
        if one.host and one.evidence:
            by_source.setdefault(one.evidence[0].path, []).append(one)
    for hosts in by_source.values():
        if not _one_list(hosts):
            continue
        names_of = _without_damage(hosts, estimator)
        counts = Counter(names_of.values())
        if len(counts) < 2:
            continue
        normal = max(sorted(counts), key=lambda names: counts[names])
        odd = [one for one in hosts if names_of[one.host] != normal]
        other = next(one for one in hosts if names_of[one.host] == normal)
        yield _finding(
            Severity.WARNING,
            Confidence.HIGH,
            f"GPU models differ: {listed([one.host for one in odd])} {'has' if len(odd) == 1 else 'have'}"
            f" {listed(names_of[odd[0].host])}, {counted(counts[normal], 'other machine')} {listed(normal)}",
            "constrain the job to one model (Slurm --constraint, node labels in Kubernetes)",
            tuple(one.host for one in odd),
            (*(one.evidence[0] for one in odd[:3]), other.evidence[0]),
            no_number("the slower model sets the pace of the step, which is compute as well as communication"),
        )
        return


def _one_list(hosts: list[NamedMachine]) -> bool:
    """A rank that two hosts name is of two runs, which need not be on equal machines."""
    ranks = [rank for one in hosts for rank in one.ranks]
    return len(ranks) == len(set(ranks))


def _without_damage(hosts: list[NamedMachine], estimator: Estimator) -> dict[str, tuple[str, ...]]:
    """Names by host. A line that is cut, or that another one is glued to, gives the beginning of a name or more than
    the name: it stands for the usual one, unless they are two models (L4, L40)."""
    usual_first = [name for name, _ in Counter(sorted(name for one in hosts for name in one.names)).most_common()]

    def whole(name: str) -> str:
        return next(other for other in usual_first if other == name or _is_piece(name, other, estimator))

    return {one.host: tuple(sorted({whole(name) for name in one.names})) for one in hosts}


def _is_piece(one: str, other: str, estimator: Estimator) -> bool:
    known, more = (set(estimator.hardware.classes_of_name(name)) for name in (one, other))
    return (one.startswith(other) or other.startswith(one)) and not (known and more and known.isdisjoint(more))


def _nets(machines: list[Inventory]) -> Iterator[Finding]:
    known = [one for one in machines if one.nets]
    if len({one.nets for one in known}) < 2:
        return
    normal = usual([one.nets for one in known])
    odd = [one for one in known if one.nets != normal]
    yield _finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"Net devices of {listed([one.machine for one in odd])} differ from those of"
        f" {counted(len(known) - len(odd), 'other machine')}: {_devices(odd[0].nets)} against {_devices(normal)}",
        "ibstat and NCCL_IB_HCA there and on a good machine: a port down, a device filtered out, another slot",
        tuple(one.machine for one in odd),
        tuple(one.evidence[0] for one in odd[:3]),
        no_number("the rule about devices has the number, where channels use them"),
        ("IB004",),
    )


def _devices(nets: tuple[float, ...]) -> str:
    return listed([f"{nets.count(rate)} of {rate * 8:g} Gb/s" for rate in sorted(set(nets), reverse=True)])


def _slots(facts: Facts, machines: list[Inventory]) -> Iterator[Finding]:
    if facts.guest_signs or len({one.pci for one in machines}) < 2:
        return
    normal = usual([one.pci for one in machines])
    odd = [one for one in machines if sum(one.pci) < sum(normal)]
    if odd:
        yield _finding(
            Severity.WARNING,
            Confidence.LOW,
            f"PCIe slots of GPUs on {listed([one.machine for one in odd])} read {min(odd[0].pci):g} GB/s where"
            f" {counted(len(machines) - len(odd), 'other machine')} read {max(normal):g} (12 is also what NCCL takes"
            " for a value it cannot read)",
            "nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.width.max,pcie.link.width.current --format=csv there",
            tuple(one.machine for one in odd),
            tuple(one.evidence[0] for one in odd[:3]),
            no_number("the dump shows what a slot can do at most, not what it does"),
        )


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
    causes: tuple[str, ...] = (),
) -> Finding:
    subject = {"hosts": hosts}
    return RULE.finding(severity, confidence, message, fix, subject, evidence, causes=causes, **numbers)


RULE = Rule(
    code="TOP006",
    name="inconsistent-topology",
    severity=Severity.ERROR,
    summary="Machines of one job are not built alike: NVLinks, GPU models, slots or net devices differ",
    check=check,
    since="0.1.0",
)
