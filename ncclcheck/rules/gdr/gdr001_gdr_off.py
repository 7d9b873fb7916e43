"""RDMA traffic is staged through host memory because GPUDirect RDMA is off.

## What it finds

Edges between machines on an RDMA network (IB, RoCE, EFA, Slingshot) whose channel lines lack `/GDRDMA`. Receive and
send are judged apart, because NCCL decides them apart. `Connected all rings, use ring PXN p GDR 0` (2.24.3 and
newer) counts when edges confirm it: the number starts at 1 and one ring edge clears it, also one inside a machine.

Where the input tells the cause it is named:
- `GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)`: neither peer memory nor dma-buf works. The bracket is
  printed until 2.12.12; all forms need the NET subsystem.
- `GPU Direct RDMA Disabled for GPU 1b000 / HCA 4 (distance 6 > 4)`: too far for the level in force. The numbers are
  indexes into the path types **of that release**: 4 is PHB in 2.6, PXB in 2.8 to 2.25.
- a plugin that says so (`disabling GDR`), a GeForce card, a NIC without support: information, with the reason.
- from 2.30.3 the distance lines are gone at INFO: then it is "module or distance", and GRAPH output would tell.

`DMA-BUF is available on GPU device 0` clears nothing: it concerns the GPU's side of the registration.

## Why it costs

Each byte takes a copy from GPU to host, a read by the NIC, and the mirror of both at the receiver. One GPU and one
NIC reach about 5.7 GB/s on PCIe gen 3, 8.8 on gen 4, 14.5 to 15 on gen 5 (measured without GDR: 5.7 on 100 Gb/s,
8.8 on 200, 15.0 on 400), and a node with eight rails stops near 72 GB/s (30 to 120) where GDR gives 370 to 390.
On AMD hosts with one NUMA domain per socket an otherwise equal pair fell to an eighth. Small messages lose
little: an 8-byte all_reduce over two nodes took 17 us with and without GDR.

## Example

    roce-01:83112:83309 [0] NCCL INFO DMA-BUF is available on GPU device 0
    roce-01:83112:83309 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
    roce-01:83112:83309 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0

## How to fix

    lsmod | grep -E 'nvidia_peermem|nv_peer_mem'        # nvidia_peermem is part of the driver since R470
    modprobe nvidia-peermem                             # "Invalid argument": the driver was built without this OFED
    modinfo nvidia | grep -i '^license'                 # open modules ("Dual MIT/GPL") are needed for dma-buf
    nvidia-smi topo -m                                  # the NIC should be PIX or PXB to its GPU

dma-buf works with kernel 5.12, CUDA 11.7 and NCCL 2.13.4 or newer on open kernel modules; otherwise install the
peer memory module. Load it at boot (`/etc/modules-load.d/`), not from the container. Distance: use the NIC beside the
GPU (`NCCL_IB_HCA`), or give a virtual machine its topology file. `NCCL_NET_GDR_LEVEL=PHB` allows paths through the
host bridge; measure it, for some root ports are slower than staging. Level names are upper case and **a typo is
ignored in silence**: only the echoed line `NCCL_NET_GDR_LEVEL set by environment to PHB` is in force.
Then rerun with `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH`.

## When it is not a problem

Sending below compute capability 8.0 uses no GDR by design when the GPUs have no NVLink and the GPU is not alone in its
node; `NCCL_NET_GDR_READ=0` does the same by request: information. Networks that never print the suffix (FasTrak,
TCPX) are not evaluated. A single-node communicator proves nothing either way, and edges over NET inside one machine
are another matter. An absent nvidia_peermem is fine where edges carry `/GDRDMA`: dma-buf does it.

## References

- NVIDIA/nccl issues 465, 489, 1188, 1412, 1667 (which lines tell), 1151 ("distance 7 > 4"), 243, 2409 (rates
  without GDR); nccl-tests issues 245 (DMA-BUF line), 293 (latency and rate, with and without)
- NCCL sources: `src/graph/paths.cc` (ncclTopoCheckGdr), `src/transport/net.cc`
- NCCL user guide, Environment Variables: NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_DMABUF_ENABLE
- NVIDIA GPUDirect RDMA documentation: nvidia-peermem, supported systems
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
    code="GDR001",
    name="gdr-off",
    severity=Severity.ERROR,
    summary="RDMA traffic is staged through host memory because GPUDirect RDMA is off",
    check=check,
    since="0.1.0",
)
