"""The machines of one job have different numbers of compute adapters, or adapters of different rates.

## What it finds

The `NET/IB : Using` lists of all machines of a job, joined over the ranks of each machine first (a rank that is pinned
to its own adapter lists only that one), and from 2.27.3 on the rates of the devices (`NET/IB: [0] mlx5_0 ...
speed=400000`, subsystem NET), or those that `ibstat` and the like tell of all of them. Compared are compute devices:
those of the link layer that most devices have, and of the highest rate of the job where rates are known; front-end and
storage ports do not count. Where the lists do not tell, NCCL's own count does, from 2.30.3 on (`Local Net device counts
across ranks: min 6 max 8`, or the warning `Detected mixed local Net device counts`).

Different counts or rates are an error. Equal counts under different names, or in another order, are information.

## Why it costs

Every rail of a ring carries the same share, so all machines run with as many rails as the poorest one has: 7 of 8
adapters on one of 128 machines take an eighth of the network from all of them. An adapter of half the rate halves its
rail everywhere.

## Example

    hgx-31:7714:7790 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; ...
    hgx-32:9120:9188 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_3:1/IB [RO]; ...

`mlx5_2` is missing on hgx-32.

## How to fix

On the machine with fewer:

    ibstat | grep -E "CA '|State|Rate"          # a port that is not Active is not listed
    lspci -d 15b3: | wc -l                      # is the card there at all?
    env | grep NCCL_IB_HCA; cat /etc/nccl.conf  # another filter than on the peers?
    ls /dev/infiniband; ls /sys/class/infiniband    # in the container as well

Then repair or drain the machine. Until then `NCCL_IB_HCA` with the devices that all machines have makes the lists
equal, which does not bring the rail back but keeps ring and rail numbers aligned.

## When it is not a problem

Ranks pinned to one adapter each. Storage or front-end ports that only some machines list (name the compute rails in
`NCCL_IB_HCA=` to be sure). Other names for the same devices. Machines of which only one rank is in the input, where
ranks are pinned, are not compared.

## References

- NVIDIA/nccl issue 2428: mismatched HCAs become a silent hang
- NCCL sources: `src/init.cc` (NCCL_IGNORE_NET_MISMATCH), `src/graph/search.cc`
- NCCL user guide, Environment Variables: NCCL_IB_HCA
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of
from ncclcheck.facts.hcas import Hca, Listing, listings, used_devices
from ncclcheck.facts.rdma_ports import with_rates
from ncclcheck.rules.common import compared, counted, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

_FIX = (
    'on the machine with fewer: ibstat | grep -E "CA \'|State|Rate"; env | grep NCCL_IB_HCA; lspci -d 15b3: ; repair or'
    " drain it, or set NCCL_IB_HCA to the devices that all machines have"
)
_FIX_NAMES = (
    "nothing while rails are in one order (NCCL 2.29.7 and newer sort by PCI address); udev names by PCI address"
    " (rdma-core persistent naming) make one NCCL_IB_HCA fit all machines"
)
_NEEDS = "the list of net devices (`NET/IB : Using`) of every rank, from two machines of the job or more"
_FREE = "equal numbers of adapters: names and order cost nothing by themselves"


class _Machine(NamedTuple):
    """A machine, its devices of the kind that most of the job are of, and the compute devices among them."""

    name: str
    ports: tuple[Hca, ...]
    compute: tuple[Hca, ...]
    listing: Listing

    @property
    def rates(self) -> tuple[float, ...]:
        """One number per device: its rate in Gb/s, 0 where unknown."""
        return tuple(sorted(device.gbit for device in self.compute))

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.listing.evidence

    def __str__(self) -> str:
        rates = Counter(sorted(device.gbit for device in self.ports))
        if 0 in rates:
            return counted(len(self.ports), "compute adapter")
        return " and ".join(f"{count} x {rate:g} Gb/s" for rate, count in rates.items())


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    jobs: dict[int, list[Listing]] = {}
    for listing in listings(facts):
        if listing.whole:
            jobs.setdefault(listing.job, []).append(listing)
    compared_jobs = [_with_compute(with_rates(facts, machines)) for machines in jobs.values()]
    several = [machines for machines in compared_jobs if len(machines) > 1]
    for machines in several:
        yield from _compare(facts, estimator, machines)
    if not several:
        yield from _by_nccl(facts, estimator)


def _by_nccl(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    """NCCL's own count of the net devices of each rank, where the lists do not tell."""
    said = facts.notes("net_counts")
    for seen in said:
        fewest, most = (int(count) for count in seen.value.split(" to "))
        if fewest < most:
            yield RULE.finding(
                Severity.ERROR,
                Confidence.MEDIUM,
                f"NCCL counts {fewest} to {most} net devices over the ranks: all run with what the poorest have",
                _FIX,
                {"hosts": seen.machines},
                seen.evidence,
                **compared(estimator, {"nics": most}, {"nics": max(fewest, 1)}),
            )
    if not said:
        yield NotEvaluated(_NEEDS)


