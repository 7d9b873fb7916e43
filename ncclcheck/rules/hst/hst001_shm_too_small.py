"""Shared memory segments could not be created, extended or attached.

## What it finds

Failures of NCCL's segments in `/dev/shm`:
- `Call to posix_fallocate failed : No space left on device` (2.4 to 2.11.4)
- `Error: failed to extend /dev/shm/nccl-XXXXXX to N bytes`, from 2.22.3 on with `error: No space left on device (28)`
- `Error while creating|attaching to shared memory segment /dev/shm/nccl-XXXXXX (size N)`
- the traces behind them (`transport/shm.cc:114 -> 2`)

A warning where `df` shows a /dev/shm of 64 MB or less on a machine with several GPUs (or nothing tells how many), and
no log shows that connections over it work.

## Why it costs

The job does not start, or dies at the first collective that needs the transport (from 2.22.3 on connections are made
then, after Init COMPLETE). All ranks wait for the one that failed until the watchdog fires: GPUs x time until
noticed, 43 GPU-hours for 256 GPUs and 600 s.

Need: SHM edges take about 9.6 MB per channel and direction in old releases (4 MiB Simple buffer, LL and LL128 beside
it), the proxy's segments some MB per rank, and data loaders of the framework take the same file system with tensors
of any size. Docker's default is 64 MB, Kubernetes gives 64 MB as well; eight GPUs want 1 GB at least.

## Example

    docker-a1:905:975 [0] misc/shmutils.cc:67 NCCL WARN Error: failed to extend /dev/shm/nccl-aY3kQe to 9637892 bytes
    docker-a1:905:975 [0] NCCL INFO transport/shm.cc:114 -> 2

## How to fix

    df -h /dev/shm; ls -l /dev/shm | head        # inside the container, while the job is up

- Docker: `--shm-size=8g` or `--ipc=host`; compose: `shm_size: 8gb`.
- Kubernetes: an `emptyDir: {medium: Memory, sizeLimit: 16Gi}` mounted at `/dev/shm` (it counts as the pod's memory).
- Podman, Singularity, enroot: check that /dev/shm is the host's.
- Files left by killed jobs: `rm /dev/shm/nccl-* /dev/shm/torch_*` when nothing runs.
- Bare metal: `mount -o remount,size=50% /dev/shm`.
- "No such file or directory" on attach: the two processes do not share the mount; use one pod, or `--ipc=host`.
- "Cannot allocate memory" or EPERM while registering a segment: memlock (`ulimit -l unlimited`).
- Not a remedy: NCCL_SHM_DISABLE=1. It sends traffic inside the node over the network, or stops init.

## When it is not a problem

`cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation` announces a
fallback that works; SHM edges that connect prove it. libfabric's message about shared memory concerns its own
provider. An input that ends before connections are made is not evaluated.

## References

- NVIDIA/nccl issue 290: posix_fallocate in containers
- NCCL sources: `src/misc/shmutils.cc`, `src/transport/shm.cc`, `src/os/linux.cc` (2.29 and newer)
- NCCL user guide, Troubleshooting: Shared memory, Docker; Environment Variables: NCCL_SHM_DISABLE,
  NCCL_CUMEM_HOST_ENABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.host_parts import Told, is_told, told_below
from ncclcheck.facts.parts import of_kind
from ncclcheck.rules.common import no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure

_CATEGORIES = ("shm_extend_failed", "shm_failed", "syscall_failed", "warn")
_FULL = "No space left on device"
_FIX_SIZE = (
    "docker run --shm-size=8g (or --ipc=host); Kubernetes: emptyDir {medium: Memory, sizeLimit: 16Gi} at /dev/shm;"
    " on the host: df -h /dev/shm, rm /dev/shm/nccl-* when nothing runs"
)
_FIX_SHARE = "let the ranks of a machine share one /dev/shm: one pod or container, or --ipc=host on each"
_FIX_CUDA = (
    "docker run --ipc=host --ulimit memlock=-1 (ulimit -l unlimited); NCCL_SHM_DISABLE=1 or another driver to test"
)
_FIX_RIGHTS = "ls -ld /dev/shm must show drwxrwxrwt; ulimit -l unlimited"
# MiB: what Docker and Kubernetes give; -H writes it as 68M.
_SMALL_MIB = 70
_NEEDS = (
    "channel lines or 'Connected all rings': no segment has been made where the input ends; before a job `df -h"
    " /dev/shm` inside the container"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    failed = [failure for failure in facts.failures(*_CATEGORIES) if _is_shm(failure)]
    if failed:
        yield _finding(estimator, failed, _refused_by_cuda(facts))
    elif facts.edges or facts.rings_connected:
        return
    elif (small := told_below(facts, "shm_mib", _SMALL_MIB)) and not _one_gpu(facts):
        yield _small(small)
    elif facts.visibility.log or not is_told(facts, "shm_mib"):
        yield NotEvaluated(_NEEDS)


def _one_gpu(facts: Facts) -> bool:
    """Nobody to share memory with."""
    return len({part.name for part in of_kind(facts, "gpu")}) == 1


def _small(told: Told) -> Finding:
    return RULE.finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"/dev/shm of {place(told.machines, 'a machine')} has {told.number:g} MiB, the default of containers: NCCL's"
        " segments and the tensors of data loaders do not fit",
        _FIX_SIZE,
        {"hosts": told.machines},
        told.evidence,
        **no_number("nothing has failed yet"),
    )


def _is_shm(failure: Failure) -> bool:
    """A segment of /dev/shm that could not be made, grown or attached; all wordings."""
    if failure.category in ("shm_extend_failed", "shm_failed"):
        return True
    text = failure.fields.get("text", "") + failure.fields.get("path", "")
    space = failure.fields.get("errno_text", text)
    call = failure.fields.get("call", "")
    return _FULL in space and ("/dev/shm" in text or call in ("posix_fallocate", "fallocate", "ftruncate"))


def _refused_by_cuda(facts: Facts) -> list[Failure]:
    """Calls of CUDA that failed on a segment: it is there, and the driver does not take it."""
    return [
        failure
        for failure in facts.failures("cuda_failure")
        if failure.fields.get("src_file", "").rpartition("/")[2] in ("shmutils.cc", "shmutils.h", "shm.h")
    ]


def _finding(estimator: Estimator, failed: list[Failure], refused: list[Failure]) -> Finding:
    machines = machines_of(failed)
    errors = sorted({failure.fields.get("error", "") for failure in refused})
    extended = any(failure.category == "shm_extend_failed" for failure in failed)
    if errors and not extended:
        what, fix = f"give its segments in /dev/shm to CUDA, which refuses them ({', '.join(errors)})", _FIX_CUDA
    else:
        what, fix = _what(failed)
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"NCCL on {place(machines, 'a machine')} could not {what}",
        fix,
        {"hosts": machines},
        evidence_of([*failed, *refused]),
        **stopped(estimator),
    )


def _what(failed: list[Failure]) -> tuple[str, str]:
    """What went wrong first: a rank that cannot attach often waits for one that could not create."""
    errors = {failure.fields["errno_text"] for failure in failed if "errno_text" in failure.fields}
    attaching = all(failure.fields.get("call", "").startswith("attach") for failure in failed)
    if attaching and _FULL not in errors:
        error = f" ({', '.join(sorted(errors))})" if errors else ""
        return f"attach to a segment in /dev/shm that another rank made{error}", _FIX_SHARE
    if errors and _FULL not in errors:
        return f"make its segments in /dev/shm ({', '.join(sorted(errors))})", f"{_FIX_RIGHTS}; {_FIX_SIZE}"
    if _FULL in errors:
        return f"get its segments in /dev/shm: the file system is full or too small ({_FULL})", _FIX_SIZE
    usually = "" if any(failure.category == "shm_extend_failed" for failure in failed) else "usually "
    return f"get its segments in /dev/shm: {usually}the file system is full or too small", _FIX_SIZE


RULE = Rule(
    code="HST001",
    name="shm-too-small",
    severity=Severity.ERROR,
    summary="Shared memory segments could not be created, extended or attached",
    check=check,
    since="0.1.0",
)
