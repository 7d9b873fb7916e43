"""What rules need to know of the GPU class, and how they name single GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import machine_names
from ncclcheck.rules.common import counted, listed, nvswitch_class, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.estimate.hardware import Gpu
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.gpu_parts import Gpu as GpuPart


def classes(facts: Facts, estimator: Estimator) -> tuple[Gpu, ...]:
    """GPU classes that the names in the input (or `--gpu`) may mean; empty: no name is known."""
    if not (facts.gpu_names or estimator.options.gpu):
        return ()
    table = estimator.hardware
    if estimator.options.gpu:
        named = list(table.classes_of_flag(estimator.options.gpu))
    else:
        named = [name for printed in facts.gpu_names for name in table.classes_of_name(printed)]
    return tuple(table.gpus[name] for name in dict.fromkeys(named))


def nvlink_by_design(facts: Facts, estimator: Estimator) -> Answer:
    """Do the job's GPUs reach all others of their node over NVLink when all is well? By name, then by what is seen:
    NVLink somewhere beside host memory may join pairs only, unless there are NVSwitches."""
    if classes(facts, estimator) or facts.nvlink is not Answer.YES:
        return nvlink_by_name(facts, estimator)
    inside = {group.transport for group in facts.edges if group.scope == "inside"}
    pairs = {"P2P", "SHM"} <= inside and not nvswitch_class(facts, estimator)
    return Answer.UNKNOWN if pairs else Answer.YES


def nvlink_by_name(facts: Facts, estimator: Estimator) -> Answer:
    """The same by the GPU's name alone: one table without NVLink says nothing of the machine of another."""
    known = classes(facts, estimator)
    if not known:
        return Answer.UNKNOWN
    full = {gpu.nvlink is not None and not gpu.bridged for gpu in known}
    return Answer.of(full.pop()) if len(full) == 1 else Answer.UNKNOWN


def best_paths(facts: Facts, by_design: Answer) -> dict[str, object]:
    """Change for the estimate: what GPUs of one node could use at best. With the GPU unknown it may be NVLink."""
    if by_design is Answer.YES:
        return {"intra": "nvlink"}
    if by_design is Answer.NO or facts.nvlink is Answer.NO:
        return {"intra": ("pcie-switch", "pcie-cpu")}
    return {"intra": ("nvlink", "pcie-switch", "pcie-cpu")}


def without_p2p(facts: Facts, estimator: Estimator) -> bool:
    """Cards whose stock driver offers no peer access (GeForce of recent generations)."""
    known = classes(facts, estimator)
    return bool(known) and not any(gpu.p2p for gpu in known)


def possible(facts: Facts, estimator: Estimator) -> tuple[Gpu, ...]:
    """GPU classes by name, else by the NVLink total that NCCL's topology dump shows; empty: neither is in the input."""
    named, shape, table = classes(facts, estimator), estimator.shape, estimator.hardware
    if named or shape.nvlink_total_gbps is None:
        return named
    return tuple(table.gpus[name] for name in table.classes_of_total(shape.nvlink_total_gbps, shape.release))


def names(gpus: Sequence[GpuPart]) -> tuple[str, ...]:
    """The devices of a finding: with their machines, where these are several."""
    several = len(machine_names(gpus)) > 1
    return tuple(f"{gpu.machine} {gpu.name}" if several else gpu.name for gpu in gpus)


def together(gpus: Sequence[GpuPart]) -> str:
    """`GPU3 on node1`, `2 GPUs (gpu3 and gpu5) on node1`; without the machine where no name is known."""
    hosts = machine_names(gpus)
    which = gpus[0].label if len(gpus) == 1 else f"{counted(len(gpus), 'GPU')} ({listed(names(gpus))})"
    return f"{which} on {place(hosts, '')}" if hosts else which
