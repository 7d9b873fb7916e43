"""NCCL_IB_HCA leaves out an adapter that the GPUs need, matches nothing, or matches more than it says.

## What it finds

`NCCL_IB_HCA set to mlx5_1` (2.7.3 and newer) beside the list of devices that came of it:

- A compute device is left out: one that other machines of the job list, or that `nvidia-smi topo -m` in the same input
  shows on a PCIe switch (PIX, PXB) with a GPU. Also devices near a GPU that are not listed though no filter is set.
- Nothing matches: the filter is set and NCCL finds no device.
- An entry matches more than its own name: without `=` every entry is a prefix, so `mlx5_1` takes mlx5_10 to mlx5_19 as
  well, and `^mlx5_1` throws them out.

Lists of ranks that are pinned to one adapter each are joined per machine before anything is compared.

## Why it costs

Traffic between machines has the rails that are left: with 4 of 8 adapters half of the network. GPUs without a near
adapter go through another GPU (PXN) or over the CPU. A filter that differs on one machine takes the rail from all of
them. Names that do not exist leave TCP (IB001). Devices that slip in by prefix are often storage or front-end ports:
slower, or not connected to the peers at all.

## Example

    h200-06:5511:5580 [0] NCCL INFO NCCL_IB_HCA set to mlx5_1,mlx5_2
    h200-06:5511:5580 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/IB [1]mlx5_10:1/RoCE [2]mlx5_2:1/IB [RO]; OOB ...

`mlx5_10` is the storage port.

## How to fix

Write whole names, all compute rails, the same on all machines:

    export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3     # "=" first: exact names
    export NCCL_IB_HCA=^=mlx5_bond_0                    # or exclude exactly

    nvidia-smi topo -m                                  # PIX or PXB to a GPU: a compute rail
    ibdev2netdev; ibstat | grep -E "CA '|State|Rate|layer"

Better no variable at all where all ports are compute rails. A device that is near a GPU and not listed without a filter
has a port that is down, or is not in the container (`ls /dev/infiniband`).

## When it is not a problem

A filter that leaves exactly the compute rails, by prefix or by name, and `mlx5` as a class prefix. Second ports of
cards whose first port is listed.

## References

- NCCL sources: `src/misc/utils.cc` (parseStringList, matchIfList)
- NCCL user guide, Environment Variables: NCCL_IB_HCA
- NVIDIA/nccl issue 2428: mismatched HCAs become a silent hang
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machine_names
from ncclcheck.facts.filters import Filters, hca_filters
from ncclcheck.facts.hcas import Listing, listings, near_devices
from ncclcheck.rules.common import carried, compared, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Seen
    from ncclcheck.rules.common import Numbers

_FIX = (
    "NCCL_IB_HCA==<all compute rails by whole name>, the same on all machines ('=' first; without it entries are"
    " prefixes); nvidia-smi topo -m shows which are near GPUs"
)
_FIX_MISSING = "ibstat (State: Active?) and ls /dev/infiniband in the container"
_NEEDS_LIST = "the list of net devices (`NET/IB : Using`) of every rank of a machine"
_NEEDS_OTHERS = (
    "NCCL_IB_HCA leaves fewer devices than GPUs: `nvidia-smi topo -m` of the machine would tell whether one near a GPU"
    " is left out"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    machines = listings(facts)
    filters = {(one.job, one.machine): one for one in hca_filters(facts)}
    pairs = [(filters[of], one) for one in machines if (of := (one.job, one.machine)) in filters]
    nothing = _nothing_left(facts, machines, [*filters.values()])
    findings = [
        *([nothing] if nothing else []),
        *_left_out(estimator, machines, pairs),
        *_not_near(facts, estimator, machines, filters),
        *_too_many(pairs),
    ]
    yield from findings
    if findings:
        return
    if not any(listing.whole for listing in machines):
        if machines or not carried(facts):
            yield NotEvaluated(_NEEDS_LIST)
    elif not near_devices(facts) and any(_fewer_than_ranks(*pair) for pair in pairs):
        yield NotEvaluated(_NEEDS_OTHERS)


def _nothing_left(facts: Facts, machines: Sequence[Listing], filters: Sequence[Filters]) -> Finding | None:
    """The filter is set, the search for devices ran, and it found none."""
    served = {listing.machine for listing in machines} | {name for seen in carried(facts) for name in seen.machines}
    empty = {name for seen in facts.notes("net_ib_no_device") for name in seen.machines} - served
    known = sorted({name for listing in machines for name in listing.names} | near_devices(facts))
    several = facts.crossing.answer is Answer.YES
    mine = [
        one
        for one in filters
        if one.machine in empty
        and (not any(one.takes(name) for name in known) if known else several and one.names_devices)
    ]
    if not mine:
        return None
    others = f"; devices that the input knows: {listed(known)}" if known else ""
    return _finding(
        f"NCCL_IB_HCA={mine[0]} leaves no active device on {_place(mine)}{others}",
        Confidence.HIGH if known else Confidence.MEDIUM,
        mine,
        [*mine, *facts.notes("net_ib_no_device")],
        no_number("the price of TCP is that of NET001"),
        fix=f"{_FIX}; {_FIX_MISSING}",
    )


def _left_out(
    estimator: Estimator, machines: Sequence[Listing], pairs: Sequence[tuple[Filters, Listing]]
) -> Iterator[Finding]:
    """Devices that other machines of the job list, and that the filter of a machine does not let through."""
    groups: dict[tuple[str, ...], list[tuple[Filters, Listing]]] = {}
    different = {(one.job, one.devices) for one in machines}
    for mine, listing in pairs:
        others = [devices for job, devices in different if job == listing.job and len(devices) > len(listing.devices)]
        links = {device.link for device in listing.devices}
        names = {device.name for devices in others for device in devices if device.link in links and not device.bond}
        missing = tuple(sorted(name for name in names - {*listing.names} if not mine.takes(name)))
        if missing and listing.whole:
            groups.setdefault(missing, []).append((mine, listing))
    for missing, where in groups.items():
        filters = [mine for mine, _ in where]
        left = len(where[0][1].devices)
        yield _finding(
            f"NCCL_IB_HCA={filters[0]} leaves out {listed(missing)} on {_place(filters)}; other machines of the job"
            f" list {'it' if len(missing) == 1 else 'them'}",
            Confidence.HIGH,
            filters,
            [*filters, *(listing for _, listing in where)],
            compared(estimator, {"nics": left + len(missing)}, {"nics": left}),
        )


def _not_near(
    facts: Facts, estimator: Estimator, machines: Sequence[Listing], filters: Mapping[tuple[int, str], Filters]
) -> Iterator[Finding]:
    """GPUs that have a device on their PCIe switch, by the matrix, of which the machine lists none."""
    for matrix in facts.matrices:
        near = {gpu: names for gpu, names in matrix.near_names().items() if names}
        groups: dict[tuple[frozenset[str], bool], list[Listing]] = {}
        for listing in machines:
            here = {part for device in listing.devices for part in device.parts}
            missing = frozenset(name for names in near.values() if not here & names for name in names)
            # with fewer ranks than GPUs it is unknown which GPUs are in use
            of_this = listing.whole and here & {*matrix.nic_names.values()} and listing.ranks == len(matrix.gpus)
            if missing and of_this:
                mine = filters.get((listing.job, listing.machine))
                filtered = mine is not None and not any(mine.takes(name) for name in missing)
                groups.setdefault((missing, filtered), []).append(listing)
        for (missing, filtered), where in groups.items():
            lonely = [gpu for gpu, names in near.items() if names <= missing]
            of_these = [filters[one.job, one.machine] for one in where] if filtered else []
            what = f"NCCL_IB_HCA={of_these[0]} leaves out" if filtered else "NCCL does not list"
            served = len({name for names in near.values() for name in names} - missing)
            yield _finding(
                f"{what} {listed(sorted(missing))} on {_place(where)}, which the matrix shows near {listed(lonely)}",
                Confidence.HIGH if filtered else Confidence.MEDIUM,
                where,
                [where[0], *of_these, *where[1:]],
                compared(estimator, {"nics": served + len(missing)}, {"nics": max(served, 1)}),
                more=tuple(matrix.lines[gpu] for gpu in lonely if gpu in matrix.lines)[:2],
                fix=_FIX if filtered else _FIX_MISSING,
            )


def _too_many(pairs: Sequence[tuple[Filters, Listing]]) -> Iterator[Finding]:
    """Devices that an entry lets through because its number is the beginning of theirs."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[Filters, Listing]]] = {}
    for mine, listing in pairs:
        for one in mine.filters:
            further = {} if one.exclude else {name: one.further(name) for name in listing.names}
            for entry in dict.fromkeys(entry for entry in further.values() if entry):
                extra = tuple(name for name, of in further.items() if of == entry)
                groups.setdefault((entry, extra), []).append((mine, listing))
    for (entry, extra), where in groups.items():
        filters = [mine for mine, _ in where]
        yield _finding(
            f"The entry {entry} of NCCL_IB_HCA={filters[0]} is a prefix: on {_place(filters)} it takes {listed(extra)}"
            " as well",
            Confidence.HIGH,
            filters,
            [filters[0], *(listing for _, listing in where), *filters[1:]],
            no_number("what the further devices cost depends on where they are connected"),
        )


def _fewer_than_ranks(mine: Filters, listing: Listing) -> bool:
    return not mine.filters[0].exclude and len(listing.devices) < listing.ranks


def _place(where: Sequence[Filters | Listing]) -> str:
    return place(sorted({one.machine for one in where}), "a machine")


def _finding(
    message: str,
    confidence: Confidence,
    where: Sequence[Filters | Listing],
    proof: Sequence[Filters | Listing | Seen],
    numbers: Numbers,
    *,
    more: tuple[Evidence, ...] = (),
    fix: str = _FIX,
) -> Finding:
    return RULE.finding(
        Severity.WARNING,
        confidence,
        message,
        fix,
        {"hosts": machine_names(where), "variable": ("NCCL_IB_HCA",)},
        (*evidence_of(proof, 4 - len(more)), *more),
        **numbers,
    )


RULE = Rule(
    code="IB002",
    name="hca-filtered",
    severity=Severity.WARNING,
    summary="NCCL_IB_HCA leaves out an adapter that the GPUs need, matches nothing, or matches more than it says",
    check=check,
    since="0.1.0",
)
