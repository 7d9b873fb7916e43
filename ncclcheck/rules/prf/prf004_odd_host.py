"""One machine, or one pair, was measured below the others.

## What it finds

Tables of nccl-tests over several sets of machines: each machine alone, or pairs, with the same collective, number of
ranks, GPU model and size. At least three sets must be there. A set is odd where its busbw is under 90% of the middle of
the others, and more than twice their own spread away. In pairs, the machine is named that is in all slow pairs and in
no fast one.

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
from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.odd_hosts import Odd, odd_hosts, were_compared
from ncclcheck.rules.common import listed
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "tables of nccl-tests of three machines or pairs, each alone: all_reduce_perf -b 1G -e 8G -f 2 -g 8"
_FIX = (
    "on {} and on a machine that is well, compare: nvidia-smi -q -d PERFORMANCE,TEMPERATURE under load, nvidia-smi"
    " nvlink -s, lspci -vv | grep LnkSta, ibstat, dmesg | grep -iE 'xid|aer|mlx5', dcgmi diag -r 3; then measure again"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = odd_hosts(facts)
    if found:
        yield _finding(estimator, found[0])
    elif not were_compared(facts):
        yield NotEvaluated(_NEEDS)


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
)