def _with_compute(machines: Sequence[Listing]) -> list[_Machine]:
    """Machines with the devices of the kind that most are of, and of the highest rate where all rates are known."""
    kinds = Counter(_kind(device) for listing in machines for device in listing.devices)
    main = kinds.most_common(1)[0][0]
    ports = {one.machine: tuple(device for device in one.devices if _kind(device) == main) for one in machines}
    found = [_Machine(one.machine, ports[one.machine], ports[one.machine], one) for one in machines]
    found = [machine for machine in found if machine.compute and main[0] != "EFA"]
    top = max((rate for machine in found for rate in machine.rates), default=0)
    if all(top in machine.rates and 0 not in machine.rates for machine in found):
        found = [machine._replace(compute=tuple(d for d in machine.compute if d.gbit == top)) for machine in found]
    return found


def _kind(device: Hca) -> tuple[str, bool]:
    return device.link, device.bond


def _compare(facts: Facts, estimator: Estimator, machines: Sequence[_Machine]) -> Iterator[Finding]:
    names = {frozenset(device.name for device in machine.compute) for machine in machines}
    orders = {tuple(device.name for device in machine.compute) for machine in machines if not machine.listing.pinned}
    groups = Counter(machine.rates for machine in machines)
    if len(groups) > 1:
        most = max(groups, key=lambda rates: (sum(rates), len(rates)))
        poorer = [machine for machine in machines if machine.rates != most]
        # one more than the most, of unknown rate: a front-end or storage port as likely as a rail
        extra = 0 in most and len(poorer) * 2 > len(machines)
        if extra or _one_for_each_rank(facts, machines):
            yield _info(machines, "list different numbers of adapters, and use equally many or are mostly equal")
        else:
            yield _mismatch(estimator, machines, poorer, facts.crossing.answer is Answer.YES)
    elif len(names) > 1:
        yield _info(machines, f"have {machines[0]} each, under different names")
    elif len(orders) > 1:
        yield _info(machines, f"list the same {machines[0]} in different order")


def _one_for_each_rank(facts: Facts, machines: Sequence[_Machine]) -> bool:
    """Do edges show a device in use for every rank of all machines? Then the further ones are not missed."""
    used = used_devices(facts)
    rates_known = all(device.gbit for machine in machines for device in machine.ports)
    enough = all(len(used.get(one.name, ())) >= one.listing.ranks for one in machines)
    return facts.rings_connected and not rates_known and enough


def _mismatch(estimator: Estimator, machines: Sequence[_Machine], poorer: Sequence[_Machine], one_job: bool) -> Finding:
    hosts = tuple(sorted(machine.name for machine in poorer))
    rich = next(machine for machine in machines if machine not in poorer)
    poor = min(poorer, key=lambda machine: (sum(machine.rates), len(machine.compute)))
    missing = [device.name for device in rich.compute if device.name not in poor.listing.names]
    lacks = f" ({listed(missing)} missing)" if len(missing) == len(rich.compute) - len(poor.compute) > 0 else ""
    of_others = "the other" if len(machines) == 2 else counted(len(machines) - len(poorer), "other machine")
    rates = {rate for machine in machines for rate in machine.rates}
    others = str(len(rich.ports)) if 0 in rates else str(rich)
    slow = min(device.gbit for device in poor.ports)
    healthy: dict[str, object] = {"nics": len(rich.compute)}
    actual: dict[str, object] = {"nics": len(poor.compute)}
    if 0 < slow < max(rates) and len(poor.ports) == len(rich.ports):  # the slowest rail sets the pace
        healthy, actual = {"nic_gbit": max(rates)}, {"nic_gbit": slow}
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if one_job and (lacks or 0 not in rates) else Confidence.MEDIUM,
        f"{place(hosts, 'a machine')} {'has' if len(hosts) == 1 else 'have'} {poor}{lacks}, {of_others} {others}: all"
        " machines run at the pace of the poorest",
        _FIX,
        {"hosts": hosts},
        evidence_of([*poorer, rich] if len(poorer) == 1 else [poor, rich]),
        **compared(estimator, healthy, actual),
    )


def _info(machines: Sequence[_Machine], what: str) -> Finding:
    odd = Counter(machine.listing.names for machine in machines)
    shown = list({machine.listing.names: machine for machine in machines}.values())
    few = min(odd.values())
    hosts = tuple(sorted(machine.name for machine in machines if odd[machine.listing.names] == few))
    lists = [f"{machine.name}: {listed(machine.listing.names)}" for machine in shown[:2]]
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH,
        f"{counted(len(machines), 'machine')} {what} ({'; '.join(lists)})",
        _FIX_NAMES,
        {"hosts": hosts},
        evidence_of(shown),
        **no_number(_FREE),
    )


RULE = Rule(
    code="IB004",
    name="hca-count-mismatch",
    severity=Severity.ERROR,
    summary="The machines of one job have different numbers of compute adapters, or adapters of different rates",
    check=check,
    since="0.1.0",
    caused_by=("HST003", "IB001", "IB002", "IB005", "IB006"),
)
