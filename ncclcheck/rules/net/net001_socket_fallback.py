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
The cause hangs on it where it is known: IB003 (switched off), HST003 (device not in the container), NET004 (plugin),
IB001 (no device).

## Why it costs

NCCL opens one socket per connection on one proxy thread by default; only AWS (2 threads x 8 sockets) and GCP (4 x 1)
adapters get more. A flow carries 20 to 28 Gb/s on today's cores whatever the line rate, each byte is copied through
host memory on both sides, and the proxy threads compete with the data loaders. One GPU per node reaches about 2 GB/s
(1.2 to 2.8), four to eight GPUs per node about 3 (1.4 to 5.5), tuned jobs 5 (1.8 to 5.6). An HGX H100 node with eight
400 Gb/s rails puts 370 to 390 GB/s on the wire: the ratio is about 120. A management interface of 1 GbE gives 0.12.
A bf16 gradient synchronisation of 70B parameters over 32 such nodes takes 0.75 s on eight rails, 94 s on 25 GbE,
and 139 s at the 2 GB/s of one flow. No other network finding shows in a measurement before this one is mended.

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
interface is right. On sites that have Ethernet only, leave the rule out (`--ignore NET001`).

## References

- NVIDIA/nccl issues 941, 952, 259, 799, 1925: no device in containers; 229: libibverbs missing on EFA images;
  2428: one host with fewer HCAs; 450: what tuned TCP reaches on 100 Gb/s
- NCCL sources: `src/transport/net_socket.cc` (threads and sockets by PCI vendor), `src/init.cc`, `src/transport/net_ib`
- NCCL user guide, Environment Variables: NCCL_IB_DISABLE, NCCL_NET, NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD
- nccl-tests, doc/PERFORMANCE.md: bus bandwidth
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.plugins import without_provider
from ncclcheck.rules.common import compared, counted, ib_disabled, listed, rdma_expected, rides_on_tcp, tcp_networks
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Seen

