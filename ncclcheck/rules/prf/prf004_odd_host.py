"""One machine, or one pair, was measured below the others.

## What it finds

Tables of nccl-tests over several sets of machines: each machine alone, or pairs, with the same collective, number of
ranks, GPU model and size. At least three sets must be there. A set is odd where its busbw is under 90% of the middle of
the others, and more than twice their own spread away. In pairs, the machine is named that is in all slow pairs and in
no fast one.

Files of NCCL Inspector of all ranks of a job: a rank, or the ranks of one machine, that is the last to arrive in four
of five collectives, while the others spend a fifth of their time there waiting. The last has the shortest times.

## Why it costs

A collective goes at the speed of its slowest member: one machine with a bad cable or a throttled GPU slows a job of
hundreds. The ratio is what the job loses while it has that machine.

## Example

    # all_reduce_perf -g 8 on n1: 478 GB/s at 8 GiB, on n2: 475, on n3: 301, on n4: 479

## How to fix

On the machine that is named, against one that is not:

1. `nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE` under load, `nvidia-smi nvlink -s`, `nvidia-smi nvlink -e`
2. `lspci -vv | grep -E 'LnkCap|LnkSta'` of GPUs and NICs, `ibstat`, counters of ports before and after a run
3. `nvidia-smi topo -m`, BIOS settings (ACS, NPS), `dmesg | grep -iE 'xid|aer|mlx5'`, `dcgmi diag -r 3`

A rank that arrives last is late for what it does between collectives: its GPU's clocks, its data loader, the share of
work that it has (pipeline stages, experts). `nsys profile` of it and of one that waits shows which.

For a pair: each end alone first; if both are well alone, the cable, the port or the way through the switches.

## When it is not a problem

Machines that differ by design are no siblings: the GPU model must be the same, but the number of NICs is not in the
tables. A run beside another job is slow once; run it again.

## References

- nccl-tests: doc/PERFORMANCE.md
- NVIDIA, AWS and Microsoft health checks of clusters: pairwise nccl-tests (cluster validation)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.estimate.ranges import Range
from ncclcheck.facts.inspected import Last, last_to_arrive, were_timed
from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.odd_hosts import Odd, odd_hosts, were_compared
from ncclcheck.rules.common import listed, no_number
from ncclcheck.rules.failures import folded, ranks_in_words
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = (
    "tables of nccl-tests of three machines or pairs, each alone: all_reduce_perf -b 1G -e 8G -f 2 -g 8; or files of"
    " NCCL Inspector of all ranks (NCCL_INSPECTOR_ENABLE=1)"
)
_FIX_LAST = (
    "on {}: nvidia-smi -q -d PERFORMANCE,CLOCK under load, its data loader and CPU threads; nsys profile of it and of a"
    " rank that waits shows what it does before each collective"
)
_FIX = (
    "on {} and on a machine that is well, compare: nvidia-smi -q -d PERFORMANCE,TEMPERATURE under load, nvidia-smi"
    " nvlink -s, lspci -vv | grep LnkSta, ibstat, dmesg | grep -iE 'xid|aer|mlx5', dcgmi diag -r 3; then measure again"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = odd_hosts(facts)
    if found:
        yield _finding(estimator, found[0])
    last = last_to_arrive(facts)
    if last is not None:
        yield _late(last)
    if not found and last is None and not were_compared(facts) and not were_timed(facts):
        yield NotEvaluated(_NEEDS)


def _late(last: Last) -> Finding:
    where = f" on {last.host}" if last.host else ""
    return RULE.finding(
        Severity.WARNING,
        Confidence.MEDIUM,
        f"The others wait for {ranks_in_words(last.ranks)}{where}: last to arrive in {last.share:.0%} of"
        f" {last.operations} collectives among {last.nranks} ranks, which spend {last.waiting:.0%} of their time there"
        f" waiting ({last.us / 1e3:.3g} ms in one)",
        _FIX_LAST.format(last.host or "that rank"),
        {"hosts": (last.host,) if last.host else (), "ranks": folded(last.ranks)},
        last.evidence,
        **no_number("what the others wait for is no link: the rank is late"),
    )


def _finding(estimator: Estimator, odd: Odd) -> Finding:
    estimate = estimator.measured(
        Range(odd.least, odd.others, odd.most), odd.busbw, odd.ranks, f"at {binary_size(odd.size)}"
    )
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if odd.ratio < 0.8 else Confidence.MEDIUM,
        f"{listed(list(odd.hosts))} reached {odd.busbw:.4g} GB/s busbw in {odd.collective} at {binary_size(odd.size)},"
        f" {odd.ratio:.0%} of the {odd.others:.4g} GB/s ({odd.least:.4g} to {odd.most:.4g}) of {odd.compared} others",
        _FIX.format(listed(list(odd.hosts))),
        {"hosts": odd.hosts},
        odd.evidence,
        estimate=estimate,
        cost=estimator.cost_of(estimate),
    )


RULE = Rule(
    code="PRF004",
    name="odd-host",
    severity=Severity.WARNING,
    summary="One machine, or one pair, was measured below the others",
    check=check,
    since="0.1.0",
    caused_by=("HST004", "HST007", "IB005", "IB006", "IB009", "IB012", "NVL002", "PCI003", "PCI004", "TOP003"),
)
