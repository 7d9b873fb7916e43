"""Net devices of different kinds stand in one list: InfiniBand and RoCE, bonds and single ports, slow ports.

## What it finds

In one machine's `NET/IB : Using` list, joined over its ranks:

- InfiniBand and RoCE ports together (`/IB` and `/RoCE`),
- a bond (`mlx5_bond_0`) beside single ports,
- ports of a lower rate beside faster ones, where rates are printed (2.27.3 and newer, subsystem NET),
- more than 20 devices: virtual functions of the whole host (SR-IOV).

From `nvidia-smi topo -m`: adapters on no GPU's PCIe switch while every GPU has another one on its own (front end,
storage), unless the lists in the same input leave them out. Information.

It is a warning when such a device carries channels between machines, or when NCCL says that it cannot connect devices
of different link layers (`Attempted to connect incompatible devices`, 2.26.2 and newer; `net devices with different
link_layer`, 2.20.3 to 2.25.1). Merely listed it is information.

## Why it costs

NCCL pairs devices by distance and by channel, not by fabric. InfiniBand and RoCE do not talk to each other: the
connection fails and the job stops. If all hosts pair alike the job runs, with one rail as slow as a front-end port (25
to 100 Gb/s beside 400), and every rail of a ring waits for the slowest. A bond puts all traffic of a queue pair on one
of its legs: 240 of 400 Gb/s were measured on one. Storage and front-end networks feel the traffic as well.

## Example

    ndr-17:30511:30588 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_bond_0:1/RoCE [RO]; OOB ...
    ndr-17:30511:30588 [0] NCCL INFO Channel 02/0 : 7[7] -> 8[0] [send] via NET/IB/2/GDRDMA

Channel 2 leaves by the front-end bond.

## How to fix

Name the compute rails, whole names, the same on all machines:

    export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3     # the first = asks for exact names
    export NCCL_IB_HCA=^=mlx5_bond_0                    # or keep one out

    ibdev2netdev; ibstat | grep -E "CA '|Rate|layer"    # which is which
    nvidia-smi topo -m                                  # PIX or PXB to a GPU: a compute rail

In Kubernetes give the pod its own devices (`rdma/<resource>`), not all functions of the host.

## When it is not a problem

Every device a bond, on every host: a design. Devices merged by NCCL (`mlx5_0+mlx5_1`): the two ports of one card.
Front-end ports in the list that no channel uses cost nothing: information. One machine: no device carries anything.

## References

- NCCL sources: `src/transport/net_ib/connect.cc`, `src/transport/net_ib/init.cc` (merging)
- NCCL user guide, Environment Variables: NCCL_IB_HCA, NCCL_IB_MERGE_NICS
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.hcas import Hca, Listing, listings, used_devices
from ncclcheck.facts.matrix import NEAR, Matrix
from ncclcheck.rules.common import carried, compared, listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

# More than any machine has ports for its GPUs.
_MANY = 20

_NAMES = {"IB": "InfiniBand", "RoCE": "RoCE"}
_BROKEN = re.compile(r"net devices with different link_layer|different link_layer properties")
_FIX = (
    "NCCL_IB_HCA==<compute rails by whole name> on all machines (the first '=' asks for exact names), or"
    " NCCL_IB_HCA=^={} to exclude; ibdev2netdev and nvidia-smi topo -m show which are near GPUs"
)
_NEEDS = "the list of net devices (`NET/IB : Using`, NCCL_DEBUG=INFO with INIT or NET)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    broken = [*facts.failures("ib_rail_incompatible")]
    broken += [one for one in facts.failures("warn") if _BROKEN.search(one.fields.get("text", ""))]
    if broken:
        yield RULE.finding(
            Severity.WARNING,
            Confidence.HIGH,
            f"NCCL cannot connect net devices of different link layers on {place(machines_of(broken), 'a machine')}:"
            " InfiniBand and RoCE do not talk to each other",
            _FIX.format("<the other ports>"),
            {"hosts": machines_of(broken)},
            evidence_of(broken),
            **stopped(estimator),
        )
        return
    if facts.crossing.answer is Answer.NO:
        return
    machines = [one for one in listings(facts) if any(device.link != "EFA" for device in one.devices)]
    used = used_devices(facts)
    groups: dict[tuple[str, tuple[Hca, ...], bool], list[Listing]] = {}
    for listing in machines:
        for what, devices in _odd(listing.devices):
            carries = bool(used.get(listing.machine, frozenset()) & {device.name for device in devices})
            groups.setdefault((what, devices, carries), []).append(listing)
    for (what, devices, carries), where in groups.items():
        yield _finding(estimator, what, devices, carries, where)
    front = [one for one in map(_near_no_gpu, facts.matrices) if one]
    listed_names = {name for one in machines for name in one.names}
    for matrix, names in front:
        shown = [name for name in names if not machines or name in listed_names]
        if shown and not groups:
            yield _front_end(matrix, shown)
    if not machines and not front and not carried(facts):
        yield NotEvaluated(_NEEDS)


def _odd(devices: Sequence[Hca]) -> Iterator[tuple[str, tuple[Hca, ...]]]:
    """What is mixed in one list, and the devices that do not belong to the rest."""
    links = Counter(device.link for device in devices if device.link in _NAMES)
    main = "IB" if links["IB"] >= links["RoCE"] else "RoCE"
    alien = tuple(device for device in devices if device.link in _NAMES and device.link != main)
    same = [device for device in devices if device.link == main]
    if alien:
        yield f"{_NAMES[alien[0].link]} beside {_NAMES[main]}", alien
    bonds = tuple(device for device in same if device.bond)
    if bonds and len(bonds) < len(same):
        yield "bond beside single ports", bonds
    single = [device for device in same if not device.bond]
    fastest = max((_port_gbit(device) for device in single), default=0)
    slow = tuple(device for device in single if 0 < _port_gbit(device) < fastest)
    if slow:
        yield f"{min(map(_port_gbit, slow)):g} Gb/s beside {fastest:g} Gb/s", slow
    if len(devices) > _MANY:
        yield f"{len(devices)} devices, as many as virtual functions of a whole host", ()


def _port_gbit(device: Hca) -> float:
    """The rate of one port: a merged device has the sum."""
    return device.gbit / len(device.parts)


def _near_no_gpu(matrix: Matrix) -> tuple[Matrix, list[str]] | None:
    """Adapters on no GPU's switch, where every GPU has another one on its own. A row that is cut off may hold the
    switch of the adapter."""
    gpus = matrix.gpus
    if matrix.kind != "topo" or not gpus or any(matrix.best(gpu) not in NEAR for gpu in gpus):
        return None
    far = [nic for nic in matrix.nics if all(matrix.between(gpu, nic) not in (*NEAR, None) for gpu in gpus)]
    return (matrix, [matrix.nic_names.get(nic, nic) for nic in far]) if far else None


def _front_end(matrix: Matrix, names: Sequence[str]) -> Finding:
    shown = {matrix.nic_names.get(nic, nic): nic for nic in matrix.nics}
    one = len(names) == 1
    return RULE.finding(
        Severity.INFO,
        Confidence.MEDIUM,
        f"{listed(names)} {'is' if one else 'are'} on no GPU's PCIe switch, while every GPU has another adapter on its"
        f" own ({'a front-end or storage port' if one else 'front-end or storage ports'}): NCCL may list and use"
        f" {'it' if one else 'them'}",
        _FIX.format(",".join(name for name in names if name not in matrix.nics) or "<their names>"),
        {"devices": tuple(names)},
        tuple(dict.fromkeys(matrix.lines[shown[name]] for name in names if shown[name] in matrix.lines))[:2],
        **no_number("a device that carries nothing costs nothing"),
    )


def _finding(
    estimator: Estimator, what: str, devices: Sequence[Hca], carries: bool, where: Sequence[Listing]
) -> Finding:
    machines = tuple(sorted(one.machine for one in where))
    names = [device.name for device in devices]
    one = len(names) == 1
    if carries:
        use = f"{'carries' if one else 'carry'} channels between machines"
    else:
        use = f"{'is' if one else 'are'} listed, and no channel in the input uses {'it' if one else 'them'}"
    who = f": {listed(names)} {use}" if names else ""
    return RULE.finding(
        Severity.WARNING if carries else Severity.INFO,
        Confidence.HIGH,
        f"Net devices of {place(machines, 'a machine')} are mixed ({what}){who}",
        _FIX.format(",".join(names) or "<the others>"),
        {"hosts": machines, "devices": tuple(names)},
        evidence_of(where),
        causes=("IB004",) if carries and what.endswith("Gb/s") else (),
        **_price(estimator, devices, carries, where[0]),
    )


def _price(estimator: Estimator, devices: Sequence[Hca], carries: bool, listing: Listing) -> Numbers:
    if not carries:
        return no_number("a device that carries nothing costs nothing")
    slowest, fastest = min(map(_port_gbit, devices)), max(map(_port_gbit, listing.devices))
    if 0 < slowest < fastest:  # the slowest rail sets the pace
        return compared(estimator, {"nic_gbit": fastest}, {"nic_gbit": slowest})
    return no_number("the rates of the ports are not in the input (subsystem NET, 2.27.3 and newer)")


RULE = Rule(
    code="IB008",
    name="mixed-link-layer",
    severity=Severity.WARNING,
    summary="Net devices of different kinds stand in one list: InfiniBand and RoCE, bonds and single ports, slow ports",
    check=check,
    since="0.1.0",
    caused_by=("IB002",),
)
