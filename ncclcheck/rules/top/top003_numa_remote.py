"""A GPU's NIC, or the CPUs that serve the GPU, are on another socket.

## What it finds

- `Affinity for GPU 5 is empty, ignoring` (2.28.3 and newer): none of the CPUs that the process may use is on the GPU's
  NUMA node, so NCCL's threads run far from the GPU. Older releases print nothing in that case.
- A `Pattern` line of a job on several machines whose second type is SYS (`type NVL/SYS`): the way from GPUs to the NICs
  that NCCL chose leads over the link between NUMA nodes.
- `nvidia-smi topo -m` or a topology file: GPUs of one socket reach every NIC at SYS, while GPUs of the other socket
  have a nearer one.

Sockets and NUMA nodes are the same until the firmware splits a socket (NPS2, NPS4 on EPYC, SNC on Xeon). A path that
crosses NUMA nodes of such a machine is information only. `lscpu` in the input tells sockets from nodes; else more than
two nodes are taken for a split.

## Why it costs

Sockets and host staging copy every byte through memory of the wrong socket and over UPI or xGMI: 0.1 to 0.8 of the
node's bandwidth is left. With GPUDirect RDMA the CPUs only post work requests: 0.85 to 1.0. Both ranges rest on one
field report. A NIC at SYS also loses GPUDirect RDMA at NCCL's default level; GDR001 gives that number where channel
lines show it. On NVLink machines PXN hands the data to a GPU beside the NIC, which saves most of it.

## Example

    gpu-m04:731:802 [5] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 5 is empty, ignoring. (GPU affinity = 48-95 ;
    CPU affinity = 0-15).

The job was given CPUs 0 to 15 of socket 0; GPU 5 is on socket 1.

## How to fix

- Slurm: `--gpus-per-task` with `--gpu-bind=closest`, `--cpu-bind=none`, or whole sockets (`--exclusive`).
- Open MPI: `--map-by numa` or `--bind-to none`; wrapper scripts: `numactl --cpunodebind=<node of the GPU>`.
- Kubernetes: kubelet with `--cpu-manager-policy=static` and `--topology-manager-policy=best-effort` (or
  `single-numa-node`).
- NIC and GPU on different sockets: `NCCL_IB_HCA` that leaves out a near NIC, a NIC in the wrong slot, or a machine with
  one NIC. Check with `nvidia-smi topo -m` and `lspci -tv`; move the card, or use the GPUs beside it.
- Count the sockets: `lscpu | grep -E 'Socket|NUMA'`.

## When it is not a problem

The same mask on all GPUs: one NUMA node, a virtual machine, or the job's cpuset. GPUs and NICs of one socket (PHB,
NODE). NIC columns that are SYS for all GPUs of all NUMA nodes: the platform hides where the NIC is (virtual machines,
Grace trays). Storage and management NICs. Jobs on one machine send nothing through a NIC.

## References

- NCCL sources: `src/graph/topo.cc` (ncclTopoGetCpuAffinity), `src/graph/paths.cc` (path types)
- NVIDIA, nvidia-smi manual: topo -m (SYS crosses the link between NUMA nodes)
- Kubernetes documentation: Control Topology Management Policies on a node
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.affinity import Binding, Layout, far_nics, layouts, list_text, silent_processes, socket_of
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.matrix import Matrix
from ncclcheck.facts.sockets import sockets_are_split
from ncclcheck.facts.topo_file import path_tables
from ncclcheck.rules.common import SEVERAL_NODES, compared, counted, listed, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.threads import cpu_cost, threads_of

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_FIX_CPUS = (
    "give the job CPUs of both sockets: srun --cpu-bind=none or --gpu-bind=closest, mpirun --bind-to none, numactl"
    " --cpunodebind=<node of the GPU>; Kubernetes: static CPU manager with a topology manager policy"
)
_FIX_NICS = (
    "compare `nvidia-smi topo -m` with NCCL_IB_HCA: a near NIC may be left out, down, or in a slot of the other socket"
    " (lspci -tv); `lscpu | grep -E 'Socket|NUMA'` counts the sockets"
)
# Levels of NCCL_NET_GDR_LEVEL that let GPUDirect RDMA cross sockets.
_FAR_LEVELS = ("PHB", "SYS", "4", "5")


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    printed = layouts(facts)
    matrices = [matrix for matrix in path_tables(facts) if matrix.nics and matrix.gpus]
    yield from _by_affinity(printed, facts, estimator)
    yield from _by_graph(facts, estimator)
    for matrix in matrices:
        yield from _by_matrix(matrix, facts, estimator)
    if facts.visibility.log and (not printed or silent_processes(facts)):
        yield NotEvaluated(
            "'Affinity for GPU' lines of all ranks (INFO with INIT; until 2.27.7 an empty set prints none), or `taskset"
            " -cp <pid>`"
        )
    if not matrices and not _nics_judged(facts):
        yield NotEvaluated("`nvidia-smi topo -m`, or `Pattern` lines (GRAPH in NCCL_DEBUG_SUBSYS): how far NICs are")


def _nics_judged(facts: Facts) -> bool:
    """No NIC in use, or proof that it is near: GPUDirect RDMA at a level that does not cross sockets."""
    if facts.crossing.answer is Answer.NO or facts.visibility.graph:
        return True
    raised = any(seen.value in _FAR_LEVELS for seen in facts.settings("NCCL_NET_GDR_LEVEL"))
    return facts.shape().gdr is Answer.YES and not raised


# ------------------------------------------------------------------------------------------------- CPUs and GPUs


def _by_affinity(printed: tuple[Layout, ...], facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    empty = [(layout, binding) for layout in printed for binding in layout.bindings if not binding.cpus]
    for same_socket in (False, True):
        found = [one for one in empty if _within_socket(*one) is same_socket]
        if found:
            yield _bound_elsewhere(found, same_socket, facts, estimator)


def _within_socket(layout: Layout, binding: Binding) -> bool:
    """Is the process bound to another part of the GPU's own socket?"""
    if binding.near is None or binding.allowed is None:
        return False
    nodes = {other.near for other in layout.bindings if other.near}
    mine = socket_of(binding.near, nodes)
    reached = {socket_of(node, nodes) for node in nodes if node & binding.allowed}
    return mine is not None and reached == {mine}


