"""NVLS, the reduction inside the NVSwitches, is switched off, missing or broken.

## What it finds

NVLS (NVLink SHARP) lets the NVSwitches add up what the GPUs send. It needs Hopper or newer, NVSwitches of the third
generation, a driver with CUDA 12.1, NCCL 2.17 and a fabric manager that works.

- **Error**: the set-up fails and init stops: `Cuda failure` in `transport/nvls.cc` (1 invalid argument, 401 illegal
  state, 801 not supported, 802 not initialized), or `Failed to bind NVLink SHARP (NVLS) Multicast memory` as a WARN.
- **Warning**: the same line as INFO with `Proceeding without NVLS support` (2.27.3 to 2.28.9), or `NVLS multicast
  support is not available` where the hardware has it: GPUs of HGX boards with eight GPUs (H100, H200, H20, B200 and
  newer), of NVL72 racks, or where other hosts of the job say that it is available.
- **Information**: `NCCL_NVLS_ENABLE=0`.

## Why it costs

On one node a ring of eight H200 reaches 366 GB/s of all_reduce bus bandwidth and NVLS 473 to 484; on B200 it is 680
against 840. So all_reduce on one node keeps 0.76 to 0.82 of its bandwidth; all_gather, reduce_scatter and all_to_all
lose nothing. Over several nodes the network is mostly the limit and the loss near zero, except on fabrics faster than
the ring. NVLS also frees SMs: it needs 16 to 32 channels where a ring needs 24 or more. A failure costs the whole job.

## Example

    hgx-17:40112:40260 [3] transport/nvls.cc:301 NCCL WARN Cuda failure 801 'operation not supported'
    hgx-17:40112:40260 [3] NCCL INFO transport/nvls.cc:559 -> 1

## How to fix

    systemctl status nvidia-fabricmanager            # active, and of the very version of the driver
    nvidia-smi -q | grep -A6 Fabric                  # State Completed, Status Success on all GPUs
    journalctl -u nvidia-fabricmanager | grep -iE 'multicast|team|error' | tail
    nvidia-smi conf-compute -f                       # confidential computing limits NVLS

A fabric manager that was restarted while GPUs were in use is the usual cause of 401 and of 1: stop all GPU processes
(`fuser -v /dev/nvidia*`), reset all GPUs of the machine together (`nvidia-smi -r`) or reboot. In a guest the fabric
manager of the host decides: the partition must have all eight GPUs and multicast. `NCCL_NVLS_ENABLE=0` gets the job
going meanwhile; take it out again. `NCCL_NVLS_ENABLE=1` forces NVLS without asking the driver: leave the default (2).

## When it is not a problem

`not available` is normal on PCIe cards, on GPUs older than Hopper and on boards of four H100 or H200, whose NVLinks
join the GPUs without a switch. `0 nvls channels` says nothing by itself: one GPU per node, a communicator of one or
two GPUs. `NVLS comm ... nvlsTotalSize` is the memory it takes, no fault. In a guest it is information.

## References

- NVIDIA/nccl issues 976 (fabric manager restarted under running GPUs), 1672 (invalid argument), 892 (not available)
- NCCL sources: `src/transport/nvls.cc` (ncclNvlsInit, nvlsGroupBindMem)
- NCCL user guide, Environment Variables: NCCL_NVLS_ENABLE; NVIDIA Fabric Manager user guide
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.nvls import most_gpus_of_a_node, nvls_failures, nvls_used
from ncclcheck.rules.common import compared, listed, place, stopped
from ncclcheck.rules.gpus import possible
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure, Seen
    from ncclcheck.rules.common import Numbers

_SINCE = 21701
_DRIVER = 12010
# Boards with more GPUs than this have NVSwitches.
_WITHOUT_SWITCH = 4
_RESET = (
    "systemctl status nvidia-fabricmanager (same version as the driver); nvidia-smi -q | grep -A6 Fabric must say"
    " Completed and Success; stop all GPU processes and reset all GPUs together (nvidia-smi -r) or reboot;"
    " NCCL_NVLS_ENABLE=0 gets the job going meanwhile"
)
_USUAL = {
    "1": "usually the fabric manager was restarted under running GPUs, or does not match the driver",
    "401": "usually the fabric manager was restarted under running GPUs, which must be reset",
    "801": "the driver offers no multicast: fabric manager, partition, confidential computing or container",
    "802": "the fabric manager does not run",
}
_NEEDS = "the line 'NVLS multicast support is ...' (NCCL 2.17+, NCCL_DEBUG=INFO with INIT)"
_NEEDS_JOB = "whether hosts with and without NVLS are of one job: 'Init START' or 'Init COMPLETE' of both"
_NEEDS_GPU = (
    "the GPU model (nvidia-smi -L, nccl-tests header) or GRAPH lines: NVLS is not available, as is normal on cards"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    failures = nvls_failures(facts)
    stopping = [one for one in failures if one.level == "WARN"]
    skipped = [one for one in failures if one.level != "WARN"]
    forced = [one for one in facts.failures("warn") if "NCCL_NVLS_ENABLE has been set" in one.fields.get("text", "")]
    off = [seen for seen in facts.settings("NCCL_NVLS_ENABLE") if seen.value.rstrip(".") == "0"]
    if stopping:
        yield _broken(facts, estimator, stopping)
    elif forced:
        yield _forced(estimator, forced)
    elif skipped:
        yield _goes_on(facts, estimator, skipped)
    elif off:
        if _has_nvls(facts, estimator) is not Answer.NO:
            yield _switched_off(facts, estimator, off)
    else:
        yield from _by_support(facts, estimator)


def _broken(facts: Facts, estimator: Estimator, failures: list[Failure]) -> Finding:
    machines, error = machines_of(failures), _error(failures[0])
    return _finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"NVLS memory could not be set up on {place(machines, 'a rank')} ({error}), and init stops:"
        f" {_cause(facts, failures[0])}",
        _RESET,
        failures,
        stopped(estimator),
    )


def _error(failure: Failure) -> str:
    code = failure.fields.get("code")
    return f"CUDA error{f' {code}' if code else ''} '{failure.fields.get('error', 'unknown')}'"


def _cause(facts: Facts, failure: Failure) -> str:
    if any(seen.value.rstrip(".") == "1" for seen in facts.settings("NCCL_NVLS_ENABLE")):
        return "NCCL_NVLS_ENABLE=1 forces it where the driver may not have it"
    by_words = {"invalid argument": "1", "present state": "401", "not supported": "801", "not yet initialized": "802"}
    words = failure.fields.get("error", "").lower()
    code = failure.fields.get("code") or next((code for text, code in by_words.items() if text in words), "")
    return _USUAL.get(code, "usually the fabric manager or the state of the NVSwitches")


def _forced(estimator: Estimator, failures: list[Failure]) -> Finding:
    return _finding(
        Severity.ERROR,
        Confidence.HIGH,
        "NCCL_NVLS_ENABLE=1 forces NVLS although several ranks share a GPU, and init stops",
        "unset NCCL_NVLS_ENABLE (the default, 2, leaves it out by itself), or give each rank its own GPU",
        failures,
        stopped(estimator),
        variable="NCCL_NVLS_ENABLE",
    )


def _goes_on(facts: Facts, estimator: Estimator, failures: list[Failure]) -> Finding:
    machines = machines_of(failures)
    return _finding(
        Severity.WARNING,
        Confidence.HIGH,
        f"NVLS failed on {place(machines, 'a rank')} ({_error(failures[0])}) and NCCL goes on without it:"
        f" {_cause(facts, failures[0])}",
        _RESET,
        failures,
        _off(estimator),
    )


def _switched_off(facts: Facts, estimator: Estimator, off: list[Seen]) -> Finding:
    sure = _has_nvls(facts, estimator) is Answer.YES
    where = place(machines_of(off), "all ranks")
    doubt = "" if sure else "; whether the GPUs have NVLS is not in the input"
    return _finding(
        Severity.INFO,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"NCCL_NVLS_ENABLE=0 switches the reduction in the NVSwitches off on {where}{doubt}",
        "unset NCCL_NVLS_ENABLE and compare all_reduce_perf -b 1G -e 8G: it pays on one node, over several mostly not",
        off,
        _off(estimator),
        variable="NCCL_NVLS_ENABLE",
    )


def _by_support(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    missing = [seen for seen in facts.notes("nvls_support") if seen.value == "false"]
    there = machines_of(seen for seen in facts.notes("nvls_support") if seen.value == "true")
    lacking = tuple(machine for machine in machines_of(missing) if machine not in there)
    has = _has_nvls(facts, estimator)
    of_one_job = any({*lacking} & {*one.machines} and {*there} & {*one.machines} for one in facts.communicators)
    if missing and there and lacking and of_one_job:
        peers = f"other hosts of the job have it ({listed(there)})"
        yield _unavailable(facts, estimator, missing, lacking, Confidence.HIGH, peers)
    elif missing and there and lacking:
        yield NotEvaluated(_NEEDS_JOB)
    elif missing and has is Answer.YES and not there:
        sure = Confidence.HIGH if facts.gpu_names else Confidence.MEDIUM
        yield _unavailable(facts, estimator, missing, lacking, sure, "these GPUs and their NVSwitches can")
    elif missing and has is Answer.UNKNOWN and not there:
        yield NotEvaluated(_NEEDS_GPU)
    elif not missing and not there and has is not Answer.NO and nvls_used(facts) is not Answer.YES:
        yield NotEvaluated(_NEEDS)


def _unavailable(
    facts: Facts, estimator: Estimator, missing: list[Seen], hosts: tuple[str, ...], sure: Confidence, why: str
) -> Finding:
    drivers = [int(seen.value) for seen in facts.notes("cuda_driver_version") if seen.value.isdecimal()]
    guest = bool(facts.guest_signs)
    fix = _RESET
    if drivers and min(drivers) < _DRIVER:
        why, fix = f"{why}, but the driver is older than CUDA 12.1", "a driver of R530 or newer"
    elif guest:
        why = f"{why}; in a guest the host's fabric manager decides"
        fix = "ask for a partition with all GPUs and multicast; nvidia-smi -q | grep -A6 Fabric"
    return _finding(
        Severity.INFO if guest else Severity.WARNING,
        Confidence.MEDIUM if guest else sure,
        f"NVLS multicast is not available on {place(hosts, 'some ranks')}: {why}",
        fix,
        missing,
        _off(estimator),
        hosts=hosts,
    )


def _has_nvls(facts: Facts, estimator: Estimator) -> Answer:
    """Should the job's GPUs have NVLS when all is well, as far as the input shows what they are?"""
    if facts.is_rccl or (facts.releases and facts.releases[-1] < _SINCE) or _too_few(facts):
        return Answer.NO
    if any(seen.value == "true" for seen in facts.notes("nvls_support")):
        return Answer.YES
    known = possible(facts, estimator)
    if not known:
        return Answer.UNKNOWN
    if not any(gpu.nvls for gpu in known):
        return Answer.NO
    if not all(gpu.nvls for gpu in known):
        return Answer.UNKNOWN
    rack = all(gpu.c2c for gpu in known)  # trays of four whose switches are elsewhere in the rack
    if rack or (most_gpus_of_a_node(facts) or 0) > _WITHOUT_SWITCH:
        return Answer.YES
    # a board of four has no switch, and four of eight look like it
    return Answer.NO if most_gpus_of_a_node(facts) else Answer.UNKNOWN


def _too_few(facts: Facts) -> bool:
    """NCCL does not ask for NVLS where no communicator has three GPUs in a node."""
    local = [
        one.local_ranks or (one.nranks if one.crossing.answer is Answer.NO else None) for one in facts.communicators
    ]
    return bool(local) and all(number is not None and number <= 2 for number in local)


def _off(estimator: Estimator) -> Numbers:
    return compared(estimator, {"nvls": True}, {"nvls": False})


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    proof: list[Failure] | list[Seen],
    numbers: Numbers,
    *,
    hosts: tuple[str, ...] | None = None,
    variable: str = "",
) -> Finding:
    subject = {"hosts": machines_of(proof) if hosts is None else hosts}
    if variable:
        subject["variable"] = (variable,)
    return RULE.finding(severity, confidence, message, fix, subject, evidence_of(proof), **numbers)


RULE = Rule(
    code="NVL003",
    name="nvls-off",
    severity=Severity.WARNING,
    summary="NVLS, the reduction inside the NVSwitches, is switched off, missing or broken",
    check=check,
    since="0.1.0",
    caused_by=("NVL004",),
)
