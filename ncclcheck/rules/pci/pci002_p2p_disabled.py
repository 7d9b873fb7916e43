"""Peer access between GPUs is switched off or refused where NCCL would use it.

## What it finds

- `NCCL_P2P_DISABLE set by environment to 1` (2.23.4 and newer) or `NCCL_P2P_LEVEL set by environment to LOC` (what
  2.7.3 to 2.22.3 print for it), or any level below the default of that release.
- The driver or CUDA refuses: `P2P is disabled between connected GPUs 0 and 1`, `Could not enable P2P between dev
  0(=1a000) and dev 1(=88000)`, CNS, GNS, TNS or NS in `nvidia-smi topo -p2p` for a pair within the limit.
- SHM edges on a pair whose path class is known and within the default limit, or between NVSwitch GPUs: somebody
  refused P2P without a line.

Default limit by release: SYS until 2.22.3, but PXB on Intel, ARM and Zhaoxin hosts; from 2.23.4 PXB everywhere, and
SYS on AMD with at most two GPUs. **A pair beyond the limit on SHM is NCCL's design**; PCI001 gives its number and this
rule stays silent. GeForce cards whose stock driver has no peer access are information.

## Why it costs

Each byte crosses host memory twice. On NVSwitch machines that is the worst single setting there is: four A100 fell from
235 to 5.2 GB/s of bus bandwidth (0.022). On PCIe machines the factor is 0.5 to 0.8 on recent CPUs (RTX 4090
with P2P: 20.6), and far less on EPYC Rome across NUMA nodes (0.05 to 0.16 of the raw link).

## Example

    h100-q1:4411:4475 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1
    h100-q1:4411:4602 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct

## How to fix

Settings: find them (`xargs -0 -n1 < /proc/<pid>/environ | grep NCCL_P2P`, `/etc/nccl.conf`) and remove them. They are
mostly left from a hang on a machine with ACS or IOMMU in the way; mend that instead:

    nvidia-smi topo -p2p r                                   # OK expected
    lspci -vvv | grep -B30 'ACSCtl.*ReqRedir+' | grep -E '^[0-9a-f]'   # bridges that redirect (root)
    dmesg | grep -iE 'iommu.*(Translated|Passthrough)|DMAR|AMD-Vi'

- Bare metal: ACS off in the BIOS or by `setpci` on the bridges of the path, `iommu=pt` on the kernel command line.
  In a virtual machine ACS must stay; use the hypervisor's ATS/direct-translated support.
- `P2P is disabled between NVLINK connected GPUs` stops init and is a hardware or fabric manager fault:
  `nvidia-smi nvlink -s`, `nvidia-smi -q | grep -A6 Fabric`, reset, drain. Do not hide it with NCCL_IGNORE_DISABLED_P2P.
- Containers: same IPC name space (`--ipc=host`), same /dev/shm, all GPUs of the node visible to NVML; MIG slices have
  no peer access.
- Check with `all_reduce_perf -b 1G -e 1G -g <n>` and the cuda-samples p2pBandwidthLatencyTest before the job.

## When it is not a problem

SHM beyond the default limit. A level at or above the default (`NCCL_P2P_LEVEL=SYS` only adds). `NCCL_P2P_DISABLE=0`.
GeForce without driver support (information). One GPU per node. `topo -p2p n` says NS on every machine without NVLink.

## References

- NVIDIA/nccl issues 489, 1464, 1674 (ACS and IOMMU), 1639; nccl-tests issue 307 (4090)
- NCCL sources: `src/graph/paths.cc` (ncclTopoCheckP2p, NCCL_IGNORE_DISABLED_P2P), `src/transport/p2p.cc`
- NCCL user guide, Environment Variables: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL; Troubleshooting: GPU Direct, PCI ACS
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
    code="PCI002",
    name="p2p-disabled",
    severity=Severity.ERROR,
    summary="Peer access between GPUs is switched off or refused where NCCL would use it",
    check=check,
    since="0.1.0",
)