def _bound_elsewhere(
    found: list[tuple[Layout, Binding]], same_socket: bool, facts: Facts, estimator: Estimator
) -> Finding:
    layout, first = found[0]
    mine = [binding for one, binding in found if one is layout]
    machines = tuple(sorted({machine for one, _ in found for machine in one.machines}))
    others = sum(one.places for one in {id(one): one for one, _ in found}.values()) - 1
    where = "on another part of the socket" if same_socket else "on another NUMA node"
    if first.near and first.allowed:
        where += f" (the process has {list_text(first.allowed)}, GPU {first.gpu} is at {list_text(first.near)})"
    more = f"; {counted(others, 'other machine')} like that" if others else ""
    known = {binding.near for binding in layout.bindings if binding.near}
    return _finding(
        f"{threads_of(mine)} on {place(layout.machines[:1], 'one machine')} run {where}{more}",
        machines,
        tuple(binding.evidence for _, binding in found)[:4],
        _FIX_CPUS,
        cpu_cost(facts, estimator),
        severity=Severity.INFO if same_socket else Severity.WARNING,
        confidence=Confidence.HIGH if len(known) == 2 else Confidence.MEDIUM,
    )


# ------------------------------------------------------------------------------------------------- NICs and GPUs


def _by_graph(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    if facts.crossing.answer is not Answer.YES:
        return
    for far in far_nics(facts):
        split = _is_split(facts, far.numa_nodes)
        known = f"; the machine has {far.numa_nodes} NUMA nodes, so this may be one socket" if split else ""
        yield _finding(
            f"The way from GPUs to the NICs that NCCL chose crosses NUMA nodes (SYS) on"
            f" {place(far.machines, 'the job')}{known}",
            far.machines,
            far.evidence,
            _FIX_NICS,
            cpu_cost(facts, estimator),
            severity=Severity.INFO if split else Severity.WARNING,
            confidence=Confidence.HIGH if far.numa_nodes == 2 else Confidence.MEDIUM,
        )


def _by_matrix(matrix: Matrix, facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    best = {gpu: matrix.best(gpu) for gpu in matrix.known_gpus()}
    far = [gpu for gpu, path in best.items() if path == "SYS"]
    near = [gpu for gpu, path in best.items() if path != "SYS"]
    numa = matrix.numa_affinity
    nodes = {numa.get(gpu, "") for gpu in best}
    if not far or not near or not all(node.isdecimal() for node in nodes):
        return  # all equally far: nothing tells where the NICs are; a list of nodes is a Grace superchip's
    if {numa[gpu] for gpu in far} & {numa[gpu] for gpu in near}:
        return  # GPUs of one NUMA node do not differ by socket
    split = _is_split(facts, max(int(node) for node in nodes) + 1)
    yield _finding(
        f"{listed(far, 8)} {'reaches' if len(far) == 1 else 'reach'} every NIC across NUMA nodes only (SYS),"
        f" {listed(near, 8)} {'has' if len(near) == 1 else 'have'} a nearer one"
        + ("; NUMA nodes of this machine may be within one socket" if split else ""),
        (),
        _lines(matrix, far),
        _FIX_NICS,
        compared(estimator, SEVERAL_NODES, {**SEVERAL_NODES, "effect": "cpu"}),
        severity=Severity.INFO if split else Severity.WARNING,
        confidence=Confidence.MEDIUM,
        devices=tuple(far),
    )


def _is_split(facts: Facts, numa_nodes: int) -> bool:
    """Are the NUMA nodes parts of sockets, as far as is known?"""
    told = sockets_are_split(facts)
    return numa_nodes > 2 if told is Answer.UNKNOWN else told is Answer.YES


def _lines(matrix: Matrix, gpus: list[str]) -> tuple[Evidence, ...]:
    return tuple(matrix.lines[gpu] for gpu in gpus if gpu in matrix.lines)[:3]


def _finding(
    message: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    fix: str,
    numbers: Numbers,
    *,
    severity: Severity,
    confidence: Confidence,
    devices: tuple[str, ...] = (),
) -> Finding:
    subject = {"devices": devices} if devices else {"hosts": hosts}
    return RULE.finding(severity, confidence, message, fix, subject, evidence, **numbers)


RULE = Rule(
    code="TOP003",
    name="numa-remote",
    severity=Severity.WARNING,
    summary="A GPU's NIC, or the CPUs that serve the GPU, are on another socket",
    check=check,
    since="0.1.0",
    caused_by=("TOP001", "IB002"),
)
