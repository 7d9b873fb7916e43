"""A group of ranks that would fit one node is spread over several.

## What it finds

NCCL 2.20.3 and newer print how each communicator lies over nodes: `comm ... nRanks 8 nNodes 2 localRanks 4`. The rule
takes the GPUs per node in use (the largest localRanks of the process) and looks for groups that are no larger than
that, span several nodes, and have more than one rank on a node: all ranks could have been neighbours. Before 2.20.3 it
counts hosts, where all ranks of the group are in the input.

- Warning: the ranks of a host are not consecutive (cyclic placement), or nothing else explains the group.
- Information: the same processes form groups inside the node as well. A plan of two dimensions looks like that: tensor
  groups inside, data-parallel groups of ranks 0, 4, 8, 12 across. The input cannot tell which of them is which.

A node is what NCCL counts: an NVL72 rack is one.

## Why it costs

Tensor and expert parallelism exchange activations in every layer, on the critical path. Inside a node that runs over
NVLink (ring bus bandwidth of 366 GB/s on H100, 236 on A100); across nodes it gets the share of the NICs that its ranks
have, 48 GB/s for each of 400 Gb/s. Data-parallel groups pay once per step.

## Example

    dl-07:2201:2399 [0] NCCL INFO comm 0x55d0c4a2f3b0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
    dl-07:2201:2399 [0] NCCL INFO comm 0x55d0c91e77a0 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0

Eight ranks would fit one of these nodes; `srun --distribution=cyclic` put every second rank on the other host.

## How to fix

- Ranks of one host must be consecutive: `srun --distribution=block:block`, Open MPI `--map-by slot` (not `--map-by
  node`), a hostfile with `slots=8`, torchrun (it always is).
- Megatron: tensor parallel is the innermost dimension (`--use-tp-pp-dp-mapping` changes the outer ones);
  `tensor-model-parallel-size` at most the GPUs per node.
- PyTorch DeviceMesh: the last dimension is the innermost: `init_device_mesh("cuda", (dp, tp))`.
- DeepSpeed and FSDP HSDP: the shard group inside the node, the replicate group across.
- Print it: `torch.distributed.get_process_group_ranks(group)` on rank 0, with the host of each rank.

## When it is not a problem

One rank per node (data or pipeline parallel over nodes). nNodes 1, also over several machines (MNNVL). Groups larger
than a node. Data-parallel groups beside tensor groups that are inside a node.

## References

- NCCL sources: `src/init.cc` (nNodes, localRanks: 2.20.3 and newer)
- Slurm manual: srun, `--distribution`; Open MPI manual: mpirun, mapping
- Megatron-LM: "Efficient Large-Scale Language Model Training on GPU Clusters" (tensor parallel inside a node)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.groups import SpanningGroup, nodes_known, spanning_groups
from ncclcheck.rules.common import Numbers, compared, counted, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_CONSECUTIVE = (
    "make the ranks of one host consecutive: srun --distribution=block, mpirun --map-by slot, hostfile slots=N"
)
_INNERMOST = (
    "make tensor parallel the innermost dimension of the plan (consecutive ranks), no larger than a node;"
    " torch.distributed.get_process_group_ranks(group) shows the ranks"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    groups = spanning_groups(facts)
    for group in groups:
        yield _finding(group, facts, estimator)
    if not groups and not nodes_known(facts):
        yield NotEvaluated(
            "'comm ... nRanks n nNodes k localRanks l' lines (NCCL 2.20.3+, INFO with INIT), or all ranks of an older"
            " job"
        )


def _finding(group: SpanningGroup, facts: Facts, estimator: Estimator) -> Finding:
    """Cyclic placement is proof; a group beside others that stay inside may be the plan's outer dimension."""
    planned = group.beside_inner and not group.interleaved
    what = f"{counted(group.number, 'communicator')} of {group.nranks} ranks"
    message = (
        f"{what} would fit one node ({group.per_node} GPUs in use) but {'spans' if group.number == 1 else 'span'}"
        f" {group.nnodes}, with {group.local_ranks} ranks on a node"
    )
    if group.interleaved:
        message += ": the ranks of a host are not consecutive"
    elif planned:
        message += "; right for data parallel beside the groups that stay inside a node, wrong for tensor parallel"
    return RULE.finding(
        severity=Severity.INFO if planned else Severity.WARNING,
        confidence=Confidence.LOW if planned else Confidence.HIGH if group.interleaved else Confidence.MEDIUM,
        message=message,
        fix=_CONSECUTIVE if group.interleaved else _INNERMOST,
        subject={"hosts": group.machines},
        evidence=group.evidence,
        **_numbers(group, facts, estimator, planned),
    )


def _numbers(group: SpanningGroup, facts: Facts, estimator: Estimator, planned: bool) -> Numbers:
    if planned:
        return no_number("what the group is for is not in the input")
    actual: dict[str, object] = {"nodes": group.nnodes, "gpus_per_node": group.local_ranks}
    nics = facts.shape().nics_per_node
    if nics:  # the other groups of the node use theirs at the same time
        actual["nics"] = max(1, round(nics * group.local_ranks / group.per_node))
    return compared(estimator, {"nodes": 1, "gpus_per_node": group.nranks}, actual)


RULE = Rule(
    code="TOP008",
    name="group-spans-nodes",
    severity=Severity.WARNING,
    summary="A group of ranks that would fit one node is spread over several",
    check=check,
    since="0.1.0",
)
