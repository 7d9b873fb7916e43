"""NCCL's threads share one core, or GPUs have less than two CPUs each.

## What it finds

NCCL says where it binds its threads for each GPU: `Setting affinity for GPU 3 to ff,00000000` (until 2.27.7, a mask
in words of 32 CPUs, the highest first: CPUs 32 to 39) or `Affinity for GPU 3 is 32-39` (2.28.3 and newer). The set is
what the process may use and what is near the GPU. The rule fires when

- a set has one or two CPUs, which is one core with its hyper-thread (on POWER9, where a core has four threads, up to
  four CPUs of one core), or
- several GPUs lie in one set that leaves each less than two CPUs: eight GPUs in a cgroup of eight CPUs.

## Why it costs

One proxy thread per GPU drives the network. It busy-waits; so do the training thread (in kernel launches) and, at
times, the data loaders. On one core they take turns. With sockets or host staging the proxy copies every byte: 0.1 to
0.8 of the node's bandwidth is left. With GPUDirect RDMA it only posts work requests: 0.85 to 1.0. Both ranges rest on
one field report. Inside a node NCCL needs no proxy, but launches and data loading suffer in the same way.

## Example

    gpu-c01:4127:4310 [0] NCCL INFO Setting affinity for GPU 0 to 01,00000000,00000001

CPUs 0 and 64: one core of a 64-core machine, because mpirun binds each of two or fewer processes to a core.

## How to fix

- Open MPI: `mpirun --bind-to none`, or `--map-by ppr:8:node:PE=16 --bind-to core` for 16 cores per rank.
- Slurm: `--cpus-per-task=16` on `sbatch` **and** `srun` (srun does not inherit it from 22.05 on; set
  `SRUN_CPUS_PER_TASK`), `--cpu-bind=none` or `--gpus-per-task` with `--gpu-bind=closest`.
- jsrun: `--cpu_per_rs 20 --bind packed:20` or `--bind none`.
- Kubernetes: `requests` and `limits` of at least 4 CPUs per GPU.
- Look at a running rank: `taskset -cp <pid>`, `grep Cpus_allowed_list /proc/<pid>/status`, and for the quota, which
  NCCL cannot see, `cat /sys/fs/cgroup/cpu.max`.

## When it is not a problem

A mask of a whole NUMA node, the same on all GPUs of it: that is the normal picture. Four or more CPUs for each GPU.
An empty set is another fault (TOP003): the process is bound far from its GPU.

## References

- NCCL sources: `src/graph/topo.cc` (ncclTopoGetCpuAffinity), `src/proxy.cc`
- Open MPI manual: mpirun, section on binding (one or two processes are bound to a core each by default)
- Slurm manual: srun, `--cpu-bind`, `SRUN_CPUS_PER_TASK`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.affinity import Binding, Layout, layouts, list_text
from ncclcheck.facts.answer import Answer
from ncclcheck.rules.common import counted, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.threads import cpu_cost, threads_of

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_FEW = 2  # a core with its hyper-thread
_THREADS_OF_POWER9 = 4
_FIX = (
    "mpirun --bind-to none, srun --cpus-per-task=16 (and --cpu-bind=none), or CPU requests of 4 and more per GPU in"
    " Kubernetes; `taskset -cp <pid>` shows what a rank may use"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    printed = layouts(facts)
    if not any(binding.cpus for layout in printed for binding in layout.bindings):
        yield NotEvaluated(
            "'Setting affinity for GPU' or 'Affinity for GPU' lines (INFO with INIT in NCCL_DEBUG_SUBSYS); `taskset -cp"
            " <pid>` tells the same of a running rank"
        )
        return
    power = "Power" in facts.cpu_vendors
    cores = [(layout, few) for layout in printed if (few := _on_one_core(layout.bindings, power))]
    crowds = [(layout, crowd) for layout in printed if (crowd := _crowd(layout.bindings))]
    crowds = [(layout, crowd) for layout, crowd in crowds if layout not in [other for other, _ in cores]]
    if cores:
        yield _finding(_core_text, cores, facts, estimator)
    if crowds:
        yield _finding(_crowd_text, crowds, facts, estimator)


def _on_one_core(bindings: Sequence[Binding], power: bool) -> list[Binding]:
    """GPUs whose threads have one core, fewest CPUs first."""
    found = [binding for binding in bindings if 0 < len(binding.cpus) <= _FEW or (power and _power9_core(binding))]
    return sorted(found, key=lambda binding: len(binding.cpus))


def _power9_core(binding: Binding) -> bool:
    return len({cpu // _THREADS_OF_POWER9 for cpu in binding.cpus}) == 1


def _crowd(bindings: Sequence[Binding]) -> list[Binding]:
    """GPUs that share a set of less than two CPUs for each; empty where there is none."""
    for cpus in sorted({binding.cpus for binding in bindings if binding.cpus}, key=len):
        inside = [binding for binding in bindings if binding.cpus and binding.cpus <= cpus]
        if len(cpus) < _FEW * len({binding.gpu for binding in inside}):
            return inside
    return []


def _core_text(bindings: Sequence[Binding], where: str) -> str:
    worst = bindings[0]
    several = len(bindings) > 1
    same = several and len({binding.cpus for binding in bindings}) == 1
    bound = ""
    if worst.allowed is not None and len(worst.allowed) > len(worst.cpus):
        bound = f", all that is near the GPU of the {len(worst.allowed)} that the process may use"
    cpus = f"{counted(len(worst.cpus), 'CPU')} ({list_text(worst.cpus)})"
    verb, each = ("share", "") if same else ("run on", " each" if several else "")
    return f"{threads_of(bindings)} on {where} {verb} {cpus}{each}{bound}"


def _crowd_text(bindings: Sequence[Binding], where: str) -> str:
    cpus = frozenset[int]().union(*(binding.cpus for binding in bindings))
    shared = f"{counted(len(cpus), 'CPU')} ({list_text(cpus)})"
    return f"{threads_of(bindings)} on {where} share {shared}, less than two for each GPU"


def _finding(
    text: Callable[[Sequence[Binding], str], str],
    found: Sequence[tuple[Layout, list[Binding]]],
    facts: Facts,
    estimator: Estimator,
) -> Finding:
    layout, worst = min(found, key=lambda one: len(one[1][0].cpus))
    machines = tuple(sorted({machine for one, _ in found for machine in one.machines}))
    where = place(layout.machines[:1], "one machine")
    others = sum(one.places for one, _ in found) - 1
    more = f"; {counted(others, 'other machine')} like that" if others else ""
    return RULE.finding(
        severity=Severity.WARNING,
        # inside a node little depends on the proxy threads
        confidence=Confidence.HIGH if facts.crossing.answer is Answer.YES else Confidence.MEDIUM,
        message=f"{text(worst, where)}, together with data loaders and the training threads{more}",
        fix=_FIX,
        subject={"hosts": machines},
        evidence=tuple(binding.evidence for _, bindings in found for binding in bindings)[:4],
        **cpu_cost(facts, estimator),
    )


RULE = Rule(
    code="HST007",
    name="cpu-starved",
    severity=Severity.WARNING,
    summary="NCCL's threads share one core, or GPUs have less than two CPUs each",
    check=check,
    since="0.1.0",
)
