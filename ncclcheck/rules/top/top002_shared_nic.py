"""Several GPUs of a machine share a net device, evenly by design or while another one idles.

## What it finds

Ring channels between machines per net device (`[send] via NET/IB/0`), on machines of which all local ranks are in the
input, against the devices that the machine lists:

- A device that `nvidia-smi topo -m` shows near a GPU carries nothing while another carries twice the mean or more, or
  machines with the same devices and ranks use different numbers of them: a warning.
- The same without anything that tells where the idle device is, or with fewer channels than devices: information.
- Every machine has k GPUs per device in use, or lists a single device for all its GPUs: information with the number.

## Why it costs

What a machine puts on the network is the sum of the adapters in use, B_node; g GPUs that send at the same time have
B_node / g each. One 400 Gb/s adapter is 46 to 48.5 GB/s, for one GPU or for eight: all_reduce between machines runs at
that rate, and all_to_all or point-to-point at an eighth of it per GPU (5.8 GB/s were measured for four GPUs on one
port). An idle adapter is bandwidth that was paid for.

## Example

    h100-03:2716:2790 [0] NCCL INFO NET/IB : Using [0]mlx5_5:1/RoCE [RO]; OOB eno7np0:10.8.0.3<0>
    h100-03:2716:2790 [0] NCCL INFO comm 0x6139f2a0 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0

Four GPUs, one adapter.

## How to fix

Is it the design of the machine? Eight GPUs on four adapters is, in several clouds; one adapter per machine is as well.
Then there is nothing to fix. Otherwise:

    nvidia-smi topo -m                          # adapters near GPUs (PIX, PXB)
    ibstat | grep -E "CA '|State|Rate"          # are their ports Active?
    env | grep -E 'NCCL_IB_HCA|NCCL_NET_MERGE|NCCL_MAX_NCHANNELS|NCCL_MIN_CTAS|NCCL_MAX_CTAS'

List all compute rails in NCCL_IB_HCA or unset it; remove channel limits (`NCCL_MAX_NCHANNELS`); give NCCL the topology
file of the instance type in virtual machines: with a flat topology it cannot tell near from far.

## When it is not a problem

One device per GPU. Jobs with one rank per machine, or with fewer ranks than devices. Devices far from all GPUs
(storage, front end). Traffic inside one machine. The logs of rank 0 alone cannot show what other adapters do.

## References

- NCCL sources: `src/graph/search.cc`, `src/graph/topo.cc` (ncclTopoGetLocalNet)
- NVIDIA/nccl-tests issues 29, 128; NVIDIA/nccl issue 687: all channels through one adapter
- NCCL user guide, Environment Variables: NCCL_IB_HCA, NCCL_MAX_NCHANNELS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of
from ncclcheck.facts.hcas import Listing, listings
from ncclcheck.facts.sharing import Sharing, nic_sharing
from ncclcheck.rules.common import compared, counted, listed, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_FIX_DESIGN = (
    "nothing, if the machine has no more; else ibstat (State: Active?) and NCCL_IB_HCA: list all compute rails or unset"
    " it"
)
_FIX_EFA = "nothing, if the instance type has no more (fi_info -p efa -t FI_EP_RDM lists them)"
_FIX_IDLE = (
    "nvidia-smi topo -m (is the idle adapter near a GPU?), ibstat, NCCL_MAX_NCHANNELS; in virtual machines the topology"
    " file of the instance type"
)
_NEEDS = (
    "channel lines of all ranks of a machine until `Connected all rings`, or the device lists (`NET/IB : Using`) of all"
    " of them"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    kinds = {networks.kind(seen.value) for seen in facts.networks}
    if kinds and not kinds & networks.RDMA:
        yield NotEvaluated("an InfiniBand, RoCE or EFA network: sockets and other networks share interfaces by design")
        return
    several = facts.crossing.answer is Answer.YES or len(facts.machines) > 1
    lists = [listing for listing in listings(facts) if listing.whole]
    single = [listing for listing in lists if len(listing.devices) == 1 and listing.ranks > 1]
    if single and several:
        yield _single(estimator, single, any(len(one.devices) > 1 for one in lists))
        return
    machines = nic_sharing(facts)
    if machines:
        yield from _by_load(estimator, machines, efa=kinds == {"efa"})
    elif not (lists and all(len(one.devices) >= one.ranks == 1 for one in lists)):
        yield NotEvaluated(_NEEDS)


def _single(estimator: Estimator, single: Sequence[Listing], others_have_more: bool) -> Finding:
    """The lists alone tell: there is one device."""
    most = max(listing.ranks for listing in single)
    names = sorted({name for listing in single for name in listing.names})
    if len(single) == 1:
        who = f"{most} GPUs of {single[0].machine} share its only net device, {names[0]}"
    else:
        who = f"The GPUs of {len(single)} machines, up to {most} on each, share one net device ({listed(names)})"
    return _finding(
        Severity.INFO,
        Confidence.HIGH,
        f"{who}: each has 1/{most} of its rate when all send (compared with a device per GPU)",
        _FIX_DESIGN,
        [listing.machine for listing in single],
        evidence_of(single),
        compared(estimator, {"nics": most}, {"nics": 1}),
        ("IB004",) if others_have_more else (),
    )


def _by_load(estimator: Estimator, machines: Sequence[Sharing], efa: bool) -> Iterator[Finding]:
    uneven = [one for one in machines if one.uneven]
    near = [one for one in uneven if one.near]
    unknown = [one for one in uneven if one.near is None]
    fewer = _unlike_their_kind(machines)
    if near or (unknown and not fewer):
        yield _uneven(estimator, near or unknown)
    elif fewer:
        yield _different(estimator, machines, fewer)
    elif all(len(one.load) < one.ranks for one in machines):
        yield _even(estimator, machines, efa)


def _uneven(estimator: Estimator, machines: Sequence[Sharing]) -> Finding:
    one = machines[0]
    idle = one.idle if one.near is None else one.near
    few_channels = one.channels < len(one.load) + len(idle)
    sure = one.near is not None and not few_channels
    doubts = [
        *([f"the rings have only {counted(one.channels, 'channel')}"] if few_channels else []),
        *(["whether they are near a GPU is not in the input"] if one.near is None else []),
    ]
    loads = listed([f"{name} {ends}" for name, ends in sorted(one.load.items(), key=lambda item: -item[1])])
    return _finding(
        Severity.WARNING if sure else Severity.INFO,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"No ring channel goes over {listed(idle)} of {place([m.machine for m in machines], 'a machine')}, while others"
        f" have several (ends of channels: {loads}){''.join(f'; {doubt}' for doubt in doubts)}",
        _FIX_IDLE,
        [machine.machine for machine in machines],
        evidence_of(machines),
        compared(estimator, {"nics": min(one.ranks, len(one.load) + len(idle))}, {"nics": len(one.load)}),
    )


def _unlike_their_kind(machines: Sequence[Sharing]) -> list[Sharing]:
    """Machines that use fewer devices than others with the same devices and ranks."""
    most: dict[tuple[frozenset[str], int], int] = {}
    for one in machines:
        kind = frozenset(one.listed), one.ranks
        most[kind] = max(most.get(kind, 0), len(one.load))
    return [one for one in machines if one.listed and len(one.load) < most[frozenset(one.listed), one.ranks]]


def _different(estimator: Estimator, machines: Sequence[Sharing], fewer: Sequence[Sharing]) -> Finding:
    most, least = max(len(one.load) for one in machines), min(len(one.load) for one in fewer)
    names = [one.machine for one in fewer]
    return _finding(
        Severity.WARNING,
        Confidence.HIGH,
        f"{place(names, 'a machine')} puts its rings on {counted(least, 'net device')}, other machines with the same"
        f" devices and ranks on {most}",
        _FIX_IDLE,
        names,
        evidence_of(fewer),
        compared(estimator, {"nics": most}, {"nics": least}),
        ("IB004",),
    )


def _even(estimator: Estimator, machines: Sequence[Sharing], efa: bool) -> Finding:
    one = max(machines, key=lambda machine: machine.ranks / len(machine.load))
    used = len(one.load)
    each = "" if one.ranks % used else f" ({one.ranks // used} each)"
    return _finding(
        Severity.INFO,
        Confidence.HIGH,
        f"{one.ranks} GPUs of a machine share {counted(used, 'net device')}{each}: a GPU has"
        f" {Fraction(used, one.ranks)} of a device when all send (compared with a device per GPU)",
        _FIX_EFA if efa else _FIX_DESIGN,
        [machine.machine for machine in machines],
        evidence_of(machines),
        compared(estimator, {"nics": one.ranks}, {"nics": used}),
        ("IB004",) if len({len(machine.load) for machine in machines}) > 1 else (),
    )


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    hosts: Sequence[str],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
    causes: tuple[str, ...] = (),
) -> Finding:
    subject = {"hosts": tuple(sorted(hosts))}
    return RULE.finding(severity, confidence, message, fix, subject, evidence, causes=causes, **numbers)


RULE = Rule(
    code="TOP002",
    name="shared-nic",
    severity=Severity.WARNING,
    summary="Several GPUs of a machine share a net device, evenly by design or while another one idles",
    check=check,
    since="0.1.0",
    caused_by=("IB002", "IB006", "TOP005"),
)
