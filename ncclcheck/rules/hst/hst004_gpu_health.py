"""A GPU is broken, throttled by heat or power, or has errors that do not go away by themselves.

## What it finds

What tools say of the state of GPUs: `nvidia-smi -q` as text or XML, `--query-gpu` as CSV, `dmon`, the table, the
sentences that `nvidia-smi` prints when it fails, DCGM, and Xids in the kernel's log. By severity:

- **error**: HW Thermal Slowdown or HW Power Brake Slowdown is active; uncorrected ECC errors since the driver was
  loaded; remapping of a row failed; a recovery action is asked for (reset, reboot, drain); the GPU is lost; Xid 48, 64,
  74, 79, 94, 95, 119 or 120; a test of DCGM fails, and not for settings alone; the driver's library and kernel module
  are of different versions.
- **warning**: a row or page waits for a reset to be replaced; Xid 63, which says the same; Xid 140, an ECC error that
  was not recovered from; Xid 143 to 150, NVLink 5 and its fabric (Blackwell).
- **information**: a busy GPU runs at its power limit or is slowed down by software for heat; corrected ECC errors;
  Xid 13, 31, 43 and 45, which mostly are errors of the program; Xid 92, many corrected errors; Xid 154, the recovery
  action changed, which `nvidia-smi -q` names; any other Xid, by its number.

One finding for each kind of fault, however many GPUs and machines show it, with the ranks that run on them where a log
is there as well.

## Why it costs

A collective waits for the slowest rank, and so does the step: one GPU at half its clocks halves the job. Thermal and
power-brake slowdowns cut clocks to a half or less. They slow computation and NCCL's kernels, not the links: the model
has no number for them. A lost GPU, Xid 79 or a mismatch of the driver stops the job, and at scale most stops are of
this kind.

## Example

        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active

## How to fix

    nvidia-smi -q -d PERFORMANCE,ECC,ROW_REMAPPER,TEMPERATURE
    dmesg -T | grep -i xid
    nvidia-smi -r                          # resets all GPUs of the board: pending remaps, recovery action Reset

- Heat: fans, airflow, inlet temperature, cold plates. Power brake: the power supplies signal an overload.
- Uncorrected errors, Xid 48, 94, 95: drain and reset; with `remap failed` or Xid 64 replace the GPU.
- Xid 79 or `GPU is lost`: reboot; when it comes back, PCIe, power or the GPU. Xid 74, 143 to 150: NVLink (NVL002). Xid
  119, 120: firmware of the GPU; a reset, then a newer driver.
- Mismatch: the driver was updated under a running kernel; reload its modules or reboot.

## When it is not a problem

Low clocks of an idle GPU (`Idle: Active`) are none. A power cap at full load is how a GPU at its limit works. Aggregate
counters are of the card's whole life; only those since the driver was loaded count. N/A is unknown.

## References

- NVIDIA, Xid errors; GPU debug guidelines; NVIDIA A100 GPU memory error management (row remapping)
- nvidia-smi manual: clocks event reasons, GPU recovery action, remapped rows
- NVML: clocks event reasons, field values of the recovery action
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.facts import machine_names
from ncclcheck.facts.gpu_parts import Gpu, gpu_parts, used_gpus
from ncclcheck.facts.host_parts import HostState, host_states
from ncclcheck.rules import gpus
from ncclcheck.rules.common import Numbers, no_number, place, stopped
from ncclcheck.rules.failures import folded, ranks_in_words
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.parts import Value

# A GPU whose health is known says one of these.
_TELLING = ("hw_thermal_slowdown", "hw_power_brake", "ecc_uncorrected", "remap_failed", "retire_pending",
            "recovery_action", "lost", "xid", "diagnosis")  # fmt: skip
_COMPUTE = "it slows computation, which the model does not price: every step waits for the slowest GPU"
_HARMLESS = "nothing is lost by it"
_LATER = "nothing is lost before the next error there"

_XIDS = {
    13: "an exception of a kernel", 31: "a memory fault of a kernel", 43: "a kernel was stopped",
    45: "work was cleaned up after another error", 48: "an uncorrectable memory error",
    63: "a row of memory waits for a reset to be replaced", 64: "a broken row of memory could not be replaced",
    74: "an NVLink error", 79: "the GPU has fallen off the bus", 92: "many corrected memory errors",
    94: "a contained memory error", 95: "an uncontained memory error", 119: "the GPU's firmware does not answer",
    120: "an error of the GPU's firmware", 140: "an ECC error that was not recovered from",
    **dict.fromkeys(range(143, 151), "an error of NVLink or its fabric"), 154: "the recovery action changed",
}  # fmt: skip
_FATAL_XIDS = (48, 64, 74, 79, 94, 95, 119, 120)
_WARNING_XIDS = (63, 140, *range(143, 151))
_XIDS_OF_PROGRAMS = (13, 31, 43, 45)
# Said with the states of the same meaning.
_XIDS_OF_ROWS = (63, 64)


class _Fault(NamedTuple):
    """sees: the value that shows it on a GPU. says: what; {} is the value. costs: why there is no number; empty: the
    job stops."""

    severity: Severity
    sees: Callable[[Gpu], Value | None]
    says: str
    fix: str
    costs: str = ""


def _state(key: str, *xids: int) -> Callable[[Gpu], Value | None]:
    """A state that is seen, or an Xid that says the same."""
    return lambda gpu: gpu.first(key, "yes") or _xid(*xids)(gpu)


def _count(key: str) -> Callable[[Gpu], Value | None]:
    return lambda gpu: most if (most := gpu.most(key)) and most.number else None


def _xid(*numbers: int) -> Callable[[Gpu], Value | None]:
    return lambda gpu: next((value for value in gpu.part.values("xid") if value.number in numbers), None)


def _busy(key: str) -> Callable[[Gpu], Value | None]:
    """A state that says something of a GPU with work only."""
    return lambda gpu: gpu.first(key, "yes") if _count("utilization_pct")(gpu) else None


def _lost(gpu: Gpu) -> Value | None:
    """Lost, and no Xid tells it already."""
    return None if _xid(79)(gpu) else gpu.first("lost", "yes")


def _diagnosis(gpu: Gpu) -> Value | None:
    """A test of DCGM that fails, and not for settings alone."""
    return next((value for value in gpu.part.values("diagnosis") if value.text.startswith("fail ")), None)


_FIX_LOST = "dmesg -T | grep -i xid; reboot the machine; lost again: PCIe, power or the GPU itself"
_RESET = "drain the machine, reset all GPUs of the board (nvidia-smi -r, else reboot), then dcgmi diag -r 3"


def _xid_fault(number: int) -> _Fault:
    """What an Xid means: every one is told, though not every one stops a job."""
    says = f"Xid {number}, {_XIDS.get(number, 'not known to stop a job by itself')}"
    if number in _FATAL_XIDS:
        fix = _FIX_LOST if number == 79 else f"dmesg -T | grep -i xid; {_RESET}"
        return _Fault(Severity.ERROR, _xid(number), says, fix)
    if number in _WARNING_XIDS:
        fix = f"nvidia-smi -q -d ECC,ROW_REMAPPER; nvidia-smi nvlink -e; where errors are counted, {_RESET}"
        return _Fault(Severity.WARNING, _xid(number), says, fix, "whether work was lost is not said")
    if number in _XIDS_OF_PROGRAMS:
        fix = "dmesg -T | grep -i xid names the process: mostly an error of the program, or what follows another"
        return _Fault(Severity.INFO, _xid(number), says, fix, "the program decides what it loses")
    fix = (
        "nvidia-smi -q tells the GPU's state (ECC errors, recovery action); dmesg -T | grep -i xid, what came before it"
    )
    return _Fault(Severity.INFO, _xid(number), says, fix, "it is not known to stop a job or to slow it")


_FAULTS = (
    _Fault(
        Severity.ERROR, _lost, "lost, the driver gets no answer", _FIX_LOST,
    ),
    _Fault(
        Severity.ERROR, _state("hw_thermal_slowdown"), "HW Thermal Slowdown, clocks are cut for heat",
        "nvidia-smi -q -d TEMPERATURE,PERFORMANCE; fans, airflow, inlet temperature, contact of the heat sink",
        _COMPUTE,
    ),
    _Fault(
        Severity.ERROR, _state("hw_power_brake"), "HW Power Brake Slowdown, clocks are cut for want of power",
        "nvidia-smi -q -d PERFORMANCE,POWER; ipmitool sdr type 'Power Supply': one failed or is overloaded", _COMPUTE,
    ),
    _Fault(
        Severity.ERROR, _count("ecc_uncorrected"), "uncorrected ECC errors since the driver was loaded: {}",
        f"nvidia-smi -q -d ECC,ROW_REMAPPER; {_RESET}",
    ),
    _Fault(
        Severity.ERROR, _state("remap_failed", 64), "a broken row of memory could not be replaced (remapping failed)",
        "replace the GPU (nvidia-smi -q -d ROW_REMAPPER)", _LATER,
    ),
    _Fault(
        Severity.ERROR, lambda gpu: gpu.unlike("recovery_action", "none"), "the driver asks for a recovery action ({})",
        f"nvidia-smi -q | grep -i -A2 -E 'recovery action|reset status'; {_RESET}",
        "the driver says what to do, not why",
    ),
    _Fault(
        Severity.ERROR, _diagnosis, "a test of DCGM ends as {}",
        f"dcgmi diag -r 3 on the drained machine tells whether it stays so; {_RESET}", "the test says what is broken",
    ),
    _Fault(
        Severity.WARNING, _state("remap_pending", 63), "a row of memory waits for a reset to be replaced",
        _RESET, _LATER,
    ),
    _Fault(
        Severity.WARNING, _state("retire_pending"), "a page of memory waits for a reboot to be retired",
        "drain and reboot the machine", _LATER,
    ),
    _Fault(
        Severity.INFO, _busy("sw_power_cap"), "at the power limit under load (SW Power Cap)",
        "nothing to do at the default limit; nvidia-smi -q -d POWER shows whether somebody lowered it", _HARMLESS,
    ),
    _Fault(
        Severity.INFO, _busy("sw_thermal_slowdown"), "SW Thermal Slowdown under load, clocks are lowered for heat",
        "nvidia-smi -q -d TEMPERATURE,PERFORMANCE; compare with its neighbours: airflow, inlet temperature", _COMPUTE,
    ),
    _Fault(
        Severity.INFO, _count("ecc_corrected"), "corrected ECC errors since the driver was loaded: {}",
        "nothing to do while they do not grow quickly (nvidia-smi -q -d ECC)", _HARMLESS,
    ),
)  # fmt: skip


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    known = gpu_parts(facts)
    mismatches = host_states(facts, "driver_mismatch")
    if mismatches:
        hosts = machine_names(mismatches)
        yield RULE.finding(
            Severity.ERROR,
            Confidence.HIGH,
            f"The library and the kernel module of NVIDIA's driver on {place(hosts, 'this machine')} are of different"
            " versions: nothing starts on its GPUs",
            "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia, or reboot; in a container, the same"
            " driver as on the host",
            {"hosts": hosts},
            tuple(one.evidence for one in mismatches)[:4],
            **stopped(estimator),
        )
    unnamed = host_states(facts, "xid")
    for text in dict.fromkeys(state.text for state in unnamed):
        yield _on_some_gpu(_xid_fault(int(text)), [state for state in unnamed if state.text == text], estimator)
    numbers = {int(value.number) for gpu in known for value in gpu.part.values("xid") if value.number}
    for fault in (*_FAULTS, *map(_xid_fault, sorted(numbers.difference(_XIDS_OF_ROWS)))):
        seen = [(gpu, value) for gpu in known if (value := fault.sees(gpu))]
        if seen:
            yield _finding(fault, seen, facts, estimator)
    if not mismatches and not unnamed and not any(gpu.knows(_TELLING) for gpu in known):
        yield NotEvaluated("`nvidia-smi -q` of each machine, and `dmesg -T | grep -i xid`")


def _finding(fault: _Fault, seen: list[tuple[Gpu, Value]], facts: Facts, estimator: Estimator) -> Finding:
    them = [gpu for gpu, _ in seen]
    worst = max((value for _, value in seen), key=lambda value: value.number or 0.0)
    ranks = [rank for gpu in them if (rank := used_gpus(facts).get((gpu.machine, gpu.name))) is not None]
    used_by = f" ({ranks_in_words(ranks)} of the job)" if ranks else ""
    most = "up to " if "{}" in fault.says and worst.number and len(seen) > 1 else ""
    return RULE.finding(
        fault.severity,
        _confidence(fault),
        f"{gpus.together(them)}{used_by}: {fault.says.format(most + worst.text)}",
        fault.fix,
        {
            "hosts": machine_names(them),
            "devices": gpus.names(them)[:8],
            **({"ranks": folded(ranks)} if ranks else {}),
        },
        tuple(value.evidence for _, value in seen)[:4],
        **_numbers(fault, estimator),
    )


def _confidence(fault: _Fault) -> Confidence:
    return Confidence.MEDIUM if fault.severity is Severity.INFO else Confidence.HIGH


def _numbers(fault: _Fault, estimator: Estimator) -> Numbers:
    return no_number(fault.costs) if fault.costs else stopped(estimator)


def _on_some_gpu(fault: _Fault, seen: list[HostState], estimator: Estimator) -> Finding:
    """NCCL's own diagnostics name the machine alone."""
    hosts = machine_names(seen)
    return RULE.finding(
        fault.severity,
        _confidence(fault),
        f"A GPU of {place(hosts, 'a machine')}: {fault.says}",
        f"dmesg -T | grep -i xid names the GPU; {fault.fix.removeprefix('dmesg -T | grep -i xid; ')}",
        {"hosts": hosts},
        tuple(state.evidence for state in seen)[:4],
        **_numbers(fault, estimator),
    )


RULE = Rule(
    code="HST004",
    name="gpu-health",
    severity=Severity.ERROR,
    summary="A GPU is broken, throttled by heat or power, or has errors that do not go away by themselves",
    check=check,
    since="0.1.0",
)
