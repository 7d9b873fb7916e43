"""Rings leave a node on one rail and enter the next on another, or GPUs are not equally near their NICs.

## What it finds

From a log: ring edges between nodes (connection 0) whose send-side and receive-side **NIC** lie on different rails,
as a share x of the ring channels. GPU numbers prove nothing: with PXN a ring enters at the GPU beside the NIC and
leaves from another GPU through the same NIC (`1[1] -> 8[0] [send] via NET/IB/0(0)`; the number in parentheses is a
rank). Tree edges are counted apart. Indexes are compared between hosts by rail: rail number of the log or the
plugin, fabric files, equal device names, order by PCI address, then the GPU beside the device, whichever all hosts can
answer first. Until 2.29.3 the index order is what libibverbs returned on that host.

From `nvidia-smi topo -m` or a topology XML, without a log: some GPUs have a NIC at PXB or nearer and others only PHB
or worse, or such NICs serve unequal numbers of GPUs. NICs near no GPU are front-end or storage and are dropped first.

It is a warning when a cause is on record (NCCL_CROSS_NIC=1, HCAs missing or listed in another order on a host, nodes
with different crossNic, GPUs of the communicator on different local devices per node, an uneven matrix), and
information otherwise, because NCCL and this tool do not see the fabric.

## Why it costs

On a rail-optimised fabric all NICs of index i share a leaf. A transfer from rail 0 to rail 1 climbs to the spine, one
or two tiers further (1 to 2 us each) and into links that other jobs fill. With share x the node bandwidth becomes
B/(1-x+x/m), m = 0.5 / 0.8 / 1.0 for a spine that is oversubscribed, shared or non-blocking. No paired measurement is
public; the range is reasoning, and on a single leaf the cost is nothing. An uneven matrix costs more surely: GPUs
without a near NIC lose GPUDirect RDMA at the default level (GDR001), and the ring runs at the pace of the slowest.

## Example

    hgx-a1:5120:5188 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA
    hgx-a2:9007:9071 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA

with `NCCL_CROSS_NIC set by environment to 1.`: x = 1.

## How to fix

- `NCCL_CROSS_NIC=0` keeps each ring on one rail, unset (2) lets NCCL cross where it expects to gain. Value 1 is for
  fabrics where all NICs share a switch.
- Equal lists on all hosts: same `NCCL_IB_HCA=mlx5_0,mlx5_3,...`, device names pinned by udev
  (`rdma-core` persistent naming), or NCCL 2.29.7 and newer, which sorts by PCI address
  (`NCCL_IB_DEVICE_PCI_ORDER`).
- The same local devices on every node for a communicator; whole nodes, or equal `CUDA_VISIBLE_DEVICES`.
- PXN on (`NCCL_PXN_DISABLE` unset) so that any GPU can use the NIC of its rail.
- Mixed crossNic within a job misjoins rings before 2.28.3: update.
- Uneven matrix: a HCA is missing, down, or in the wrong slot; compare `lspci -tv` of two nodes. In a virtual machine
  give the instance type's topology file.

## When it is not a problem

One NIC per node. The same NIC at both ends. Alternating rings: with crossNic 2 (2.20.3 and newer) odd nodes swap
channels, so exit A meets entry A; an odd number of nodes leaves one crossing wrap-around edge per ring (share at most
1/nodes). Names that differ while rails are equal. k GPUs per NIC evenly (two per NIC on many 8-GPU, 4-NIC machines).
All GPUs equally far: a flat virtual machine is not a rail question. NUMA-per-quadrant hosts with PXB here and SYS
elsewhere. EFA and TCPX(O) have no rails of this kind; sockets are not evaluated.

## References

- NVIDIA/nccl issues 1411 (NCCL knows only NCCL_CROSS_NIC), 1357 (crossing rings explained), 1494 (mixed crossNic)
- NCCL sources: `src/graph/search.cc`, `src/graph/connect.cc` (alternating rings), `src/transport/net.cc` (PXN)
- NCCL user guide, Environment Variables: NCCL_CROSS_NIC, NCCL_PXN_DISABLE, NCCL_IB_HCA
- IBM/pytorch-communication-benchmarks issue 1: eight GPUs, six NICs
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
    code="TOP001",
    name="non-rail",
    severity=Severity.WARNING,
    summary="Rings leave a node on one rail and enter the next on another, or GPUs are not equally near their NICs",
    check=check,
    since="0.1.0",
)
