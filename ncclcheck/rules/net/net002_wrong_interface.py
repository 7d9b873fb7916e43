"""The interface that NCCL announces to its peers leads nowhere, or is not the one that was meant.

## What it finds

Every rank announces the address of one interface: the first of its list, which `Bootstrap : Using` names. The rule
looks at that choice in jobs of several machines:
- it is the loopback, a bridge (`docker0`, `br-...`, `virbr0`), the host's end of a container (`veth`, `cali`), an
  interface of the cluster's own network (`nodelocaldns`, `kube-ipvs0`, `flannel.1`), a VPN, a wireless link or the
  link to the management controller;
- ranks give up connecting to such an address: `Connect to 127.0.0.1<...> failed`, 169.254.20.10 (node-local DNS),
  172.17.0.1;
- no interface fits `NCCL_SOCKET_IFNAME`: `Bootstrap : no socket interface found` (Gloo of `GLOO_SOCKET_IFNAME`:
  `Unable to find address for: eth9`);
- some machines of a communicator announce the fabric (`ib0`, `hsn0`), others Ethernet;
- `NCCL_SOCKET_IFNAME=ib0` has caught `ib0.8001`, the interface of a partition, because names are prefixes.

Where nothing is set NCCL takes the first interface that is up and has an address: `ib*` first, `docker*` and `lo`
(from 2.28.3 `virbr*` as well) only if there is no other. A list that begins with `^` **replaces** these exclusions:
`NCCL_SOCKET_IFNAME=^docker0` lets the loopback in.

It is an error if ranks give up on it, a warning if the job may live with it, and information where RDMA carries the
data and bootstrap has worked.

## Why it costs

Usually the job stops: all peers connect to themselves, or to nothing. Refused connections end after 20 to 60 s,
dropped ones after minutes, with all GPUs idle. If the interface does lead to the peers and the data goes over
sockets, it sets the pace: a wireless link or a VPN carries 1 Gb/s at best, 0.12 GB/s for the whole node, where 25 GbE
carries 3.

## Example

    ml-07:4051:4051 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>
    ml-07:4051:4090 [0] misc/socket.cc:121 NCCL WARN Net : Connect to 172.17.0.1<43311> failed : Connection refused

## How to fix

1. `ip -br -4 addr` on two machines: take the interface of their common network.
2. `NCCL_SOCKET_IFNAME==eth0` (exactly that), `NCCL_SOCKET_IFNAME=eth` (all that begin so), a list where machines
   differ (`bond0,eth0`), or exclusions (`^lo,docker,virbr,veth,br-`). The launcher must hand it to all ranks: `mpirun
   -x`, the pod's `env`, `/etc/nccl.conf` where it differs by machine.
3. Container without `--network=host`: its addresses are not reached from other machines; use the host's network or an
   overlay that is routed.
4. `Bootstrap : Using` must show that interface on all machines.

## When it is not a problem

One machine. Interfaces that are only listed behind the first one. A subnet per node, or per rack, in a routed
network. IPv6 link-local addresses on a flat network. `ib0` or `hsn0` for bootstrap: IPoIB is right for it. The pod's
`eth0`.

## References

- NVIDIA/nccl issues 286, 331, 697, 1837; NVIDIA/nccl-tests issue 9: prefixes
- NCCL sources: `src/misc/socket.cc` (ncclFindInterfaces), `src/bootstrap.cc` (bootstrapNetInit)
- NCCL user guide, Environment Variables: NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY, NCCL_COMM_ID, NCCL_OOB_NET_IFNAME
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.interfaces import Interface, announced, astray_devices, unreachable_peers
from ncclcheck.rules.common import Numbers, compared, listed, no_number, place, stopped, tcp_networks
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.interfaces import Unreachable
    from ncclcheck.facts.seen import Communicator, Failure, Seen

_VARIABLE = "NCCL_SOCKET_IFNAME"
_FIX = (
    "NCCL_SOCKET_IFNAME=<interface of the common network> on all machines (ip -br -4 addr shows them), so that"
    " 'Bootstrap : Using' names it"
)
_FIX_MISSING = (
    "ip -br addr on that machine, in the container too; then set NCCL_SOCKET_IFNAME to a name (or its beginning) that"
    " is there, or unset it; where machines differ list both: NCCL_SOCKET_IFNAME=bond0,eth0"
)
# An address that came from nowhere: no interface fitted, and releases 2.24 to 2.27 did not say so.
_NO_FAMILY = re.compile(r"with family \d+ is neither AF_INET")
_PARTITION = re.compile(r"(ib\w*)\.[0-9a-f]{4}$")
_GAVE_UP = ("socket_connect_gaveup", "socket_connect_failed", "syscall_failed")
_NEEDS_LINES = "the line 'Bootstrap : Using ...' (NCCL_DEBUG=INFO)"
_NEEDS_SIZE = (
    "{} is announced, which matters between machines: the line 'comm ... nRanks N nNodes M' (NCCL 2.20.3+) or channel"
    " lines would tell whether there are several"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    missing, gloo = _nothing_fits(facts), facts.notes("gloo_no_interface")
    if missing:
        yield _finding_missing(facts, estimator, missing)
    elif gloo:
        yield _finding_gloo(estimator, gloo)
    if facts.crossing.answer is Answer.NO:
        return
    interfaces = announced(facts)
    astray = [interface for interface in interfaces if interface.astray]
    peers = [peer for peer in unreachable_peers(facts) if _proves(facts, peer, astray)]
    yield from _partitions(facts, interfaces)
    if peers or (astray and _gave_up(facts) and _several(facts)):
        yield _finding_stopped(facts, estimator, peers, astray)
    elif astray and facts.crossing.answer is Answer.UNKNOWN and not (_spans(facts, astray) or _retried(facts)):
        yield NotEvaluated(_NEEDS_SIZE.format(astray[0].name))
    elif astray:
        yield _finding_astray(facts, estimator, astray)
    elif devices := _devices_astray(facts):
        yield _finding_devices(facts, estimator, devices)
    elif apart := _kinds_apart(facts, interfaces):
        yield _finding_apart(facts, estimator, apart)
    elif not interfaces and not missing and not gloo:
        yield NotEvaluated(_NEEDS_LINES)


def _nothing_fits(facts: Facts) -> list[Failure]:
    """Failures of the search for an interface. A search that was told to look for another device goes on."""
    failures = [one for one in facts.failures("no_interface") if one.level == "WARN"]
    if facts.settings(_VARIABLE) and len(facts.releases) < 2:  # releases that differ misread each other's addresses
        found = {machine for interface in announced(facts) for machine in interface.machines}
        warnings = [one for one in facts.failures("warn") if _NO_FAMILY.search(one.fields.get("text", ""))]
        failures += [one for one in warnings if not {*one.machines} & found]
    return failures


def _gave_up(facts: Facts) -> list[Failure]:
    """Connections that failed for good: what is tried again is INFO."""
    failures = [one for one in facts.failures(*_GAVE_UP) if one.level == "WARN"]
    return [
        one for one in failures if one.category != "syscall_failed" or one.fields.get("call", "").startswith("connect")
    ]


def _several(facts: Facts) -> bool:
    return facts.crossing.answer is Answer.YES or len(facts.machines) > 1


def _spans(facts: Facts, astray: Sequence[Interface]) -> bool:
    """Is a machine with such an interface in a communicator with others? Bootstrap goes between machines even where
    NVLink joins them."""
    there = {machine for interface in astray for machine in interface.machines}
    return any(len(one.machines) > 1 and there & {*one.machines} for one in facts.communicators if not one.ambiguous)


def _retried(facts: Facts) -> bool:
    """Do ranks try again and again to connect, in an input of several machines?"""
    retries = facts.notes("socket_connect_retry") or facts.failures("syscall_retry")
    return len(facts.machines) > 1 and bool(retries)


def _proves(facts: Facts, peer: Unreachable, astray: Sequence[Interface]) -> bool:
    """The loopback is right on one machine: a connection to it proves nothing where there may be only one."""
    return _several(facts) or not peer.address.startswith(("127.", "::1")) or not (astray or facts.machines)


def _works(facts: Facts, machines: Sequence[str]) -> bool:
    """Has bootstrap done its work: any rank that is past the first exchange."""
    users = [one for one in facts.communicators if not machines or {*one.machines} & {*machines}]
    past = any(one.completed or one.nnodes for one in users)
    return past or bool(facts.net_edges()) or facts.rings_connected


def _finding_missing(facts: Facts, estimator: Estimator, missing: list[Failure]) -> Finding:
    machines = machines_of(missing)
    values = [seen for seen in facts.settings(_VARIABLE) if not machines or {*seen.machines} & {*machines}]
    asked = listed(list(dict.fromkeys(seen.value for seen in values)))
    filters = [one.fields["text"] for one in missing if one.category == "no_interface" and "text" in one.fields]
    peers = [one.fields["peer"] for one in missing if "peer" in one.fields]
    if filters:
        what, variable = f"no device {filters[0]}", "NCCL_OOB_NET_IFNAME"
    elif peers:
        what, variable = f"no interface is in the subnet of {peers[0]}, the address in NCCL_COMM_ID", "NCCL_COMM_ID"
    else:
        what = f"no interface fits {_VARIABLE}={asked}" if asked else "no interface is up and has an address"
        variable = _VARIABLE
    return _finding(
        Severity.ERROR,
        Confidence.HIGH if any(one.category == "no_interface" for one in missing) else Confidence.MEDIUM,
        f"NCCL cannot start on {place(machines, 'a machine')}: {what}",
        _FIX_MISSING,
        machines,
        evidence_of([*missing, *values]),
        stopped(estimator),
        (variable,) if asked or variable != _VARIABLE else (),
    )


def _finding_gloo(estimator: Estimator, gloo: Sequence[Seen]) -> Finding:
    machines = machines_of(gloo)
    names = listed(list(dict.fromkeys(seen.value for seen in gloo)))
    return _finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"Gloo, which sets up the process group, finds no interface {names} on {place(machines, 'a machine')}",
        "GLOO_SOCKET_IFNAME=<interface that is there> (ip -br addr, in the container too), and the same for"
        " NCCL_SOCKET_IFNAME; or unset both",
        machines,
        evidence_of(gloo),
        stopped(estimator),
        ("GLOO_SOCKET_IFNAME",),
    )


def _finding_stopped(
    facts: Facts, estimator: Estimator, peers: Sequence[Unreachable], astray: Sequence[Interface]
) -> Finding:
    told = sorted({machine for peer in peers for machine in peer.machines})
    guilty = sorted({machine for interface in astray for machine in interface.machines})
    if peers:
        told_to = f"{place(told, 'A rank')} is told to connect to {peers[0].address} ({peers[0].words})"
        message = f"{told_to} and fails: no other machine reaches that address"
    else:
        message = f"{_announce(guilty)} {_named(astray)}, and ranks give up connecting: no other machine reaches it"
    failures = [] if peers else _gave_up(facts)
    evidence = [*(line for peer in peers for line in peer.evidence[:2]), *_lines(astray), *evidence_of(failures, 2)]
    sure = bool(astray) and _several(facts)
    return _finding(
        Severity.ERROR,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        message + _why(facts, astray),
        _FIX,
        (*guilty, *(machine for machine in told if machine not in guilty)),
        tuple(evidence[:4]),
        stopped(estimator),
    )


def _finding_astray(facts: Facts, estimator: Estimator, astray: Sequence[Interface]) -> Finding:
    machines = tuple(sorted({machine for interface in astray for machine in interface.machines}))
    others = [one.name for one in announced(facts) if not one.astray and not {*one.machines} & {*machines}]
    slow, works = bool(tcp_networks(facts)), _works(facts, machines)
    only_bootstrap = works and bool(facts.networks or facts.net_edges()) and not slow
    more = f"; other machines announce {listed(others)}" if others else ""
    if only_bootstrap:
        cost, numbers = "only bootstrap depends on it", no_number("RDMA carries the data: bootstrap alone is slower")
    else:
        far = all(interface.kind in ("vpn", "wireless", "cluster") for interface in astray)
        reach = "other machines may not reach it" if far else "no other machine reaches it"
        cost = "it sets the pace of the traffic between machines" if works else reach
        numbers = _numbers(estimator, astray) if slow else no_number("the input does not tell what carries the data")
    return _finding(
        Severity.INFO if only_bootstrap else Severity.WARNING,
        Confidence.HIGH if facts.crossing.confidence == "high" and works else Confidence.MEDIUM,
        f"{_announce(machines)} {_named(astray)} to all peers: {cost}{more}{_why(facts, astray)}",
        _FIX,
        machines,
        tuple(_lines(astray)[:4]),
        numbers,
    )


def _numbers(estimator: Estimator, astray: Sequence[Interface]) -> Numbers:
    if any(interface.kind in ("vpn", "wireless") for interface in astray):
        rate = estimator.hardware.tcp.wireless_gbit
        return compared(estimator, {"network": "socket"}, {"network": "socket", "tcp_gbit": rate})
    return no_number("whether the interface leads to the peers at all is not in the input")


def _devices_astray(facts: Facts) -> list[str]:
    """Devices of sockets that channels go over, though no other machine is reached over them."""
    used = {device for edge in facts.net_edges() if edge.network == "Socket" for device in edge.devices}
    return sorted(used & astray_devices(facts))


def _finding_devices(facts: Facts, estimator: Estimator, devices: Sequence[str]) -> Finding:
    edges = [edge for edge in facts.net_edges() if {*edge.devices} & {*devices}]
    return _finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"Channels between machines go over {listed(devices)}, which no other machine is reached over",
        _FIX,
        machines_of(edges),
        evidence_of(edges),
        no_number("whether the interface leads to the peers at all is not in the input"),
    )


def _kinds_apart(facts: Facts, interfaces: Sequence[Interface]) -> tuple[Interface, Interface] | None:
    """The fabric on some machines of a communicator, Ethernet on others: the fewer first."""
    across = [one for one in facts.communicators if one.crossing.answer is Answer.YES and not one.ambiguous]
    for communicator in across:
        fabric = _of(interfaces, "fabric", communicator)
        ethernet = _of(interfaces, "ethernet", communicator)
        if fabric and ethernet and not {*fabric.machines} & {*ethernet.machines}:
            return (fabric, ethernet) if len(fabric.machines) < len(ethernet.machines) else (ethernet, fabric)
    return None


def _of(interfaces: Sequence[Interface], kind: str, communicator: Communicator) -> Interface | None:
    """Interfaces of that kind on machines of a communicator, as one."""
    there = [one for one in interfaces if one.kind == kind and {*one.machines} & {*communicator.machines}]
    if not there:
        return None
    machines = sorted({machine for one in there for machine in one.machines} & {*communicator.machines})
    names = listed(list(dict.fromkeys(one.name for one in there)))
    return Interface(names, there[0].address, kind, there[0].words, tuple(machines), tuple(_lines(there)))


def _finding_apart(facts: Facts, estimator: Estimator, apart: tuple[Interface, Interface]) -> Finding:
    few, many = apart
    machines = few.machines
    slow, works = bool(tcp_networks(facts)), _works(facts, machines)
    only_bootstrap = works and bool(facts.networks) and not slow
    fails = not works and bool(_gave_up(facts))
    severity = Severity.ERROR if fails else Severity.INFO if only_bootstrap else Severity.WARNING
    return _finding(
        severity,
        Confidence.HIGH if works else Confidence.MEDIUM,
        f"{_announce(machines)} {few.name} ({few.words}), the others {many.name} ({many.words}):"
        + (" only bootstrap depends on it" if only_bootstrap else " the two must be routed, and the slower one counts"),
        _FIX,
        machines,
        (*few.evidence[:2], *many.evidence[:2]),
        stopped(estimator) if fails else no_number("the rates of the two interfaces are not in the input"),
    )


def _partitions(facts: Facts, interfaces: Sequence[Interface]) -> Iterator[Finding]:
    """The name of the parent has caught the interface of a partition."""
    asked = {name for seen in facts.settings(_VARIABLE) for name in seen.value.split(",")}
    caught = [one for one in interfaces if (match := _PARTITION.match(one.name)) and match[1] in asked]
    if caught:
        parent = caught[0].name.partition(".")[0]
        yield _finding(
            Severity.INFO,
            Confidence.MEDIUM,
            f"NCCL_SOCKET_IFNAME={parent} is a prefix and has caught {caught[0].name}, an interface of an InfiniBand"
            f" partition: RDMA uses that partition only with the NCCL_IB_PKEY that fits",
            f"NCCL_SOCKET_IFNAME=={parent} for exactly that interface; NCCL_IB_PKEY=<index in"
            " /sys/class/infiniband/<hca>/ports/1/pkeys> for the partition",
            caught[0].machines,
            tuple(_lines(caught)[:4]),
            no_number("it costs nothing where both networks work"),
            (_VARIABLE,),
            ("ENV007",),
        )


def _announce(machines: Sequence[str]) -> str:
    return f"{place(machines, 'A machine')} announce{'' if len(machines) > 1 else 's'}"


def _named(interfaces: Sequence[Interface]) -> str:
    first = interfaces[0]
    at = f" at {first.address}" if first.address else ""
    more = f" and {len(interfaces) - 1} more" if len(interfaces) > 1 else ""
    return f"{first.name} ({first.words}{at}){more}"


def _why(facts: Facts, astray: Sequence[Interface]) -> str:
    """A list of exclusions replaces NCCL's own."""
    excluding = [seen.value for seen in facts.settings(_VARIABLE) if seen.value.startswith("^")]
    return f" (NCCL_SOCKET_IFNAME={excluding[0]} replaces NCCL's own exclusions)" if astray and excluding else ""


def _lines(interfaces: Sequence[Interface]) -> list[Evidence]:
    return [line for interface in interfaces for line in interface.evidence[:2]]


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    machines: Sequence[str],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
    variable: tuple[str, ...] = (),
    causes: tuple[str, ...] = (),
) -> Finding:
    subject = {"hosts": tuple(machines)} | ({"variable": variable} if variable else {})
    return RULE.finding(severity, confidence, message, fix, subject, evidence, causes=causes, **numbers)


RULE = Rule(
    code="NET002",
    name="wrong-interface",
    severity=Severity.WARNING,
    summary="The interface that NCCL announces to its peers leads nowhere, or is not the one that was meant",
    check=check,
    since="0.1.0",
)
