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
6. Refused: the peer died or has not started; look at its log first (RUN010, RUN003).

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

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.rules.model import Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    raise NotImplementedError


RULE = Rule(
    code="HST005",
    name="firewall-or-route",
    severity=Severity.ERROR,
    summary="Connections between hosts are refused, time out or have no route, and the job stops on it",
    check=check,
    since="0.1.0",
)
