"""A process ran into a limit of its host: open files, or threads and processes.

## What it finds

- `Too many open files` (EMFILE, errno 24) in a warning of NCCL (`Call to socket failed`, `open`, `accept`, `pipe`,
  sockets and shared memory), or in the exception that ended a rank
- a thread that could not be started: `Call to pthread_create failed: Resource temporarily unavailable` (2.19 to 2.28),
  `Thread creation failed` (2.29.2 and newer), Python's `can't start new thread`.

A warning, where nothing has failed yet, for limits that a job of some size will meet: a **hard** limit of open files
below 4096 (/proc/PID/limits; NCCL raises the soft one itself, so `ulimit -n` says nothing), or fewer than 1024
processes (`ulimit -u`).

## Why it costs

Init or the first connection fails on that host, and all ranks of the job stop: GPUs x time until noticed. It hits large
jobs first: a rank holds a socket for each peer and thread of the socket transport, a few descriptors for each RDMA
connection and shared segment, and threads for proxies, networks and watchdogs; data loader workers multiply both.

## Example

    mill-04:2433:2459 [2] misc/socket.cc:134 NCCL WARN Call to socket failed: Too many open files

## How to fix

    grep -E 'open files|processes' /proc/<pid>/limits           # of the rank itself, not of a login shell
    ls /proc/<pid>/fd | wc -l; ls /proc/<pid>/task | wc -l      # what it uses
    cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current     # inside the container

- Files: `ulimit -n 1048576` before the launcher, `docker run --ulimit nofile=1048576:1048576`, `LimitNOFILE=` of the
  container runtime, kubelet or slurmd; Slurm hands on the limits of the submitting shell
  (`PropagateResourceLimits`).
- Threads: `docker run --pids-limit=-1`, `podPidsLimit` of the kubelet, `ulimit -u`, `TasksMax=`; fewer data loader
  workers, `OMP_NUM_THREADS`.
- A number of descriptors that grows is a leak: `torch.multiprocessing.set_sharing_strategy('file_system')` for loaders
  that hand over many tensors.

## When it is not a problem

`Resource temporarily unavailable` alone is a socket that will be tried again. Limits that are low and were not met are
no fault.

## References

- getrlimit(2): RLIMIT_NOFILE, RLIMIT_NPROC; cgroup v2: pids controller
- PyTorch documentation: torch.multiprocessing, sharing strategies
- NCCL sources: `src/misc/socket.cc`, `src/include/checks.h`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.host_parts import Told, is_told, told_below
from ncclcheck.facts.process_limits import FILES, THREADS, Limit, process_limits
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = (
    "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed); without a log `cat"
    " /proc/<pid>/limits` of a rank"
)
# Eight ranks with their sockets, descriptors of RDMA and data loaders; threads of as many.
_FEW_FILES, _FEW_PROCESSES = 4096, 1024
_FIX_FILES = (
    "ulimit -n 1048576 before the launcher, docker run --ulimit nofile=1048576:1048576, LimitNOFILE= of slurmd or the"
    " container runtime; check grep 'open files' /proc/<pid>/limits and ls /proc/<pid>/fd | wc -l"
)
_FIX_THREADS = (
    "docker run --pids-limit=-1, podPidsLimit of the kubelet, ulimit -u, TasksMax= of the unit; check"
    " /sys/fs/cgroup/pids.max and ls /proc/<pid>/task | wc -l; fewer data loader workers, OMP_NUM_THREADS"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    limits = process_limits(facts)
    for limit in limits:
        yield _finding(estimator, limit)
    low = [
        (kind, told)
        for kind, key, least in ((FILES, "nofile_hard", _FEW_FILES), (THREADS, "nproc", _FEW_PROCESSES))
        if (told := told_below(facts, key, least)) and kind not in {limit.kind for limit in limits}
    ]
    for kind, told in low:
        yield _low(kind, told)
    settled = facts.visibility.info or facts.failures() or is_told(facts, "nofile_hard")
    if not limits and not low and not settled:
        yield NotEvaluated(_NEEDS)


def _low(kind: str, told: Told) -> Finding:
    what = "open files (hard limit)" if kind == FILES else "processes and threads"
    return RULE.finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"A process on {place(told.machines, 'a machine')} may have {told.text} {what}: a job of some size needs more",
        _FIX_FILES if kind == FILES else _FIX_THREADS,
        {"hosts": told.machines},
        told.evidence,
        **no_number("nothing has failed yet"),
    )


def _finding(estimator: Estimator, limit: Limit) -> Finding:
    who = f"NCCL on {place(limit.machines, 'a machine')}" if limit.by_nccl else place(limit.machines, "A process")
    calls = f" (in {listed(limit.calls)})" if limit.calls else ""
    what = "ran out of file descriptors" if limit.kind == FILES else "could not start another thread or process"
    limited = "the limit of open files" if limit.kind == FILES else "the limit of processes or of the container's pids"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"{who} {what}{calls}: {limited} is too low, or something leaks",
        _FIX_FILES if limit.kind == FILES else _FIX_THREADS,
        {"hosts": limit.machines},
        limit.evidence,
        **stopped(estimator),
    )


RULE = Rule(
    code="HST006",
    name="process-limits",
    severity=Severity.ERROR,
    summary="A process ran into a limit of its host: open files, or threads and processes",
    check=check,
    since="0.1.0",
)
