"""The limit of locked memory is too small for RDMA.

## What it finds

RDMA locks the memory that the adapter reads and writes, and the kernel counts it against the process's limit (`ulimit
-l`). When that is used up, verbs calls end in `Cannot allocate memory`:
- `Call to ibv_create_cq failed with error Cannot allocate memory`, the same of `ibv_create_qp`, `ibv_reg_mr`,
  `ibv_reg_mr_iova2` (2.13.4 and newer print the error);
- the OFI plugin: `Unable to register memory ... Cannot allocate memory`, `Couldn't enable endpoint. RC: -12`;
- UCX in the job's output, or `ulimit -a` and /proc/PID/limits there or beside it, show a limit of 64 MiB or less, RDMA
  is there (by the log, or by `ibstat` and the like), and it has not connected yet. Without a log the confidence is low:
  another shell has other limits.

Older releases print the call without its error: then the rule only hints. `Bad address` or `Operation not supported`
on GPU memory is another matter: nvidia_peermem or DMA-BUF is missing.

## Why it costs

The job stops while it connects, on the rank that comes last, often only with large buffers or many communicators.
Each GPU waits until somebody looks. A limit of 64 KiB (the kernel's old default) or 8 MiB (the new one) fails at
once; a few GiB fail when the job grows, because NCCL registers about 4 MiB per channel and peer, and frameworks
register their own buffers.

## Example

    mlx-07:3310:3352 [2] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory

## How to fix

1. Look at the limit **of the process**, not of your shell: `grep 'locked memory' /proc/<pid>/limits`.
2. Docker: `--ulimit memlock=-1:-1`. containerd and Kubernetes: `LimitMEMLOCK=infinity` in the unit of the runtime.
3. Bare metal: `* soft memlock unlimited`, `* hard memlock unlimited` in /etc/security/limits.conf, and a new login.
   It does not hold for systemd services: `LimitMEMLOCK=infinity` in slurmd.service, sshd.service and the like.
4. Slurm carries the limits of the submitting shell along: `PropagateResourceLimitsExcept=MEMLOCK` in slurm.conf.
5. Unlimited already? Then the adapter or the GPU's BAR1 is out of resources: `nvidia-smi -q | grep -A3 BAR1`, `rdma
   res`, `dmesg | tail`.

## When it is not a problem

The same call at level INFO: NCCL probes what works, and goes on. An input whose rings connect over RDMA.

## References

- NVIDIA/nccl-tests issue 206: 8192 KiB; NVIDIA/nccl issues 380, 563
- NCCL user guide, Troubleshooting: InfiniBand, memory registration
- Linux manual: getrlimit(2), RLIMIT_MEMLOCK
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.host_parts import is_told, told_below
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.seen import Seen
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure

# Calls that lock memory.
_LOCKING = re.compile(r"ibv_(?:reg_(?!dmabuf)\w*mr\w*|create_[cq][pq])$")
_OFI_LOCKING = re.compile(r"(?:register memory|enable endpoint|Couldn't open CQ|memory region).*Cannot allocate", re.I)
# What systems set where nobody did: 64 KiB, 8 MiB. NCCL locks more than this at once.
_SMALL_KB = 65536
_NO_MEMORY = "cannot allocate memory"
_FIX = (
    "ulimit -l must be unlimited in the process (grep 'locked memory' /proc/<pid>/limits): docker run --ulimit"
    " memlock=-1:-1; LimitMEMLOCK=infinity for containerd and slurmd; /etc/security/limits.conf on bare metal"
)
_NEEDS = "connections over RDMA: the input ends before NCCL registers memory ('Connected all rings' would tell)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    failures = _locking(facts)
    exhausted = [one for one in failures if _NO_MEMORY in _error(one)]
    mute = [one for one in failures if not _error(one)]
    if exhausted:
        yield _finding_exhausted(estimator, exhausted)
    elif mute:
        yield _hint(mute)
    elif (limits := _small_limits(facts)) and not _registered(facts):
        yield _finding_limit(facts, estimator, limits)
    elif not _registered(facts) and (facts.visibility.log or not is_told(facts, "memlock_kib")):
        yield NotEvaluated(_NEEDS)


def _locking(facts: Facts) -> list[Failure]:
    """Failures of calls that lock memory; at INFO they are probes."""
    verbs = [one for one in facts.failures("ibv_failed") if _LOCKING.match(one.fields.get("call", ""))]
    plugin = [one for one in facts.failures("net_ofi_message") if _OFI_LOCKING.search(one.fields.get("text", ""))]
    return [one for one in (*verbs, *plugin) if one.level == "WARN"]


def _small_limits(facts: Facts) -> list[Seen]:
    """Limits as UCX and outputs of tools tell them, in a job or on a machine that has RDMA."""
    if not facts.rdma_signs and not of_kind(facts, "port"):
        return []
    small = [one for one in facts.notes("memlock_limit") if one.value.isdecimal() and int(one.value) <= _SMALL_KB]
    told = told_below(facts, "memlock_kib", _SMALL_KB + 1)
    return [*small, *([Seen(f"{told.number:g}", told.machines, told.evidence)] if told else [])]


def _error(failure: Failure) -> str:
    return (failure.fields.get("errno_text") or failure.fields.get("text", "")).lower()


def _registered(facts: Facts) -> bool:
    """Is memory registered, or is there nothing to register?"""
    if facts.crossing.answer is Answer.NO:
        return True
    sockets = bool(facts.networks) and all(networks.kind(seen.value) == "socket" for seen in facts.networks)
    return sockets or facts.rings_connected or bool(facts.edges and any(one.completed for one in facts.communicators))


def _calls(failures: list[Failure]) -> str:
    names = [one.fields.get("call", "the registration of the OFI plugin") for one in failures]
    return listed(list(dict.fromkeys(names)))


def _finding_exhausted(estimator: Estimator, failures: list[Failure]) -> Finding:
    machines = machines_of(failures)
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if any(one.category == "ibv_failed" for one in failures) else Confidence.MEDIUM,
        f"{_calls(failures)} cannot allocate memory on {place(machines, 'a machine')}: the limit of locked memory"
        " (ulimit -l) is used up",
        _FIX,
        {"hosts": machines},
        evidence_of(failures),
        **stopped(estimator),
    )


def _finding_limit(facts: Facts, estimator: Estimator, limits: list[Seen]) -> Finding:
    machines = machines_of(limits)
    return RULE.finding(
        Severity.ERROR,
        Confidence.MEDIUM if facts.visibility.log else Confidence.LOW,
        f"Locked memory is limited to {limits[0].value} KiB on {place(machines, 'a machine')}; RDMA needs it unlimited",
        _FIX,
        {"hosts": machines},
        evidence_of(limits),
        **stopped(estimator),
    )


def _hint(failures: list[Failure]) -> Finding:
    machines = machines_of(failures)
    return RULE.finding(
        Severity.INFO,
        Confidence.LOW,
        f"{_calls(failures)} fails on {place(machines, 'a machine')}; this release does not print why, and a small"
        " limit of locked memory is one of the usual reasons",
        _FIX,
        {"hosts": machines},
        evidence_of(failures),
        **no_number("the reason is not in the input"),
    )


RULE = Rule(
    code="HST002",
    name="memlock-limit",
    severity=Severity.ERROR,
    summary="The limit of locked memory is too small for RDMA",
    check=check,
    since="0.1.0",
)
