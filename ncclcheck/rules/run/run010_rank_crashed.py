"""A process of the job ended before its time.

## What it finds

The end of a process, in the words of whoever saw it:

- Python: an exception that nobody caught (a traceback behind `[rank3]:`, or one that a launcher's line or the end of
  the output follows), `Fatal Python error`
- signals: Open MPI's handler, the shell (`Killed`, `Segmentation fault`, `Bus error`), `terminate called`
- the kernel and the container: `Out of memory: Killed process`, `oom-kill event`, `OOMKilled`
- launchers: torchrun (`failed (exitcode: -9)`, `Root Cause`), srun (`Exited with exit code`), mpirun and prterun
  (`exited on signal`), MPICH, DeepSpeed, Horovod, torch.multiprocessing, Ray, kubectl
- Slurm's `CANCELLED ... DUE TO PREEMPTION` and the like
- NCCL's RAS (`ncclras`): processes that it considers dead, after a minute without an answer; those that did not answer
  one question are a warning, as are ranks for which NCCL holds an error. Where the end itself is on record, that is
  told instead.

The first death is named. What follows is told apart: SIGTERM (-15, 143) and SIGKILL after another death are the
launcher cleaning up; errors in the words of NCCL or of a socket (`DistBackendError`, connection reset) fall with
somebody else. Where only such are on record, they are reported under what NCCL itself complained of.

## Why it costs

One rank that ends stops all: the others wait in a collective until a socket closes or the watchdog fires (10 minutes by
default), and everything since the last checkpoint is lost. GPUs x time until somebody looks.

## Example

    [rank5]: Traceback (most recent call last):
    [rank5]:   File "train.py", line 88, in step
    [rank5]: ValueError: batch of 7 does not divide by 2
    srun: error: n2: task 5: Exited with exit code 1

## How to fix

| what | where to look |
| --- | --- |
| exception of Python | its traceback, at the line named; the other ranks' errors are echoes |
| SIGKILL (-9, 137) | `dmesg -T \\| grep -i 'out of memory'`, cgroup limit, `sacct -o MaxRSS`; else who sent it |
| SIGBUS (-7, 135) | a full /dev/shm or a truncated memory-mapped file: `df -h /dev/shm` |
| SIGSEGV (-11, 139) | `ulimit -c unlimited`, `gdb python core`, `PYTHONFAULTHANDLER=1`; mixed CUDA or NCCL libraries |
| SIGABRT (-6, 134) | the line before: an assertion, the watchdog, an exception of C++ |
| preemption, node failure | checkpoint more often, requeue (`sbatch --requeue`) |

`TORCH_SHOW_CPP_STACKTRACES=1` and `@record` of torch.distributed.elastic put the first error into torchrun's summary;
`srun --kill-on-bad-exit=1` ends the rest at once.

## When it is not a problem

A traceback that the program caught and went on after is silent, as is `Exception ignored in` at the end of a healthy
run. Ctrl-C, `scancel` and a time limit stop the job from outside: information. Across several inputs nothing orders
lines in time, so that the first death of each is named.

## References

- PyTorch documentation: torchrun (Error Propagation), torch.distributed (TORCH_NCCL_ASYNC_ERROR_HANDLING)
- Slurm documentation: srun (--kill-on-bad-exit), sacct (State, ExitCode)
- signal(7)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.deaths import ABORT, BUS, KILL, Death, FirstDeath, Nature, ended_well, first_death
from ncclcheck.facts.ras import LostProcess, RankError, lost_processes, rank_errors
from ncclcheck.facts.timeouts import death_follows
from ncclcheck.rules.common import counted, listed, no_number, stopped
from ncclcheck.rules.failures import STOPPERS, ranks_in_words
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "what the processes and their launcher print beside NCCL's lines (stderr, the end of the job's output)"

_FIX_OF_SIGNAL = {
    KILL: "dmesg -T | grep -i 'out of memory' on that host, the memory limit of the job (sacct -o MaxRSS, kubectl"
    " describe pod); if memory was not it: who sent the signal",
    BUS: "df -h /dev/shm (docker --shm-size, emptyDir medium: Memory), truncated memory-mapped files",
    11: "ulimit -c unlimited; PYTHONFAULTHANDLER=1; two CUDA or NCCL libraries in one process (grep libnccl"
    " /proc/<pid>/maps)",
    ABORT: "the lines before it in that rank's output: an assertion, an exception of C++, the watchdog",
}
_FIX_PYTHON = "read the traceback of that rank; errors of the other ranks follow from it"
_FIX_VICTIM = "what NCCL or another rank complained of before it; NCCL_DEBUG=INFO on all ranks shows it"
_FIX_STOPPED = "nothing, if it was meant; sacct -j <job> -o State,ExitCode,Elapsed,Timelimit tells who ended it"
_FIX_EXIT = (
    "the output of that rank before its end (stderr); @record of torch.distributed.elastic keeps the first error"
)
_FIX_LOST = (
    "on that machine: ps -o pid,stat,wchan,cmd -p {0}, dmesg -T | tail; gone: its own output and the launcher's exit"
    " code; there: py-spy dump --native --pid {0}; ncclras -v again after a minute tells whether it came back"
)
_MOST_NAMED = 3
# By words of an error: the rule that explains it.
_EXPLAINED = (
    (("cuda", "nvml", "out of memory"), ("RUN007", "HST004")),
    (("too many open files", "can't start new thread", "resource temporarily"), ("HST006",)),
    (("detected mismatch between collectives",), ("RUN005",)),
    (("shm", "shared memory", "no space left", "bus error", "sigbus"), ("HST001",)),
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    first = first_death(facts)
    if first is not None:
        yield _finding(facts, estimator, first)
    elif ended_well(facts):
        return
    elif lost := lost_processes(facts):
        yield _lost(estimator, [one for one in lost if one.dead == lost[0].dead])
    elif errors := rank_errors(facts):
        yield _erring(estimator, [one for one in errors if one.remote == errors[0].remote])
    else:
        yield NotEvaluated(_NEEDS)


def _lost(estimator: Estimator, lost: list[LostProcess]) -> Finding:
    """What RAS says, where nobody saw the end."""
    dead = lost[0].dead
    who = counted(len(lost), "process", "processes")
    said = "dead" if dead else "silent"
    return RULE.finding(
        Severity.ERROR if dead else Severity.WARNING,
        Confidence.MEDIUM if dead else Confidence.LOW,
        f"NCCL's RAS finds {who} {said}: {listed([_process(one) for one in lost], _MOST_NAMED)}",
        _FIX_LOST.format(lost[0].pid),
        {
            "hosts": tuple(dict.fromkeys(one.machine for one in lost)),
            "ranks": tuple(str(rank) for one in lost for rank in one.ranks),
        },
        tuple(one.evidence for one in lost[:_MOST_NAMED]),
        causes=STOPPERS,
        **stopped(estimator),
    )


def _erring(estimator: Estimator, errors: list[RankError]) -> Finding:
    """Ranks that failed and whose processes are still there."""
    first = errors[0]
    follows = "; that follows from a rank that ended" if first.remote else ""
    told = [f"rank {one.rank}{f' on {one.machine}' if one.machine else ''}: {one.error} ({one.when})" for one in errors]
    return RULE.finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"NCCL's RAS finds {counted(len(errors), 'rank')} with an error: {listed(told, _MOST_NAMED)}{follows}",
        f"WARN lines of NCCL of rank {first.rank} (NCCL_DEBUG=WARN), dmesg -T | tail of its machine, and what its"
        f" process prints{f' (pid {first.pid})' if first.pid else ''}",
        {
            "hosts": tuple(dict.fromkeys(one.machine for one in errors if one.machine)),
            "ranks": tuple(str(one.rank) for one in errors),
        },
        tuple(one.evidence for one in errors[:_MOST_NAMED]),
        causes=STOPPERS,
        **stopped(estimator),
    )


def _process(one: LostProcess) -> str:
    """`rank 3 on n2 (pid 811, GPU 1)`."""
    ranks = ranks_in_words(one.ranks) if one.ranks else "a process"
    gpus = f", GPU {one.gpus}" if one.gpus else ""
    return f"{ranks} on {one.machine} (pid {one.pid}{gpus})"


def _finding(facts: Facts, estimator: Estimator, first: FirstDeath) -> Finding:
    stopped_outside = first.nature is Nature.STOPPED
    machines = sorted({death.machine for death in first.deaths if death.machine})
    ranks = sorted({death.rank for death in first.deaths if death.rank}, key=int)
    return RULE.finding(
        Severity.INFO if stopped_outside else Severity.ERROR,
        _confidence(first),
        _message(first),
        _fix(first),
        {"hosts": tuple(machines), "ranks": tuple(ranks)},
        tuple(death.evidence for death in first.deaths[:_MOST_NAMED]),
        causes=(*_causes(first), *(("RUN004",) if death_follows(facts) else ())),
        **(no_number("stopped from outside") if stopped_outside else stopped(estimator)),
    )


def _confidence(first: FirstDeath) -> Confidence:
    if all(death.sure for death in first.deaths):
        return Confidence.HIGH
    return Confidence.MEDIUM if all(death.whole for death in first.deaths) else Confidence.LOW


def _message(first: FirstDeath) -> str:
    message = _told(first)
    return f"{message[0].upper()}{message[1:]}"


def _told(first: FirstDeath) -> str:
    one, *others = first.deaths
    if first.nature is Nature.STOPPED:
        return f"The job was stopped from outside: {one.what}"
    if others:
        told = listed([f"{_who(death)} ({death.what})" for death in first.deaths], _MOST_NAMED)
        return f"Processes ended before their time: {told}; no clock tells which was first"
    if first.nature is Nature.VICTIM:
        return f"{_who(one)} ended on what NCCL or a peer did: {one.what}"
    if first.nature is Nature.EXIT:
        return f"{_who(one)} ended with {one.what}; why is not in the input"
    follow = "; the others follow from it" if first.later else ""
    return f"{_who(one)} ended {'first' if first.later else 'before its time'}: {one.what}{follow}"


def _who(death: Death) -> str:
    who = f"rank {death.rank}" if death.rank else "a process"
    return f"{who} on {death.machine}" if death.machine else who


def _fix(first: FirstDeath) -> str:
    one = first.deaths[0]
    if first.nature is Nature.STOPPED:
        return _FIX_STOPPED
    if first.nature is Nature.VICTIM:
        return _FIX_VICTIM
    if first.nature is Nature.EXIT:
        return _FIX_EXIT
    return _FIX_PYTHON if one.about == "python" else _FIX_OF_SIGNAL.get(one.signal or 0, _FIX_EXIT)


def _causes(first: FirstDeath) -> tuple[str, ...]:
    """A death with a reason of its own is a first cause, unless the error itself names what a rule explains. One whose
    reason is cut off may be of any error."""
    if first.nature is Nature.VICTIM or not all(death.whole for death in first.deaths):
        return (*STOPPERS, "RUN005", "RUN003")
    text = " ".join(death.what for death in first.deaths).lower()
    return tuple(code for words, codes in _EXPLAINED if any(word in text for word in words) for code in codes)


RULE = Rule(
    code="RUN010",
    name="rank-crashed",
    severity=Severity.ERROR,
    summary="A process of the job ended before its time",
    check=check,
    since="0.1.0",
)
