"""Connections between hosts are refused, time out or have no route, and the job stops on it.

## What it finds

Connect failures of NCCL's sockets that end the attempt:
- `Connect to ip<port> failed : No route to host` (until 2.9.9; with `Net : ` from 2.10.3, with the name of the
  function from 2.16.2 on)
- `socketPollConnect: exceeded retries (20000)` (2.16.2 to 2.23.4), `exceeded error retry count (35)` (2.24.3 to
  2.26.6), `... after N attempts` (2.27.3 and newer), then the trace with result 6 or 2
- EFA: `NET/OFI Request ... completed with error. RC: 20` or an address that cannot be inserted: the security group.

Retries by themselves are INFO and prove nothing; the rule looks for what came after. An input that ends while a rank
retries is not evaluated.

## Why it costs

The job stops: GPUs x time until somebody looks. Refused connections give up after about 20 s (20000 tries, until
2.23.4) or a minute (34 tries, pauses growing by 100 ms, from 2.24.3). Packets that are dropped take the system's
connect timeout per try, about two minutes with `tcp_syn_retries=6`, so a firewall that drops instead of rejecting
holds all GPUs for many minutes.

Who listens where: rank 0 (the root) on the rendezvous port, then **every rank** on ephemeral ports for the ring of
bootstrap, for the proxies, and with sockets for the data. So a rule that opens the master port lets the rendezvous
through and stops everything behind it; the failure comes after "Bootstrap : Using", or with runtime connect only at the
first collective.

## Example

    fw-02:40122:40188 [0] NCCL INFO Call to connect returned Connection refused, retrying
    fw-02:40122:40188 [0] misc/socket.cc:506 NCCL WARN socketPollConnect: exceeded retries (20000)
    fw-02:40122:40188 [0] NCCL INFO bootstrap.cc:290 -> 6

## How to fix

The address in the message is the one that the peer announced, from the interface that NCCL chose there.

1. Is it the right interface? `Bootstrap : Using eth0:10.98.2.1<0>` on the peer. 127.x, 169.254.x, docker0, a VPN:
   set `NCCL_SOCKET_IFNAME` (`=eth0` exact, `^docker,lo` exclude) on all hosts.
2. Is the way open? From the failing host: `nc -vz <ip> <port>` while the job waits; `ip route get <ip>`;
   `traceroute -n -T -p <port> <ip>`.
3. Firewall: open all TCP ports between the hosts of the job (`firewall-cmd --zone=trusted --add-source=<subnet>`,
   `ufw allow from <subnet>`), or narrow NCCL down with the kernel's `net.ipv4.ip_local_port_range`, which
   NCCL's listeners follow, and open that range.
4. Kubernetes: NetworkPolicy between the pods of the job, headless service for names, host network where RDMA needs it.
5. AWS: the security group must allow all traffic from **and to itself**, by its id, inbound and outbound; a rule for
   0.0.0.0/0 does not cover EFA.
6. Refused: the peer died or has not started; look at its log first.

## When it is not a problem

Retries that end in `Connected all rings` or Init COMPLETE: the peer was late. `Call to bind failed: Address already in
use` followed by `RAS failed to establish a client listening socket`: the second process of a machine cannot take port
28028, nothing is lost (2.24.3 and newer). `Connection closed by remote peer` is the consequence of a death elsewhere.

## References

- aws/aws-ofi-nccl issues 156, 663: security group; NVIDIA/nccl issue 1597
- NCCL sources: `src/misc/socket.cc`, `src/bootstrap.cc`, `src/ras/client_support.cc`
- NCCL user guide, Environment Variables: NCCL_SOCKET_IFNAME, NCCL_SOCKET_RETRY_CNT, NCCL_SOCKET_RETRY_SLEEP_MSEC,
  NCCL_COMM_ID; Troubleshooting: IP Ports
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import counted, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure, Seen

# What libfabric says when packets to the peer are dropped: on EFA that is the security group.
_EFA_UNREACHED = re.compile(
    r"completed with error.*RC: 20\b|unreachable remote|unresponsive re|insert remote addr", re.I
)
# Addresses that only mean something on the machine that announced them.
_NO_ADDRESS = re.compile(r"^(?:127\.|169\.254\.|\[?::1|\[?fe80:)")
# The release from which connections are made after init, at the first collective.
_RUNTIME_CONNECT = 22203

_OPEN = "open all TCP ports between the hosts of the job (firewall-cmd --zone=trusted --add-source=<subnet>)"
# (words of the error, what they mean, what to do)
_MEANINGS = [
    ("refused", "nothing listens there: the peer died or has not started, or a firewall rejects",
     f"read the peer's log first; then nc -vz <ip> <port> while the job waits, and {_OPEN}"),
    ("timed out", "packets are dropped: a firewall, or an address that is not routed between the hosts",
     f"nc -vz <ip> <port> and ip route get <ip> from the failing host; {_OPEN}"),
    ("no route", "the host is not routed, or its firewall rejects",
     f"ip route get <ip> from the failing host; {_OPEN}; NCCL_SOCKET_IFNAME=<interface of the common network>"),
    ("unreachable", "the network is not routed",
     "ip route get <ip> from the failing host; NCCL_SOCKET_IFNAME=<interface of the common network> on all hosts"),
]  # fmt: skip
_UNKNOWN = ("the way to the peer is closed", f"nc -vz <ip> <port> from the failing host while the job waits; {_OPEN}")
_CATEGORIES = ("socket_connect_gaveup", "socket_connect_failed", "syscall_failed")
_NEEDS_END = "connections are being retried where the input ends: 'Connected all rings' or 'exceeded' would tell"
_NEEDS_LINES = "'Init COMPLETE' or 'Connected all rings': the input shows no attempt to connect"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    given_up = [failure for failure in facts.failures(*_CATEGORIES) if _gave_up(failure)]
    by_error: dict[str, list[Failure]] = {}
    for failure in given_up:
        by_error.setdefault(_error(facts, failure), []).append(failure)
    for error, failures in by_error.items():
        yield _finding(estimator, error, failures)
    dropped = [seen for seen in facts.notes("net_ofi_message") if _EFA_UNREACHED.search(seen.value)]
    if dropped:
        yield _security_group(estimator, dropped)
    if not given_up and not dropped and not _connected(facts):
        yield NotEvaluated(_NEEDS_END if _retries(facts) else _NEEDS_LINES)


def _gave_up(failure: Failure) -> bool:
    """The attempt ended: retries are INFO and prove nothing, and RAS binds without need."""
    if failure.category == "syscall_failed":
        return failure.level == "WARN" and failure.fields.get("call", "").startswith("connect")
    return failure.level == "WARN"


def _retries(facts: Facts) -> list[tuple[str, tuple[str, ...]]]:
    """Errors that were met and tried again, with their machines."""
    retried = [(seen.value, seen.machines) for seen in facts.notes("socket_connect_retry")]
    retried += [
        (failure.fields.get("errno_text", ""), failure.machines)
        for failure in facts.failures("syscall_retry")
        if failure.fields.get("call") == "connect"
    ]
    return retried


def _error(facts: Facts, failure: Failure) -> str:
    """The error of an attempt; releases that only count retries name it in the retries before."""
    if "errno_text" in failure.fields:
        return failure.fields["errno_text"]
    met = [error for error, machines in _retries(facts) if {*machines} & {*failure.machines}]
    return met[-1] if met else ""


def _connected(facts: Facts) -> bool:
    """Did the connections come about after all?"""
    if facts.rings_connected:
        return True
    done = bool(facts.communicators) and all(one.completed >= len(one.ranks) for one in facts.communicators)
    if _retries(facts):
        return done and bool(facts.releases) and facts.releases[-1] < _RUNTIME_CONNECT
    return done or bool(facts.edges)


def _finding(estimator: Estimator, error: str, failures: list[Failure]) -> Finding:
    machines = machines_of(failures)
    peer = next((failure.fields["peer"] for failure in failures if "peer" in failure.fields), "")
    meaning, fix = _meaning(error, peer)
    times = sum(failure.count for failure in failures)
    more = f", and {counted(times - 1, 'more connection')}" if times > 1 else ""
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"{place(machines, 'A rank')} could not connect to {peer or 'a peer'}{more}"
        f" ({error or 'gave up after all retries'}): {meaning}",
        fix,
        {"hosts": machines},
        evidence_of(failures),
        **stopped(estimator),
    )


def _meaning(error: str, peer: str) -> tuple[str, str]:
    if _NO_ADDRESS.match(peer):
        return (
            "the peer announced an address that no other host can reach",
            "NCCL_SOCKET_IFNAME=<interface of the common network> on all hosts, so that 'Bootstrap : Using' shows it",
        )
    return next(((meaning, fix) for word, meaning, fix in _MEANINGS if word in error.lower()), _UNKNOWN)


def _security_group(estimator: Estimator, dropped: list[Seen]) -> Finding:
    machines = machines_of(dropped)
    return RULE.finding(
        Severity.ERROR,
        Confidence.MEDIUM,
        f"EFA requests of {place(machines, 'a rank')} did not reach the peer: usually the security group does not allow"
        " the traffic",
        "AWS: allow all traffic, inbound and outbound, from and to the security group itself (by its id: 0.0.0.0/0 does"
        " not cover EFA)",
        {"hosts": machines},
        evidence_of(dropped),
        **stopped(estimator),
    )


RULE = Rule(
    code="HST005",
    name="firewall-or-route",
    severity=Severity.ERROR,
    summary="Connections between hosts are refused, time out or have no route, and the job stops on it",
    check=check,
    since="0.1.0",
    caused_by=("NET002",),
)
