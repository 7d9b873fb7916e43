"""NCCL runs across MIG instances, or on vGPUs.

## What it finds

- **MIG**: a GPU is divided into instances (`nvidia-smi -q`: MIG Mode Enabled; `nvidia-smi -L`: MIG devices) and ranks
  of the job run on it, which NCCL's bus ids or device numbers tell.
- **vGPU**: the virtualization mode of a GPU is VGPU: the guest has a share of it by the hypervisor's time slices or by
  MIG.

MIG without a log of a job on it is not judged: many single processes may well share a GPU.

## Why it costs

Instances of one GPU have neither NVLink nor peer access, not even to each other: NCCL goes through host memory or the
network, and several ranks with one bus id stop it (`Duplicate GPU detected`) before 2.28 or without
`NCCL_MULTI_RANK_GPU_ENABLE`. The NVLinks of the GPU lie idle: an H100 gives up 450 GB/s in each direction for some 10
to 20 of host memory. Time-sliced vGPUs also wait for each other, and GPUDirect RDMA mostly does not exist there. What a
partition is worth depends on its size, so there is no number.

## Example

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
      MIG 3g.40gb     Device  0: (UUID: MIG-...)

## How to fix

    nvidia-smi mig -dci && nvidia-smi mig -dgi   # no process may run on it
    nvidia-smi -i 0 -mig 0                       # then reset the GPU or reboot, where it asks for it
    nvidia-smi -q | grep -A2 'MIG Mode'          # Current: Disabled

Ask for whole GPUs: another queue or partition in Slurm, `nvidia.com/gpu` instead of `nvidia.com/mig-*` in Kubernetes,
an instance type or VM with passed-through GPUs instead of vGPU profiles.

## When it is not a problem

Training or inference of one process per instance, which needs no NCCL. Host VGPU and Host VSGA are modes of a
hypervisor that hands out shares; nothing of a job runs there. MIG on GPUs that the job does not use.

## References

- NVIDIA Multi-Instance GPU user guide, Application considerations (no peer-to-peer between instances)
- NVIDIA vGPU documentation: features and limits (peer-to-peer, GPUDirect)
- NCCL sources: `src/init.cc` (duplicate GPU); NCCL user guide, NCCL_MULTI_RANK_GPU_ENABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import machine_names
from ncclcheck.facts.gpu_parts import Gpu, gpu_parts, used_gpus
from ncclcheck.rules import gpus
from ncclcheck.rules.common import no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.parts import Value

_PARTITION = "what a partition is worth depends on its size"
_WHOLE = (
    "ask for whole GPUs: another Slurm partition, nvidia.com/gpu in Kubernetes, or nvidia-smi mig -dci; nvidia-smi mig"
    " -dgi; nvidia-smi -mig 0 on the drained machine"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    told = gpu_parts(facts)
    shared = [(gpu, value) for gpu in told if (value := gpu.first("virtualization", "vgpu"))]
    divided = [(gpu, value) for gpu in told if (value := gpu.first("mig", "enabled"))]
    used = [(gpu, value) for gpu, value in divided if _runs_on(facts, gpu)]
    if shared:
        yield _finding("a vGPU", "vGPUs", shared, "ask for passed-through GPUs instead of vGPU profiles")
    if used:
        them = "it" if len(used) == 1 else "them"
        yield _finding("divided by MIG", "divided by MIG", used, _WHOLE, f", and the job runs on {them}")
    placed = facts.ranks_with_device and all(gpu.machine for gpu, _ in divided)
    if divided and not (used or shared or placed):
        yield NotEvaluated("a log of the job (NCCL_DEBUG=INFO): MIG is on, and whether NCCL runs on it is not shown")
    elif not any(gpu.knows(("mig", "virtualization")) for gpu in told):
        yield NotEvaluated("`nvidia-smi -q` of each machine (MIG Mode, Virtualization Mode)")


def _runs_on(facts: Facts, gpu: Gpu) -> bool:
    """A rank of that machine names its address or its number."""
    return (gpu.machine, gpu.name) in used_gpus(facts)


def _finding(one: str, several: str, seen: list[tuple[Gpu, Value]], fix: str, more: str = "") -> Finding:
    them = [gpu for gpu, _ in seen]
    are = f"is {one}" if len(seen) == 1 else f"are {several}"
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH,
        f"{gpus.together(them)} {are}{more}: NCCL has neither NVLink nor peer access between such parts",
        fix,
        {"hosts": machine_names(them), "devices": gpus.names(them)[:8]},
        tuple(value.evidence for _, value in seen)[:4],
        **no_number(_PARTITION),
    )


RULE = Rule(
    code="VRT002",
    name="vgpu-or-mig",
    severity=Severity.WARNING,
    summary="NCCL runs across MIG instances, or on vGPUs",
    check=check,
    since="0.1.0",
)
