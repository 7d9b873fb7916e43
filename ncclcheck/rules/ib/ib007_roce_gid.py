"""RoCE cannot reach its peer: a GID is missing, of the wrong kind, or was changed.

## What it finds

A queue pair of RoCE needs a row of the port's GID table that its peer can reach. What fails says why:

- `ibv_modify_qp failed`, 110 Connection timed out, next state RTR: nobody answers for the peer's address (wrong kind of
  GID, VLAN, firewall, dead peer).
- 22 Invalid argument: the row is empty, or the GIDs of the two ends are of different kinds.
- 101 Network is unreachable, 113 No route to host: no route to the peer's address from this network name space.
- 19 No such device: no network interface behind the GID in this name space (containers).
- `ibv_query_gid failed`: the index is beyond the table.
- Status 12 with `localGid fe80::...`: requests leave from a link-local address, which does not cross a router.
- `GID table change` on a RoCE port and failures beside it: an address was added or removed while queue pairs used the
  table. Without failures: information.

- `show_gids` has no row at NCCL_IB_GID_INDEX, or a link-local one, on a device that the machine lists as RoCE and that
  has a routable row; asked only where the log does not show that the job connects all the same.

2.24.3 and newer print device, state, index and both GIDs; 2.19.1 to 2.23.4 the number of the error; older releases its
words.

## Why it costs

The connection is not made and NCCL does not fall back to TCP: the communicator fails, all ranks stop. From 2.24.3 on
NCCL tries a timed-out transition 34 times, 0.1 s apart, so the message may stand in the log long before the end.

## Example

    pod-b-2:511:602 [3] misc/ibvwrap.cc:318 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev
    mlx5_2:1, curr state INIT, next state RTR, local GID index 1, local GID fe80::9a03:9bff:fe4d:1e20, remote GID
    ::ffff:10.44.2.7

Index 1 is link-local here while the peer uses its IPv4 address.

## How to fix

    show_gids mlx5_2                    # the row of version v2 with the routable IPv4 address is the one
    ibv_devinfo -v -d mlx5_2 | grep GID
    rdma link show; ip -d addr show     # is the interface behind the device up, and in this name space?
    ib_write_bw -d mlx5_2 -x <index> <peer>

- NCCL 2.21.5 and newer choose the row: unset NCCL_IB_GID_INDEX, and set NCCL_IB_ADDR_RANGE or NCCL_IB_ADDR_FAMILY if
  a port has several addresses. Before, index 0 is the default, which is link-local RoCE v1: set the index of the
  routable v2 row (often 3), the same row on all hosts.
- Containers: the network interface of the device must be in the container's name space, not only /dev/infiniband:
  `hostNetwork: true`, or SR-IOV with the RDMA CNI in exclusive mode (`rdma system show`).
- 110 with right GIDs: `ping -I <interface> <peer's address>`, VLAN and MTU of the switch ports, ARP, firewall on UDP
  4791.
- Table changes: who sets addresses while the job runs (NetworkManager, a CNI, DHCP renewal, bond failover)?
- InfiniBand instead: port state and LID (`ibstat`), partition (`NCCL_IB_PKEY` is an index), MTU.

## When it is not a problem

A fixed NCCL_IB_GID_INDEX that works. Link-local GIDs on InfiniBand, or on a flat RoCE network without failures. GID
table events on InfiniBand, where the subnet manager sets the table; on RoCE without failures they are information: most
add a row and leave the one in use.

## References

- NVIDIA/nccl issue 426: RoCE GID; 1353, 905: what follows
- NCCL sources: `src/misc/ibvwrap.cc` (ibv_modify_qp), `src/transport/net_ib/connect.cc` (choice of the GID)
- NCCL user guide, Environment Variables: NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE,
  NCCL_IB_ROCE_VERSION_NUM, NCCL_IB_PKEY
- ibv_modify_qp(3); rdma-link(8)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.gids import WrongRow, wrong_rows
from ncclcheck.facts.ports import PortEvents, port_events
from ncclcheck.facts.verbs import VerbsFailure, verbs_failures
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed)"

_ENODEV, _EINVAL, _ENETUNREACH, _ETIMEDOUT, _EHOSTUNREACH = 19, 22, 101, 110, 113
_NO_ANSWER = 12  # status of a completion
# From this release on NCCL looks for a routable GID; before it takes the first row.
_CHOOSES_FROM = 22105

_MEANING = {
    _ENODEV: "no network interface stands behind the GID in this network name space",
    _EINVAL: "the GID is not there, or of another kind than the peer's",
    _ENETUNREACH: "there is no route to the peer's address",
    _EHOSTUNREACH: "there is no route to the peer's address",
    _ETIMEDOUT: "nobody answers for the peer's address",
}
_FIX = {
    _ENODEV: "rdma link show and ip -d addr in the container: the interface of the device must be in its name space"
    " (hostNetwork: true, or SR-IOV with the RDMA CNI and `rdma system set netns exclusive`)",
    _ETIMEDOUT: "show_gids on both hosts; ping -I <interface> <peer>; same VLAN and MTU, UDP 4791 open;"
    " ib_write_bw -d <hca> -x <index> <peer>",
    _ENETUNREACH: "ip route get <peer's address> in the container, show_gids on both hosts: a gateway per rail where"
    " subnets differ (policy routing)",
}
_FIX_ROW = "show_gids on both hosts: the row of version v2 with the routable IPv4 address, the same on all hosts"
_FIX_CHOICE = "; unset NCCL_IB_GID_INDEX (NCCL 2.21.5 and newer choose the row; NCCL_IB_ADDR_RANGE narrows the choice)"
_FIX_INDEX = "; NCCL_IB_GID_INDEX=<that row> (NCCL before 2.21.5 takes row 0)"
_FIX_IB = "ibstat (State, LID) on both hosts, NCCL_IB_PKEY (an index into the partition table), MTU; ibping the peer"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    groups: dict[str, list[VerbsFailure]] = {}
    for failure in verbs_failures(facts):
        if meaning := _meaning(failure):
            groups.setdefault(meaning, []).append(failure)
    for meaning, failures in groups.items():
        yield _finding(facts, estimator, meaning, failures)
    if not groups and not facts.rings_connected:
        yield from _by_table(facts, estimator)
    changes = [event for event in port_events(facts) if event.kind == "gid" and _is_roce(facts, event)]
    if changes:
        yield _changed(facts, estimator, changes, bool(groups or facts.failed_completions))
    elif not groups and not facts.visibility.info and not facts.failures():
        yield NotEvaluated(_NEEDS)


def _by_table(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """Rows that NCCL_IB_GID_INDEX points at, by the machine's own table."""
    by_problem: dict[str, list[WrongRow]] = {}
    for row in wrong_rows(facts):
        by_problem.setdefault(row.problem, []).append(row)
    for problem, rows in by_problem.items():
        machines = machine_names(rows)
        devices = tuple(sorted({row.device for row in rows}))
        common = set(rows[0].right).intersection(*(row.right for row in rows))
        absent = problem == "absent"
        index = (
            f"NCCL_IB_GID_INDEX={min(common)}" if common else "unset NCCL_IB_GID_INDEX (NCCL 2.21.5 and newer choose)"
        )
        link_local = no_number("a link-local address works within one subnet, and not beyond it")
        yield RULE.finding(
            Severity.ERROR if absent else Severity.WARNING,
            Confidence.HIGH if absent else Confidence.MEDIUM,
            f"NCCL_IB_GID_INDEX={rows[0].row} is {'no row' if absent else 'a link-local row'} of the GID table of"
            f" {listed(devices)} on {place(machines, 'a machine')}",
            f"{index}: RoCE v2 with an IPv4 address, by show_gids; the same on all hosts",
            {"hosts": machines, "devices": devices, "variable": ("NCCL_IB_GID_INDEX",)},
            evidence_of(rows),
            **(stopped(estimator) if absent else link_local),
        )