_CONTAINER = (
    "ibv_devinfo -l on the host and in the container; docker run --device=/dev/infiniband --ulimit memlock=-1"
    " --cap-add=IPC_LOCK (Kubernetes: an RDMA device plugin resource)"
)
_EFA = (
    "fi_info -p efa -t FI_EP_RDM must list a domain per adapter, in the container too: install the EFA driver, expose"
    " /dev/infiniband"
)
_TUNE = (
    "if Ethernet is the design: NCCL_SOCKET_IFNAME=<fastest interface> NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4,"
    " and measure"
)
_NEEDS_SIZE = "the line 'comm ... nRanks N nNodes M' (NCCL 2.20.3+) or channel lines: does the job span machines?"
_NEEDS_NETWORK = "the line 'Using network ...' (NCCL_DEBUG=INFO with INIT and NET in NCCL_DEBUG_SUBSYS)"


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Traffic between machines over TCP: who, how surely, and the lines that prove it."""

    networks: tuple[str, ...]
    machines: tuple[str, ...]
    sure: bool
    evidence: tuple[Evidence, ...]


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    slow = tcp_networks(facts)
    if not facts.networks:
        yield NotEvaluated(_NEEDS_NETWORK)
    elif traffic := _traffic(facts, slow):
        yield _finding(facts, estimator, traffic)
    elif slow and facts.crossing.answer is Answer.UNKNOWN:
        yield NotEvaluated(_NEEDS_SIZE)


def _traffic(facts: Facts, slow: tuple[Seen, ...]) -> _Traffic | None:
    edges = [edge for edge in facts.net_edges() if rides_on_tcp(facts, edge.network)]
    names = tuple(sorted({seen.value for seen in slow}))
    said = machines_of(slow)
    users = [one for one in facts.communicators if one.crossing.answer is Answer.YES and {*one.networks} & {*names}]
    crossings = [one.crossing for one in users]
    if not facts.communicators and facts.crossing.answer is Answer.YES and slow:
        crossings = [facts.crossing]  # an excerpt without init lines
    if not edges and not crossings:
        return None
    across = {machine for one in users for machine in one.machines if machine in said}
    machines = across | {*machines_of(edges)} if users or edges else {*said}
    proof = [line for crossing in crossings[:1] for line in crossing.evidence[:1]]
    return _Traffic(
        names,
        tuple(sorted(machines)),
        bool(edges) or any(crossing.confidence == "high" for crossing in crossings),
        tuple(dict.fromkeys([*evidence_of(slow, 2), *proof, *evidence_of(edges, 2)])),
    )


def _finding(facts: Facts, estimator: Estimator, traffic: _Traffic) -> Finding:
    by_plugin = "FastSocket" in traffic.networks
    sign = rdma_expected(facts, estimator)
    if by_plugin and not facts.rdma_signs:
        sign = ""  # the cloud's own choice for instances without RDMA, whatever the GPUs
    cause, fix = _cause(facts, by_plugin)
    doubt = f"RDMA is expected: {sign}" if sign else "nothing in the input says that the machines have RDMA"
    return RULE.finding(
        Severity.ERROR if sign else Severity.WARNING,
        Confidence.HIGH if sign and traffic.sure else Confidence.MEDIUM,
        f"{_whose(traffic)} goes over {_carrier(facts, traffic)}: {f'{cause} ({doubt})' if cause else doubt}",
        fix if sign else f"{fix}; {_TUNE}",
        {"hosts": traffic.machines},
        traffic.evidence,
        **compared(estimator, {"network": "rdma"}, {"network": "socket"} | ({"tcp_tuned": True} if by_plugin else {})),
    )


def _whose(traffic: _Traffic) -> str:
    """One machine can be all that the input shows of several."""
    if not traffic.machines:
        return "Traffic between machines"
    if len(traffic.machines) == 1:
        return f"Traffic of {traffic.machines[0]} with other machines"
    return f"Traffic between {counted(len(traffic.machines), 'machine')}"


def _carrier(facts: Facts, traffic: _Traffic) -> str:
    named = [name for name in traffic.networks if name not in ("Socket", "FastSocket")]
    if named:
        return f"TCP below {listed(named)}"
    interfaces = [seen.value for seen in facts.socket_interfaces if {*seen.machines} & {*traffic.machines}]
    return f"TCP sockets on {listed(interfaces)}" if interfaces else "TCP sockets"


def _cause(facts: Facts, by_plugin: bool) -> tuple[str, str]:
    """Why, as far as the input tells ("" otherwise), and what to do about it."""
    if by_plugin:
        return "FastSocket is TCP, if tuned", "an instance type with GPUDirect-TCPX, TCPXO or RDMA, and its plugin"
    if ib_disabled(facts):
        return (
            "NCCL_IB_DISABLE=1 keeps NCCL from looking for InfiniBand and RoCE",
            "unset NCCL_IB_DISABLE (env | grep NCCL; cat /etc/nccl.conf ~/.nccl.conf)",
        )
    if providers := [seen.value for seen in facts.notes("net_ofi_provider") if rides_on_tcp(facts, "OFI")]:
        return f"libfabric offers the plugin no RDMA provider, only {providers[0].partition(' ')[0]}", _EFA
    if without_provider(facts):
        return "libfabric offers the plugin no RDMA provider", _EFA
    if any(seen.value.lower() == "socket" for seen in facts.settings("NCCL_NET")):
        return "NCCL_NET asks for them", "unset NCCL_NET, or set NCCL_NET=IB"
    if facts.notes("net_ib_no_device"):
        return "NCCL found no InfiniBand or RoCE device", _CONTAINER
    if facts.failures("ib_library_missing"):
        return "libibverbs could not be loaded", "apt-get install libibverbs1 ibverbs-providers (in the image)"
    return (
        "",
        "NCCL_NET=IB makes init fail, with the reason, instead of falling back; log with"
        " NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET",
    )


RULE = Rule(
    code="NET001",
    name="socket-fallback",
    severity=Severity.ERROR,
    summary="Traffic between machines goes over TCP sockets instead of RDMA",
    check=check,
    since="0.1.0",
    caused_by=("IB003", "HST003", "NET004", "IB001", "NET003"),
)
