"""Sockets are the network of choice and are left as they come.

## What it finds

A job of several machines on sockets, with nothing that speaks of RDMA (otherwise NET001 tells), where
- the interface has 25 GbE or more and NCCL runs its default of one socket on one thread per connection: no
  `NET/Socket: Using T threads and S sockets per thread`, no `NCCL_SOCKET_NTHREADS`, no `NCCL_NSOCKS_PERTHREAD`. Only
  AWS (2 threads x 8 sockets) and GCP (4 x 1) adapters get more by themselves;
- or several interfaces are listed and all channels go over one of them.

The rate is taken from `Found network interface ... with speed` (2.30.3 and newer), NCCL's topology dump, or
`--nic-gbps`. Without any of them the first question stays open: in virtual machines and containers the kernel often
does not know the rate, and NCCL takes 10 Gb/s.

## Why it costs

One TCP flow carries 20 to 28 Gb/s on today's cores, whatever the line. So 1 x 1 gives about 2 GB/s with one GPU per
node and 3 GB/s with four or more, and a tuned set-up about 5 (measured: 1.8 to 5.6). On 25 GbE the line itself ends
at 3.0 GB/s, on 10 GbE at 1.2.

## Example

    lab-1:700:731 [0] NCCL INFO NET/Socket : Using [0]ens1f0:10.30.0.127<0> [1]ens1f1:10.30.1.127<0>
    lab-1:700:731 [0] NCCL INFO Found network interface ens1f0 with speed 100000 Mbps
    lab-1:700:744 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0

## How to fix

1. `NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4` (their product may be 64 at most), then measure with
   `all_reduce_perf -b 8M -e 1G -f 2`: each thread is a busy core, and more can be slower.
2. Jumbo frames on all hosts and switches: `ip link set dev <interface> mtu 9000`, test with `ping -M do -s 8972
   <peer>`.
3. Leave the cores to NCCL's threads: no pinning of all ranks to a few cores, data loaders elsewhere.
4. Several interfaces: name them all (`NCCL_SOCKET_IFNAME=ens1f0,ens1f1`), each in its own subnet, and at least as
   many channels as interfaces (`NCCL_MIN_NCHANNELS=4`); or bond them.
5. NICs that speak RoCE (`ibv_devinfo`) carry ten times as much with RDMA.

## When it is not a problem

RDMA or a plugin carries the traffic. The line is 10 GbE or slower: one flow fills it. Several interfaces of which
only one reaches the peers.

## References

- NVIDIA/nccl issues 209, 398, 450: what tuned TCP reaches; NVIDIA/nccl-tests issue 83
- NCCL sources: `src/transport/net_socket.cc` (ncclNetSocketGetNsockNthread)
- NCCL user guide, Environment Variables: NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD, NCCL_SOCKET_IFNAME
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.interfaces import astray_devices, listed_for_sockets
from ncclcheck.rules.common import compared, listed, no_number, place, rdma_expected
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import EdgeGroup, Seen

# One flow fills a slower line.
_FAST_GBIT = 25
_THREADS = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
_FIX_THREADS = "NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4, then measure: more threads can be slower too"
_FIX_INTERFACES = (
    "one subnet per interface, NCCL_SOCKET_IFNAME=<all of them> and NCCL_MIN_NCHANNELS of at least their number; or a"
    " bond"
)
_NEEDS_NETWORK = "the line 'Using network ...' (NCCL_DEBUG=INFO)"
_NEEDS_SIZE = "the line 'comm ... nRanks N nNodes M' (NCCL 2.20.3+) or channel lines: does the job span machines?"
_NEEDS_RATE = "the rate of the socket interface: ethtool <interface>, then --nic-gbps N"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    sockets = [seen for seen in facts.networks if seen.value == "Socket"]
    if not facts.networks:
        yield NotEvaluated(_NEEDS_NETWORK)
    elif not sockets or len(facts.networks) > len(sockets) or rdma_expected(facts, estimator):
        return
    elif facts.crossing.answer is Answer.UNKNOWN:
        yield NotEvaluated(_NEEDS_SIZE)
    elif idle := _idle(facts):
        yield _finding_idle(facts, idle)
    elif not _tuned(facts):
        rate = _rate(facts, estimator)
        if rate is None:
            yield NotEvaluated(_NEEDS_RATE)
        elif rate >= _FAST_GBIT:
            yield _finding_untuned(facts, estimator, sockets, rate)


def _tuned(facts: Facts) -> bool:
    """NCCL prints the numbers only where they are not 1 x 1."""
    return bool(facts.notes("net_socket_threads")) or any(facts.settings(name) for name in _THREADS)


def _rate(facts: Facts, estimator: Estimator) -> float | None:
    """Gb/s of the slowest interface whose rate is known."""
    printed = [int(seen.value) / 1000 for seen in facts.notes("net_socket_speed") if seen.value.isdecimal()]
    dumped = [rate for rate in estimator.shape.nic_gbit if rate != estimator.hardware.tcp.unreadable_gbit]
    rates = printed or dumped
    return min(rates) if rates else estimator.options.nic_gbit


def _idle(facts: Facts) -> tuple[str, ...]:
    """Interfaces that lead out of the machine and carry no channel, beside one that carries all."""
    edges = _edges(facts)
    used = {device for edge in edges for device in edge.devices}
    usable = listed_for_sockets(facts) - astray_devices(facts)
    complete = facts.rings_connected or {edge.direction for edge in edges} >= {"send", "receive"}
    if len(used) != 1 or not used <= usable or not complete:
        return ()
    return tuple(sorted(usable - used))


def _edges(facts: Facts) -> list[EdgeGroup]:
    return [edge for edge in facts.net_edges() if edge.network == "Socket"]


def _finding_idle(facts: Facts, idle: tuple[str, ...]) -> Finding:
    edges = _edges(facts)
    machines = machines_of(edges)
    used = sorted({device for edge in edges for device in edge.devices})
    return RULE.finding(
        Severity.INFO,
        Confidence.MEDIUM,
        f"All channels between machines go over {used[0]}; {listed(idle)} of {place(machines, 'the machines')} carries"
        " nothing",
        _FIX_INTERFACES,
        {"hosts": machines, "devices": idle},
        evidence_of(edges),
        **no_number("whether the idle interface reaches the peers, and its rate, are not in the input"),
    )


def _finding_untuned(facts: Facts, estimator: Estimator, sockets: list[Seen], rate: float) -> Finding:
    machines = machines_of(sockets)
    speeds = facts.notes("net_socket_speed")
    return RULE.finding(
        Severity.INFO,
        Confidence.MEDIUM,
        f"One socket on one thread per connection on a line of {rate:g} Gb/s ({place(machines, 'all machines')}): a"
        " single TCP flow carries 20 to 28 Gb/s",
        _FIX_THREADS,
        {"hosts": machines},
        evidence_of([*sockets, *speeds]),
        **compared(estimator, {"network": "socket", "tcp_tuned": True}, {"network": "socket", "tcp_tuned": False}),
    )


RULE = Rule(
    code="NET005",
    name="socket-untuned",
    severity=Severity.INFO,
    summary="Sockets are the network of choice and are left as they come",
    check=check,
    since="0.1.0",
)