def _meaning(failure: VerbsFailure) -> str:
    """What the failure says of the GIDs; "" where it is about something else."""
    if failure.call == "ibv_query_gid":
        return "the GID table has no such row"
    no_answer = failure.call == "completion" and failure.status == _NO_ANSWER
    if not no_answer and (failure.call != "ibv_modify_qp" or failure.errno not in _MEANING):
        return ""
    local, remote = failure.local, failure.remote
    if local == "none" or remote == "none":
        return "the GID of one end is empty"
    if local and remote and local != remote:
        return f"the ends have GIDs of different kinds, {local} and {remote}"
    if "link-local" in (local, remote):
        return "the GIDs are link-local, which no router forwards"
    return "" if no_answer else _MEANING[failure.errno]


def _finding(facts: Facts, estimator: Estimator, meaning: str, failures: Sequence[VerbsFailure]) -> Finding:
    machines = machines_of(failures)
    devices = sorted({device for failure in failures for device in failure.devices})
    on = f", {listed(devices)}," if devices else ""
    infiniband = _links(facts, machines) == {"IB"}
    first = failures[0]
    if infiniband and not first.local:  # GIDs are printed where they are in use
        meaning = "InfiniBand: port state, partition or MTU rather than a GID"
    return RULE.finding(
        Severity.ERROR,
        Confidence.MEDIUM if infiniband else Confidence.HIGH,
        f"On {place(machines, 'a rank')}{on} {_what(first)}{_ends(first)}: {meaning}",
        _FIX_IB if infiniband else _fix(facts, first),
        {"hosts": machines, "devices": tuple(devices)},
        evidence_of(failures),
        **stopped(estimator),
    )


