"""Traffic between machines goes over TCP sockets instead of RDMA.

## What it finds

A communicator whose ranks sit on more than one NCCL node and whose network is `Socket`, or edges between two
machines that read `via NET/Socket/i`. The same holds for networks that are TCP under another name: the OFI plugin on
provider `tcp` or `sockets`, UCX on `tcp`. NCCL prints no WARN when it falls back. The whole trace is three INFO
lines, once per communicator: `NET/IB : No device found.` (absent with `NCCL_IB_DISABLE=1`), `Using network Socket`,
and `via NET/Socket/0` on the channel lines.

Proof of traffic between machines is one of: `nNodes` above 1 in the line `comm ... nRanks N nNodes M localRanks L`
(2.20.3 and newer) with every rank of a machine in one node, or a NET edge with its ends on two machines. Two machines
without any edge is "will use the socket", confidence medium. Less than that is not evaluated.

The finding is an error when anything says that RDMA was there to be used (a NET/IB device on some host, `NCCL_IB_*`
or `FI_*` set, an `ib*` or `hsn*` interface, a network plugin) or the GPUs are of NVSwitch class; otherwise a warning.
The cause hangs on it where it is known: IB003 (switched off), IB001 (no device).

## Why it costs

NCCL opens one socket per connection on one proxy thread by default; only AWS (2 threads x 8 sockets) and GCP (4 x 1)
adapters get more. A flow carries 20 to 28 Gb/s on today's cores whatever the line rate, each byte is copied through
host memory on both sides, and the proxy threads compete with the data loaders. One GPU per node reaches about 2 GB/s
(1.2 to 2.8), four to eight GPUs per node about 3 (1.4 to 5.5), tuned jobs 5 (1.8 to 5.6). An HGX H100 node with eight
400 Gb/s rails puts 370 to 390 GB/s on the wire: the ratio is about 120. A management interface of 1 GbE gives 0.12.
A bf16 gradient synchronisation of 70B parameters over 32 such nodes takes 0.75 s on eight rails and 96 to 139 s on
25 GbE. No other network finding shows in a measurement before this one is mended.

## Example

    gpu-a12:149378:149441 [0] NCCL INFO NET/IB : No device found.
    gpu-a12:149378:149441 [0] NCCL INFO Using network Socket
    gpu-a12:149378:149441 [0] NCCL INFO comm 0x5561b1e6f440 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
    gpu-a12:149378:149441 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/Socket/0

## How to fix

1. `NCCL_IB_DISABLE=1` in the environment, the image or `/etc/nccl.conf`: remove it (`env | grep NCCL`, then
   `cat /etc/nccl.conf ~/.nccl.conf`).
2. No device found: on the host `ibv_devinfo -l`; in the container too. Docker needs
   `--device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK`, Kubernetes an RDMA device plugin resource, and
   the image `libibverbs1` with the provider of the NIC (`ibverbs-providers`, or the one of the OFED on the host).
3. A cloud with its own network: load its plugin (`NET/Plugin: Loaded net plugin ...` must appear). On EFA
   `fi_info -p efa -t FI_EP_RDM` must list a domain per adapter; on GCP the plugin's directory must be first in
   `LD_LIBRARY_PATH`.
4. Make the next fallback loud: `NCCL_NET=IB` fails at init instead of falling back.

If Ethernet is the design: `NCCL_SOCKET_NTHREADS` and `NCCL_NSOCKS_PERTHREAD` (product at most 64),
`NCCL_SOCKET_IFNAME` with the fastest interface, and measure, for more threads can be slower too.

## When it is not a problem

A communicator with `nNodes 1` prints `Using network Socket` and never uses it: one machine, or one NVL72 rack, where
edges between machines read `P2P/MNNVL`. GPUDirect-TCPX, TCPXO (FasTrak) move GPU memory without the socket path of
NCCL. `NET/Socket : Using ...` beside `Using network IB` is a listing of old releases. IPoIB or Ethernet as bootstrap
interface is right. Sites that have Ethernet only can declare it; the finding is then information.

## References

- NVIDIA/nccl issues 941, 952, 259, 799, 1925: no device in containers; 229: libibverbs missing on EFA images;
  2428: one host with fewer HCAs; 450: what tuned TCP reaches on 100 Gb/s
- NCCL sources: `src/transport/net_socket.cc` (threads and sockets by PCI vendor), `src/init.cc`, `src/transport/net_ib`
- NCCL user guide, Environment Variables: NCCL_IB_DISABLE, NCCL_NET, NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD
- nccl-tests, doc/PERFORMANCE.md: bus bandwidth
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
    code="NET001",
    name="socket-fallback",
    severity=Severity.ERROR,
    summary="Traffic between machines goes over TCP sockets instead of RDMA",
    check=check,
    since="0.1.0",
    caused_by=("IB003", "IB001"),
)
