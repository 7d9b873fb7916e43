"""A CUDA or driver call failed inside NCCL.

## What it finds

`NCCL WARN Cuda failure 'text'` (runtime calls) and `Cuda failure N 'text'` (driver calls, 2.19.1 and newer), with the
result 1 trace behind it, sorted by cause:

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
from typing import TYPE_CHECKING

from ncclcheck.rules.model import Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    raise NotImplementedError


RULE = Rule(
    code="RUN007",
    name="cuda-failure",
    severity=Severity.ERROR,
    summary="A CUDA or driver call failed inside NCCL",
    check=check,
    since="0.1.0",
)