def _what(failure: VerbsFailure) -> str:
    if failure.call == "completion":
        return "RDMA requests get no answer (status 12"
    words = f"{failure.errno} {failure.words}" if failure.errno else failure.words
    if failure.call == "ibv_query_gid":
        return f"a GID cannot be read ({failure.call}: {words}"
    state = f" to {failure.next_state}" if failure.next_state else ""
    return f"a queue pair cannot be set up ({failure.call}{state}: {words}"


def _ends(failure: VerbsFailure) -> str:
    """Index and GIDs as printed, and the bracket's end."""
    index = "" if failure.gid_index is None else f" index {failure.gid_index}"
    ends = " to ".join(gid for gid in failure.gids if gid)
    return f"; GID{index} {ends})" if index or ends else ")"


def _fix(facts: Facts, failure: VerbsFailure) -> str:
    right_kinds = failure.local == failure.remote and failure.local in ("", "IPv4", "IPv6")
    fixed = _FIX.get(_ENETUNREACH if failure.errno == _EHOSTUNREACH else failure.errno)
    if fixed and right_kinds and (failure.local or failure.errno != _ETIMEDOUT):
        return fixed
    old = bool(facts.releases) and facts.releases[0] < _CHOOSES_FROM
    return _FIX_ROW + (_FIX_INDEX if old else _FIX_CHOICE)


def _links(facts: Facts, machines: Sequence[str]) -> set[str]:
    """Link layers of the devices that these machines list."""
    return {nic.link for machine in machines for nic in facts.nic_lists.get(machine, ()) if nic.link}


def _is_roce(facts: Facts, event: PortEvents) -> bool:
    """Not where the lists say InfiniBand: its subnet manager sets the table."""
    nics = facts.nic_lists.get(event.machine, ())
    mine = [nic for nic in nics if event.device in nic.name.split("+")] or nics
    return not mine or any(nic.link == "RoCE" for nic in mine)


def _changed(facts: Facts, estimator: Estimator, changes: Sequence[PortEvents], failed: bool) -> Finding:
    machines = machine_names(changes)
    devices = tuple(sorted({event.device for event in changes if event.device}))
    on = f" on {listed(devices)}" if devices else ""
    sure = _links(facts, machines) == {"RoCE"}
    after = (
        "and RDMA failed: queue pairs keep the row that they started with" if failed else "and nothing failed so far"
    )
    numbers = stopped(estimator) if failed else no_number("a change that leaves the row in use costs nothing")
    return RULE.finding(
        Severity.ERROR if failed else Severity.INFO,
        Confidence.HIGH if sure and not failed else Confidence.MEDIUM,
        f"The GID table of {place(machines, 'a machine')} changed{on} while the job was connected, {after}",
        "ip monitor address and journalctl -u NetworkManager on the machine: what sets addresses while jobs run (CNI,"
        " DHCP, bond failover)? Make the addresses of RDMA interfaces static",
        {"hosts": machines, "devices": devices},
        evidence_of(changes),
        **numbers,
    )


RULE = Rule(
    code="IB007",
    name="roce-gid",
    severity=Severity.ERROR,
    summary="RoCE cannot reach its peer: a GID is missing, of the wrong kind, or was changed",
    check=check,
    since="0.1.0",
)
