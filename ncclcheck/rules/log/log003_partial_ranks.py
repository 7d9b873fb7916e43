"""Some ranks or hosts of a communicator are not in the input.

## What it finds

A communicator whose size is known (`nranks` of Init START or COMPLETE, `nRanks` of the nodes line, the ring order of
rank 0) and of which fewer ranks have lines in the input. The absent ranks and, where it can be told, hosts are counted.

Absent is not missing. As soon as one rank has passed the first exchange (nodes line, Trees, `coll channels`, channel
lines, Init COMPLETE) **all** ranks have arrived, because that exchange is collective; then only their logs are
elsewhere, and this rule speaks. If nobody is past Init START and no end is on record, ranks may have died or their
logs may be lacking: the rule says so.

## Why it costs

Nothing by itself; it narrows what can be known. One-sided input cannot tell where an edge lands (rails need both ends),
whether hosts agree (NICs, versions, settings), which host is the odd one, or who stopped first in a hang. Findings from
part of the ranks hold for that part.

## Example

    r0only-1:8123:8185 [0] NCCL INFO comm 0x55e0a1c3f7b0 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
    r0only-1:8123:8185 [0] NCCL INFO ncclCommInitRank comm 0x55e0a1c3f7b0 rank 0 nranks 4 ... - Init COMPLETE

Rank 0 of four: ranks 1 to 3 came up and logged elsewhere.

## How to fix

- One file per process: `NCCL_DEBUG_FILE=/scratch/$JOB/nccl.%h.%p.log`, and give ncclcheck the directory.
- Launchers: `mpirun --tag-output`, `srun -l -o log.%N.%t`, `torchrun --tee 3 --log-dir logs`, no
  `--local-ranks-filter`; Ray `RAY_DEDUP_LOGS=0`; Kubernetes `kubectl logs --prefix -l job-name=... --max-log-requests
  64 --tail=-1` for all pods of the job.
- Frameworks that set NCCL_DEBUG on rank 0 only: export it in the job script for all.
- Several inputs are joined by machine, run and communicator: `ncclcheck node*.log`.

## When it is not a problem

A communicator of a subset (split, tensor or pipeline groups) has fewer ranks than the world, and all of its own; ranks
with NCCL_SPLIT_NOCOLOR do not belong to it. Excerpts in documentation, and logs of rank 0 that answer a question about
rank 0, are partial on purpose. Where the size is unknown (before 2.18.3 without COMPLETE) nothing is known to be
absent: not evaluated.

## References

- NCCL sources: `src/init.cc` (initTransportsRank: the first all-gather), `src/bootstrap.cc`
- NCCL user guide, Environment Variables: NCCL_DEBUG_FILE
- PyTorch documentation: torchrun (`--tee`, `--log-dir`); Ray documentation: log deduplication
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.presence import Absent
from ncclcheck.rules.common import counted
from ncclcheck.rules.failures import folded
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    sized = [communicator for communicator in facts.communicators if communicator.nranks]
    if not sized and not facts.absent:
        yield NotEvaluated("the size of a communicator (Init START or COMPLETE lines)")
    if facts.absent:
        yield _finding(facts.absent)


def _finding(absent: tuple[Absent, ...]) -> Finding:
    largest = max(absent, key=lambda one: one.nranks)
    others = len(absent) - 1
    verb = "is" if len(largest.seen) == 1 else "are"
    message = f"{len(largest.seen)} of {largest.nranks} ranks of a communicator {verb} in the input"
    message += f" ({counted(others, 'more communicator')} in part)" if others else ""
    message += (
        ": the others arrived, only their logs are not here"
        if largest.arrived
        else "; whether the others never arrived or only log elsewhere is not in it"
    )
    return RULE.finding(
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        message=message,
        fix="give the logs of all ranks (NCCL_DEBUG_FILE=/shared/nccl.%h.%p.log, srun -l, mpirun --tag-output), or a"
        " directory of them",
        subject={"ranks": folded(largest.missing)},
        evidence=largest.evidence,
        causes=() if largest.arrived else ("RUN003",),
        no_estimate_because="logs that are not here cost no bandwidth",
    )


RULE = Rule(
    code="LOG003",
    name="partial-ranks",
    severity=Severity.INFO,
    summary="Some ranks or hosts of a communicator are not in the input",
    check=check,
    since="0.1.0",
)
