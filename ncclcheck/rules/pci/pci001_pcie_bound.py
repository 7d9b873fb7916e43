"""GPUs of one node exchange data over PCIe or host memory.

## What it finds

Pairs of GPUs of one NCCL node whose edges run over PCIe peer access or over shared host memory (`via
SHM/direct/direct`, `via direct shared memory` until 2.12.12), with the path class and the bandwidth that follows.
`P2P/CUMEM` and `P2P/IPC` alone do not tell NVLink from PCIe: the class comes from the GPU's name, the NVLink total of
the GRAPH dump (`NVL[370.8]`), `type` and `bw` of the ring's `Pattern 4` line, NVLS support, `P2P/.../read` (Ampere
over NVLink only), or a matrix (`NV18` against PIX to SYS). Where none of these is in the input the rule is not
evaluated.

A warning when NVLink-class GPUs go without NVLink, or peer access that is possible lies unused; information for PCIe
cards, whose design it is. With GPU class and path both unknown the confidence is medium.

## Why it costs

A ring is as fast as its slowest edge. Bus bandwidth of a ring, GB/s per direction:

| path | PCIe gen 3 | gen 4 | gen 5 |
| --- | --- | --- | --- |
| NVLink for comparison | V100 118 | A100 235 | H100, H200 364 |
| P2P through PCIe switches | about 11 | about 22 | 41 to 46 |
| P2P through CPU root ports | about 10 | 21 | 41 |
| SHM, two copies through host memory | 4 to 7 | 1.4 to 5 (EPYC Rome), else 10 to 17 | 27 to 35 |

x16 raw is 15.75, 31.5 and 63 GB/s one way; 64 GB/s for gen 4 is both directions added. Four A100 SXM with P2P
disabled measured 5.2 GB/s against 235. SHM is the least predictable path: CPU generation and NUMA layout decide. Tensor
parallelism (4 all_reduces per layer and step) feels it most; pipeline stages hardly.

## Example

    dgxa-3:62003:62070 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
    dgxa-3:62003:62070 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct

on A100-SXM4: 5 GB/s where 235 are there; PCI002 is the cause.

## How to fix

- NVLink-class GPUs on SHM: remove `NCCL_P2P_DISABLE`, `NCCL_P2P_LEVEL`; then `nvidia-smi topo -m` (NV# expected),
  `nvidia-smi nvlink -s`, `systemctl status nvidia-fabricmanager`; in containers share IPC name space and /dev/shm
  (`--ipc=host`, or one pod per node).
- Pairs within reach but on SHM: `nvidia-smi topo -p2p r` must say OK; turn ACS redirect off on the switches and IOMMU
  translation off (`iommu=pt`) on bare metal.
- Pairs beyond the default limit (PXB from 2.23.4 on; SYS before, but PXB on Intel): `NCCL_P2P_LEVEL=SYS` is worth a
  measurement with `all_reduce_perf -b 1G -e 1G -g 8`; AMD root ports often gain, older Intel ones often lose.
- Mixed boxes (NVLink pairs): keep tensor-parallel groups inside a pair.
- Place GPUs of one job under one switch or socket (`CUDA_VISIBLE_DEVICES` by the matrix).

## When it is not a problem

L40S, L4, A10, T4, RTX cards and PCIe boards without bridges have nothing better: the number is information. One GPU
per node has no such pair. SHM between the pairs of a NVLink-pair machine is normal, and sets the ring's pace.

## References

- NVIDIA/nccl issues 1639 (5090 over SHM), 290; nccl-tests issues 287 (5090), 307 (4090)
- NCCL sources: `src/graph/topo.h` (link bandwidths), `src/graph/paths.cc` (P2P level), `src/transport/shm.cc`, `p2p.cc`
- NCCL user guide, Environment Variables: NCCL_P2P_LEVEL, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE
- nvidia-smi documentation: topo -m, topo -p2p
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
    code="PCI001",
    name="pcie-bound",
    severity=Severity.WARNING,
    summary="GPUs of one node exchange data over PCIe or host memory",
    check=check,
    since="0.1.0",
    caused_by=("PCI002",),
)
