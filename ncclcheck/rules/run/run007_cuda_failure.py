"""A CUDA or driver call failed inside NCCL.

## What it finds

`NCCL WARN Cuda failure 'text'` (runtime calls) and `Cuda failure N 'text'` (driver calls, 2.19.1 and newer), with the
result 1 trace behind it, a finding for each of the first eight texts, sorted by cause. Where NCCL is silent: errors of
the GPU or the driver that PyTorch's watchdog, an exception (`CUDA error: ...`) or nccl-tests (`Test CUDA failure`)
report, and `Failed to CUDA calloc N bytes`.

| text | usual cause |
| --- | --- |
| out of memory | the framework took all memory; channels x peers of buffers; CUDA contexts of other processes |
| named symbol not found, no kernel image, invalid device function | NCCL built for another CUDA or architecture |
| driver version is insufficient, unsupported PTX | driver older than the CUDA of the NCCL build |
| operation not supported (801) | NVLS, cuMem or fabric handles: fabric manager, container, MIG, vGPU |
| system not yet initialized (802) | fabric manager not running on an NVSwitch machine |
| invalid argument (1), invalid resource handle | a handle from another process or context; IPC across containers |
| peer access already enabled, mapping failed | two libraries on one device; IOMMU |
| illegal memory access, unspecified launch failure | an earlier kernel of the application; NCCL only meets it |
| uncorrectable ECC, GPU lost | hardware: Xid 48, 63, 64, 74, 79, 94, 95 |

## Why it costs

The rank aborts or the call returns 1 (unhandled CUDA error), and its peers wait: GPUs x time until noticed. Errors such
as an illegal access are sticky: each later call of that process reports them, so the first one in time is the one to
read.

## Example

    oom-1:51230:51299 [1] include/alloc.h:103 NCCL WARN Cuda failure 'out of memory'
    oom-1:51230:51299 [1] NCCL INFO channel.cc:43 -> 1

## How to fix

    nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv
    python -c 'import torch; print(torch.version.cuda, torch.cuda.nccl.version(), torch.cuda.get_arch_list())'
    dmesg -T | grep -E 'NVRM: Xid' | tail

- Memory: NCCL takes about 10 MB per channel and peer it connects to (4 MiB Simple, 4.7 LL128, 0.5 LL) plus NVLS
  buffers; leave it 1 to 2 GB (vLLM `--gpu-memory-utilization`), fewer channels (`NCCL_MAX_CTAS`), create communicators
  before the model is loaded, look for zombies with `fuser -v /dev/nvidia*`.
- Versions: a driver at least as new as the CUDA that NCCL was built with (the `+cudaX.Y` of the version line;
  `cudaDriverVersion` is what the driver offers), or the forward compatibility package; one NCCL in the process
  (`ldd`, `LD_LIBRARY_PATH`).
- 801, 802 on HGX: `systemctl status nvidia-fabricmanager`, same version as the driver; `nvidia-smi -q | grep -A4
  Fabric` must say Completed. NCCL_NVLS_ENABLE=0 tells whether NVLS is it, and costs 0.76 to 0.82 of all_reduce on one
  node.
- Handles across containers: one IPC and PID name space, or `NCCL_CUMEM_ENABLE=0` as a test.
- Illegal access: `CUDA_LAUNCH_BLOCKING=1`, `compute-sanitizer` on the application; take it out again afterwards.
- Hardware: drain the node, `nvidia-smi -q -d ECC,ROW_REMAPPER`, reset or replace.

## When it is not a problem

A failure that NCCL expects is printed as **INFO**, with the file in the text (`transport/p2p.cc:275 Cuda failure 'peer
access is not supported between these two devices'`) or without (`nvmlDeviceGetHandleByPciBusId() failed: Not Found`):
it tries, and goes on. Shutdown races after the application ended are no cause. At NCCL_DEBUG=VERSION warnings are not
printed, and the rule is not evaluated.

## References

- NCCL sources: `src/include/checks.h` (CUDACHECK, CUDACHECKIGNORE), `src/include/cudawrap.h`, `src/include/alloc.h`
- NCCL user guide, Troubleshooting: Errors; Environment Variables: NCCL_NVLS_ENABLE, NCCL_CUMEM_ENABLE
- CUDA documentation: error codes (cudaError_t), compatibility; NVIDIA XID errors catalogue
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.gpu_errors import GpuError, gpu_errors
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure

_NEEDS = "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed)"


@dataclass(frozen=True, slots=True)
class _Cause:
    """The usual cause behind an error: words of its text, files of NCCL it is printed from (none: any)."""

    words: tuple[str, ...]
    cause: str
    fix: str
    files: tuple[str, ...] = ()


_FABRIC = (
    "systemctl status nvidia-fabricmanager (same version as the driver); nvidia-smi -q | grep -A4 Fabric must say"
    " Completed, else reset the GPUs or reboot; NCCL_NVLS_ENABLE=0 gets the job going meanwhile"
)
_VERSIONS = (
    "a driver at least as new as the CUDA of the NCCL build (nvidia-smi against '+cudaX.Y' of the version line), and an"
    " NCCL built for this GPU: torch.cuda.get_arch_list(), torch.cuda.nccl.version()"
)
_HARDWARE = "dmesg -T | grep 'NVRM: Xid'; nvidia-smi -q -d ECC,ROW_REMAPPER; drain the node, reset or replace the GPU"
_HANDLES = "one IPC and PID name space for all ranks of a machine (--ipc=host --pid=host); NCCL_CUMEM_ENABLE=0 to test"
_FINE_GRAIN = "iommu=pt on the kernel command line, HSA_FORCE_FINE_GRAIN_PCIE=1, one IPC name space for all ranks"
_MEMORY = (
    "leave NCCL 1 to 2 GB (vLLM: --gpu-memory-utilization), create communicators before the model is loaded, look for"
    " leftovers with fuser -v /dev/nvidia*; NCCL_MAX_CTAS makes it take less"
)
_LOOK_UP = "nvidia-smi, dmesg -T | grep 'NVRM: Xid', and the first error of that process: later ones repeat it"

# First match wins: what a file of NCCL tells comes before what the text alone would say.
_CAUSES = (
    _Cause(("out of memory", "memory allocation"), "no GPU memory is left for NCCL's buffers", _MEMORY),
    _Cause(("named symbol not found", "no kernel image", "invalid device function", "device kernel image is invalid"),
           "this NCCL has no code for the GPU, or its CUDA is newer than the driver", _VERSIONS),
    _Cause(("driver version is insufficient", "unsupported toolchain", "ptx", "compat mode"),
           "the driver is older than the CUDA of the NCCL build", _VERSIONS),
    _Cause(("driver/library version mismatch",),
           "the driver was updated under running processes, or the container brings another one",
           "reload the kernel modules or reboot; the container must get its driver library from the host"),
    _Cause(("ecc", "gpu is lost", "fallen off", "unknown error", "nvlink was detected"), "the GPU or its links failed",
           _HARDWARE),
    _Cause(("illegal memory access", "unspecified launch failure", "misaligned", "assert", "illegal instruction"),
           "an earlier kernel of the application failed and NCCL only meets the error",
           "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer on the application names the kernel; take it out afterwards"),
    _Cause(("",), "NVLS memory could not be set up: usually the fabric manager or the container",
           _FABRIC, ("nvls.cc", "multicast.cc")),
    _Cause(("not yet initialized", "not ready"), "the fabric manager does not run on an NVSwitch machine", _FABRIC),
    _Cause(("peer access is not supported",), "the GPUs have no peer access, and NCCL's cuMem memory asks for it",
           "NCCL_CUMEM_HOST_ENABLE=0 (2.24 and newer), else NCCL_CUMEM_ENABLE=0; a newer NCCL"),
    _Cause(("not supported",), "NVLS, cuMem or fabric handles are refused: fabric manager, container, MIG or vGPU",
           _FABRIC),
    _Cause(("handle", "invalid argument", "invalid device context", "ipc"),
           "GPU memory cannot be shared between processes: containers apart, or IOMMU", _HANDLES,
           ("p2p.cc", "ipc", "shm.cc", "register.cc")),
    _Cause(("invalid resource handle", "invalid device context", "different context"),
           "a handle of another process or context is used", _HANDLES),
    _Cause(("peer access", "mapping of buffer", "map"), "two libraries drive one device, or an IOMMU is in the way",
           "look for a second library that enables peer access; on bare metal intel_iommu=off or iommu=pt"),
    _Cause(("busy or unavailable", "exclusive"), "another process holds the GPU, or its compute mode is exclusive",
           "nvidia-smi -q -d COMPUTE; fuser -v /dev/nvidia*"),
)  # fmt: skip
# Errors that differ in words, first ones first: later ones follow from them.
_MOST_ERRORS = 8
_ANY = _Cause((), "NCCL cannot go on after it", _LOOK_UP)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    failed = [one for one in facts.failures("cuda_failure", "cuda_ipc_failed", "nvml_failed") if one.level == "WARN"]
    by_error: dict[str, list[Failure]] = {}
    for failure in failed:
        by_error.setdefault(_error(failure).lower(), []).append(failure)
    for failures in list(by_error.values())[:_MOST_ERRORS]:
        yield _finding(facts, estimator, failures)
    others = [one for one in gpu_errors(facts) if not any(one.error.lower().startswith(known) for known in by_error)]
    for other in others[:_MOST_ERRORS]:
        yield _reported(estimator, other)
    without = [one for one in facts.failures("alloc_failed") if one.fields.get("call", "").startswith("CUDA")]
    if without and not by_error and not others:
        yield _without_memory(estimator, without)
    if not (failed or others or without) and not facts.visibility.info and not facts.failures():
        yield NotEvaluated(_NEEDS)


def _reported(estimator: Estimator, reported: GpuError) -> Finding:
    """What others report: NCCL met nothing, or does not say so."""
    found = _cause(reported.error, [])
    ranks = tuple(map(str, reported.ranks))
    where = f" on {place(reported.machines, '')}" if reported.machines else ""
    who = f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}" if ranks else "a process"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"CUDA reports '{reported.error}' to {who}{where}: {found.cause}",
        found.fix,
        {"hosts": reported.machines, "ranks": ranks},
        reported.evidence,
        **stopped(estimator),
    )


def _without_memory(estimator: Estimator, failures: list[Failure]) -> Finding:
    """The last words of an allocation, without the error before them."""
    machines = machines_of(failures)
    return RULE.finding(
        Severity.ERROR,
        Confidence.MEDIUM,
        f"NCCL could not allocate memory of a GPU on {place(machines, 'a machine')}: usually none is left, unless the"
        " GPU had failed before; the error itself is not in the input",
        f"NCCL_DEBUG=WARN prints the error; {_MEMORY}",
        {"hosts": machines},
        evidence_of(failures),
        **stopped(estimator),
    )


def _error(failure: Failure) -> str:
    return failure.fields.get("error") or failure.fields.get("text") or "unknown"


def _finding(facts: Facts, estimator: Estimator, failures: list[Failure]) -> Finding:
    machines, error = machines_of(failures), _error(failures[0])
    sources = [failure.fields["src_file"] for failure in failures if "src_file" in failure.fields]
    files = sorted({source.rpartition("/")[2] for source in sources})
    found = _cause(error, [*files, *_traced(facts, machines)])
    code = next((f" ({failure.fields['code']})" for failure in failures if "code" in failure.fields), "")
    where = f" in {files[0]}" if len(files) == 1 else ""
    ending = "driver shutting down" in error.lower()
    return RULE.finding(
        Severity.INFO if ending else Severity.ERROR,
        Confidence.LOW if ending else Confidence.HIGH,
        f"{_call(facts, failures[0])}{where} failed on {place(machines, 'a rank')} with '{error}'{code}:"
        f" {'the process was ending' if ending else found.cause}",
        _FINE_GRAIN if facts.is_rccl and found.fix == _HANDLES else found.fix,
        {"hosts": machines},
        evidence_of(failures),
        **(no_number("the process was ending") if ending else stopped(estimator)),
    )


def _traced(facts: Facts, machines: tuple[str, ...]) -> list[str]:
    """Files that the error passed through on its way up: the call itself is often in a header."""
    traces = [one for one in facts.failures("error_trace") if one.fields.get("code") == "1"]
    return [one.fields.get("src_file", "") for one in traces if {*one.machines} <= {*machines}]


def _call(facts: Facts, failure: Failure) -> str:
    if failure.category == "nvml_failed":
        return failure.fields.get("call", "NVML")
    return failure.fields.get("call") or ("A HIP call of RCCL" if facts.is_rccl else "A CUDA call of NCCL")


def _cause(error: str, files: list[str]) -> _Cause:
    text = error.lower()
    for known in _CAUSES:
        here = not known.files or any(name in file for file in files for name in known.files)
        if here and any(word in text for word in known.words):
            return known
    return _ANY


RULE = Rule(
    code="RUN007",
    name="cuda-failure",
    severity=Severity.ERROR,
    summary="A CUDA or driver call failed inside NCCL",
    check=check,
    since="0.1.0",
    caused_by=("PCI002", "NVL003", "NVL004", "HST001"),
)
