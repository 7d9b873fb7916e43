"""A benchmark reaches less than the model's healthy range for this configuration.

## What it finds

A table of nccl-tests whose plateau (busbw of its largest size, out of place) lies more than a tenth under the range
that the model has for exactly this configuration: collective, nodes, GPUs per node, GPU class, how GPUs talk,
network, NICs and their rate, as far as log, tables and files tell. What of that had to be assumed makes the range
wider; where GPUs, NICs or the network itself are only assumed, the rule speaks of nothing but half the lowest of
all assumptions, at low confidence, and is else not evaluated.

The message names what would explain the number: the conditions (sockets, GPUDirect RDMA off, host memory, one NIC,
ACS) under which the model gives as little.

## Why it costs

A plateau is what large gradient buckets reach. Training waits for the collectives that do not hide behind compute.

## Example

    #       size         count      type   redop    root     time   algbw   busbw #wrong
      8589934592    2147483648     float     sum      -1  78500.1  109.43  191.50      0

on eight H100 SXM of one node, which give 355 to 500 GB/s.

## How to fix

Run the test with `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH` and check the log together with
the table: other rules name the cause. Compare hosts in pairs. `nvidia-smi nvlink -s`, `ibstat` and `lspci -vvv`
beside the table show links that are down or slow.

    ncclcheck check run.log bench.txt

## When it is not a problem

Sizes too small for a plateau (under 128 MiB on one node, 1 GiB on several): latency binds. The average that nccl-
tests prints counts its smallest sizes. A run of one rank measures no network. On two nodes a tree may go *above*
the rate of the network. Shared fabrics, a limited instance type and a power cap are not seen by the model: `--site`
takes constants of your own place.

## References

- nccl-tests: doc/PERFORMANCE.md (algbw and busbw)
- The model and the plateaus that it was fitted to: `ncclcheck estimate --help`, docs/estimate.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.estimate.quantities import with_range
from ncclcheck.facts.measured import Measured, binary_size
from ncclcheck.rules.common import Numbers, counted, listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimates import Expected
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# What decides about the size of the number: assumed, it proves nothing.
_DECISIVE = {"nodes", "GPUs per node", "GPU", "network", "NICs per node", "NIC rate", "socket line"}
# The model's ranges end where measurements of healthy machines thin out, not where they end.
_CLEARLY = 0.9
# Below this share of the least that any assumption gives something is wrong whatever they are.
_WHATEVER = 0.5
# Conditions that would explain a number, near causes first.
_CONDITIONS: tuple[tuple[str, dict[str, object]], ...] = (
    ("TCP sockets in place of RDMA", {"network": "socket"}),
    ("GPUDirect RDMA off", {"gdr": False}),
    ("one NIC for all GPUs", {"nics": 1}),
    ("GPUs that talk through host memory", {"intra": "shm"}),
    ("GPUs that talk over PCIe", {"intra": ("pcie-switch", "pcie-cpu")}),
    ("ACS that redirects peer traffic", {"redirect": "acs"}),
)
_MOST_NAMED = 2


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    plateaus = [one for one in facts.measured if one.is_plateau]
    for one in plateaus:
        yield from _judge(one, estimator)
    if not plateaus:
        small = any(not one.enough for one in facts.measured)
        yield NotEvaluated(
            "larger sizes in the table of nccl-tests: -e 8G"
            if small
            else "a table of nccl-tests: all_reduce_perf -b 8 -e 8G -f 2"
        )


def _judge(one: Measured, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    expected = estimator.expect_of(one)
    if expected is None:
        yield NotEvaluated(estimator.why_not or f"a model of {one.collective}")
        return
    least = _least(one, expected, estimator)
    guessed = expected.assumed & _DECISIVE
    if one.most >= (expected.busbw.expected if guessed else least):
        return
    if guessed and one.most >= _WHATEVER * least:
        what = listed(sorted(guessed), 4)
        yield NotEvaluated(f"{what} of the machines that were measured: the log of the run, or --gpu and --nic-gbps")
        return
    yield _finding(one, expected, bool(guessed), estimator)


def _least(one: Measured, expected: Expected, estimator: Estimator) -> float:
    """GB/s below which the measurement is no healthy one's. On two nodes a tree takes traffic off the network and NCCL
    may choose a ring all the same: what a ring reaches is healthy, too."""
    ring = estimator.expect_of(one, {"algorithm": "ring"}) if one.nodes == 2 else None
    low = min(expected.busbw.low, ring.busbw.low) if ring else expected.busbw.low
    return _CLEARLY * low


def _finding(one: Measured, expected: Expected, guessed: bool, estimator: Estimator) -> Finding:
    among = counted(one.ranks, "rank") if one.ranks else "the job"
    on = f" on {counted(one.nodes, 'node')}" if one.nodes else ""
    message = (
        f"{one.collective} of {binary_size(one.size)} among {among}{on} reaches {one.busbw:.3g} GB/s busbw, where"
        f" {with_range(expected.busbw)} GB/s is healthy ({expected.limit})"
    )
    if explained := _explained(one, expected, estimator):
        message += f"; as low with {' or with '.join(explained)}"
    confidence = Confidence.LOW if guessed else Confidence.MEDIUM if expected.assumed else Confidence.HIGH
    return RULE.finding(
        Severity.WARNING,
        confidence,
        message,
        "check the log of the run together with this table (NCCL_DEBUG=INFO"
        " NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH), then hosts in pairs; `nvidia-smi nvlink -s`, `ibstat` and"
        " `sudo lspci -vvv` show links that are down or slow",
        {"hosts": one.hosts},
        (one.evidence,),
        **_numbers(one, estimator),
    )


def _numbers(one: Measured, estimator: Estimator) -> Numbers:
    """Numbers of findings are those of an all_reduce."""
    estimate = estimator.against(one) if one.collective == "all_reduce" else None
    if estimate is None:
        return no_number("findings are priced by what an all_reduce loses; the message has the numbers of this one")
    return Numbers(estimate=estimate, cost=estimator.cost_of(estimate), no_estimate_because=None)


def _explained(one: Measured, expected: Expected, estimator: Estimator) -> tuple[str, ...]:
    """Conditions under which the model gives what was measured, and not what is healthy."""
    found = []
    for told, change in _CONDITIONS:
        between = change.keys() & {"network", "gdr", "nics"}
        if (between and one.nodes == 1) or (not between and one.nodes == one.ranks):
            continue
        worse = estimator.expect_of(one, change)
        if worse and worse.busbw.high < expected.busbw.high and worse.busbw.low <= one.busbw <= worse.busbw.high:
            found.append(told)
    return tuple(found[:_MOST_NAMED])


RULE = Rule(
    code="PRF001",
    name="below-expected",
    severity=Severity.WARNING,
    summary="A benchmark reaches less than the model's healthy range for this configuration",
    check=check,
    since="0.1.0",
    caused_by=(
        "NET001",
        "GDR001",
        "NVL002",
        "NVL004",
        "PCI003",
        "PCI004",
        "IB005",
        "IB006",
        "IB009",
        "IB012",
        "TOP003",
        "HST004",
        "HST007",
    ),
)
