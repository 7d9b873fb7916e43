"""PyTorch's watchdog ended a collective that did not finish in time.

## What it finds

`Watchdog caught collective operation timeout` of all releases of PyTorch, and what stands around it: how far each rank
came in its process group (`last enqueued`, `last completed`), operation and sizes. Ranks that print the timeout
**wait**. Within one group, named as the first to stop are, in this order:

1. ranks whose last enqueued collective is older than the one that others wait in: they never called it
2. ranks that wait in an older one
3. ranks with another operation, or another size, at the same number
4. ranks that print nothing of it, where others show by their numbers that they exist.

Two reports of NCCL's RAS (`ncclras -v`) in which a rank has launched less than the others, with all counts the same in
both, show the same before the watchdog fires: a warning that names the rank.

A rank that waits in another group as well is not the first there. If every rank of the group waits in the same
collective, all called it: then a GPU, a link or the network stands, not the program. `watchdog got stuck` and
`Heartbeat monitor timed out` are told apart: there a call of CUDA or NCCL blocked, or Python's GIL.

## Why it costs

All GPUs stand for the whole timeout (10 minutes by default since PyTorch 2.2, 30 before), and what was computed since
the last checkpoint is lost. 256 GPUs x 600 s are 43 GPU-hours. A longer timeout only stands longer.

## Example

    [rank0]:[E512 09:14:07.331880412 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout:
    WorkNCCL(SeqNum=411, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=600000) ran for 600012
    milliseconds before timing out.
    [rank3]:[E512 09:14:08.004172155 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump
    signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL
    work: 410, last completed NCCL work: 410.

Rank 3 never called number 411: it is the one to look at.

## How to fix

| who was first | where to look |
| --- | --- |
| never called it, or silent | `py-spy dump --pid <pid>` of that rank while it stands, its own last lines, `dmesg -T` |
| another operation or size | `TORCH_DISTRIBUTED_DEBUG=DETAIL` names the first call that differs |
| nobody: all are there | `dmesg -T \\| grep -i xid`, ports and NVLink of the hosts, WARN lines of NCCL |
| nobody, in the first collective | connections: NCCL_SOCKET_IFNAME, firewall, NCCL_P2P_DISABLE=1 as a test |

A rank is late for data loading, a checkpoint, a branch that only some ranks take; all must call the same collectives in
the same order. The flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE=2000`, `TORCH_FR_BUFFER_SIZE` in newer releases)
keeps the last collectives of each rank.

## When it is not a problem

A collective that was slow and finished prints nothing. Where a process died, NCCL complained or init did not come to
its end, the timeout is the consequence and hangs under that finding. Raise the timeout of init_process_group only
where a rank really works that long alone (a large checkpoint, compilation).

## References

- PyTorch documentation: torch.distributed (init_process_group timeout, TORCH_DISTRIBUTED_DEBUG), flight recorder
- PyTorch sources: `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.deaths import deaths, ended_well
from ncclcheck.facts.ras import Standing, counts_differ, standing_ranks
from ncclcheck.facts.timeouts import TimedOut, Timeout, death_follows, stuck_watchdogs, timed_out
from ncclcheck.rules.common import counted, place, stood, stopped
from ncclcheck.rules.failures import first_causes, folded, ranks_in_words
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_NEEDS = "what the processes print beside NCCL's lines (stderr: PyTorch's watchdog writes there), to the end of the job"
_FIX_LATE = (
    "py-spy dump --pid <pid> of {} while the job stands, its own last lines, dmesg -T of its host: data loading, a"
    " checkpoint, a branch that only some ranks take"
)
_FIX_CALLS = "TORCH_DISTRIBUTED_DEBUG=DETAIL names the first call that differs; all ranks must call the same in order"
_FIX_ALL = "WARN lines of NCCL, dmesg -T | grep -i xid, ports and NVLink of the hosts: a GPU or a link stands"
_FIX_BEGIN = "WARN lines of NCCL; NCCL_SOCKET_IFNAME and firewall between the hosts; NCCL_P2P_DISABLE=1 as a test"
_FIX_UNKNOWN = (
    "give the output of all ranks; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (flight recorder) keeps what each called"
)
_NEEDS_SECOND = "a second report of RAS some seconds after the one that is there: ncclras -v (one alone says nothing)"
_FIX_STANDING = (
    "py-spy dump --native --pid {} on that machine shows what the rank does in place of the call (a checkpoint, data, a"
    " branch that only some ranks take); ncclras -v once more tells whether it moved"
)
_FIX_STUCK = "py-spy dump --native --pid <pid> of that rank: a call of CUDA or NCCL that blocks, or who holds the GIL"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    timeouts, (stuck, lines) = timed_out(facts), stuck_watchdogs(facts)
    if timeouts is not None:
        yield _finding(facts, estimator, timeouts)
    elif lines:
        who = ranks_in_words(stuck) if stuck else "a rank"
        message = f"PyTorch ended {who}: the watchdog itself stood still (a call of CUDA or NCCL, or Python's GIL)"
        yield _found(facts, message, Confidence.MEDIUM, _FIX_STUCK, ((), folded(stuck)), lines, stopped(estimator))
    elif standing := standing_ranks(facts):
        yield _standing(facts, estimator, standing)
    elif counts_differ(facts):
        yield NotEvaluated(_NEEDS_SECOND)
    elif not (any(death.about == "python" for death in deaths(facts)) or ended_well(facts)):
        yield NotEvaluated(_NEEDS)


def _standing(facts: Facts, estimator: Estimator, standing: tuple[Standing, ...]) -> Finding:
    """What two reports of RAS show before the watchdog fires."""
    one = standing[0]
    same = [other for other in standing if other.communicator == one.communicator and other.operation == one.operation]
    ranks = sorted(other.rank for other in same)
    machines = tuple(dict.fromkeys(other.machine for other in same if other.machine))
    where = f" on {place(machines, '')}" if machines else ""
    what = "operations" if one.operation == "any" else f"{one.operation} operations"
    message = (
        f"Two reports of RAS show no progress: {ranks_in_words(ranks)}{where} of communicator {one.communicator}"
        f" launched {one.launched} {what}, others {one.ahead}"
    )
    return RULE.finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        message,
        _FIX_STANDING.format(one.pid or "<pid>"),
        {"hosts": machines, "ranks": folded(ranks)},
        one.evidence,
        causes=first_causes(facts, "RUN003", "RUN005"),
        **stopped(estimator),
    )


def _finding(facts: Facts, estimator: Estimator, timeouts: TimedOut) -> Finding:
    numbers = stopped(estimator) if timeouts.seconds is None else stood(estimator, timeouts.seconds)
    one = timeouts.groups[0]
    message, fix, sure = _told(one)
    after = f" after {timeouts.seconds:.0f} s" if timeouts.seconds is not None else ""
    others = sum(bool(other.group) for other in timeouts.groups[1:])
    more = f"; {counted(others, 'more process group')} likewise" if others else ""
    confidence = Confidence.HIGH if sure else Confidence.MEDIUM
    ranks = folded(one.first or one.waiting)
    message = f"PyTorch's watchdog ended a collective{after}: {message}{more}"
    return _found(facts, message, confidence, fix, (one.machines, ranks), one.evidence, numbers)


def _told(one: Timeout) -> tuple[str, str, bool]:
    """Who waited and who was first, the fix, and whether the ranks compared are of one group for certain."""
    waiting = ranks_in_words(one.waiting) if one.waiting else "ranks"
    waits = f"{waiting} {'waits' if len(one.waiting) == 1 else 'wait'}{_collective(one)}"
    if not one.first:
        if one.all_there:
            return f"{waits}, and no rank is missing: all called it", _FIX_BEGIN if one.work == 1 else _FIX_ALL, True
        none = "no rank that speaks is behind" if one.work and len(one.waiting) > 1 else "who was first does not show"
        return f"{waits}; {none}", _FIX_BEGIN if one.work == 1 else _FIX_UNKNOWN, one.sure
    first = ranks_in_words(one.first)
    where = f" on {place(one.machines, '')}" if one.machines else ""
    doubt = "" if one.sure else ", if all are of one process group"
    single = len(one.first) == 1
    late = _FIX_LATE.format(first)
    if one.how == "behind":
        last = f" ({'its' if single else 'their'} last is {one.last})" if one.last is not None else ""
        return f"{waits} that {first}{where} never called{last}{doubt}", late, one.sure
    if one.how == "stuck":
        last = "" if one.last is None else f", number {one.last}"
        return f"{waits}, {first}{where} in an earlier one{last}{doubt}", late, one.sure
    if one.how == "other":
        return f"{waits}, {first}{where} at the same number in {one.last_op}{doubt}", _FIX_CALLS, one.sure
    verb = "prints" if single else "print"
    return f"{waits}; {first}{where} {verb} no timeout: not there, or the output is missing", late, False


def _collective(one: Timeout) -> str:
    group = f" of process group {one.group}" if one.group else ""
    if one.work is None:
        return f" in {one.op or ('several collectives' if one.mixed else 'one')}{group}"
    return f" in number {one.work}{f' ({one.op})' if one.op else ''}{group}"


def _found(
    facts: Facts,
    message: str,
    confidence: Confidence,
    fix: str,
    subject: tuple[tuple[str, ...], tuple[str, ...]],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
) -> Finding:
    causes = first_causes(facts, "RUN003", "RUN005")
    if death_follows(facts):
        causes = tuple(code for code in causes if code != "RUN010")
    hosts, ranks = subject
    return RULE.finding(
        Severity.ERROR,
        confidence,
        message,
        fix,
        {"hosts": hosts, "ranks": ranks},
        evidence,
        causes=causes,
        **numbers,
    )


RULE = Rule(
    code="RUN004",
    name="collective-timeout",
    severity=Severity.ERROR,
    summary="PyTorch's watchdog ended a collective that did not finish in time",
    check=check,
    since="0.1.0",
    caused_by=("PCI004",),
)
