"""NCCL registers memory without relaxed ordering on machines where PCIe needs it for full speed.

## What it finds

A `NET/IB : Using` line without `[RO]` of NCCL 2.12.7 or newer, on a machine whose CPUs are AMD's (NCCL's topology dump)
or that is a virtual machine.

## Why it costs

With strict ordering a PCIe write may not overtake an earlier one. Hosts that route peer traffic through the CPU, as AMD
platforms and hypervisors often do, then keep few writes in flight, and an adapter does not reach its rate: UCX's
developers saw 150 instead of 200 Gb/s on an EPYC, and 16 instead of 40 GB/s on one kind of Xeon. On other bare metal
NCCL's developers expect little, so the range goes up to no loss at all.

## Example

    epyc-12:8121:8190 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:10.12.0.12<0>

on a machine whose dump has `CPU/0 (1/2/-1)`: x86, AMD.

## How to fix

- Unset `NCCL_IB_PCI_RELAXED_ORDERING` where it is 0; the default (2) takes relaxed ordering where libibverbs offers it,
  and 1 asks for it.
- If `[RO]` stays away, libibverbs is too old (it lacks `ibv_reg_mr_iova2`): `apt-get install --only-upgrade libibverbs1
  ibverbs-providers` in the image, rdma-core 29 or newer.
- Check the result: `NET/IB : Using ... [RO]`, and `ib_write_bw` with and without `--disable_pcie_relaxed`.

## When it is not a problem

`[RO]` in the line. Releases before 2.12.7, which do not know it. Bare metal with Intel or Arm CPUs: not flagged. One
machine. External plugins register memory their own way.

## References

- NCCL user guide, Environment Variables: NCCL_IB_PCI_RELAXED_ORDERING
- NCCL sources: `src/transport/net_ib.cc` (ncclIbRelaxedOrderingCapable); NVIDIA/nccl issue 1205
- openucx/ucx pull requests 8062 and 10955
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import carried, compared, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_SINCE = 21207
_NEEDS_LIST = "the list of net devices (`NET/IB : Using`, NCCL_DEBUG=INFO with INIT or NET)"
_NEEDS_RELEASE = "the release of NCCL: before 2.12.7 there is no relaxed ordering, and the line looks the same"
_NEEDS_CPU = "the make of the CPUs: NCCL_DEBUG_SUBSYS with GRAPH prints the topology"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    said = facts.notes("relaxed_ordering")
    strict = [seen for seen in said if seen.value == "off"]
    if not said and not carried(facts):
        yield NotEvaluated(_NEEDS_LIST)
    if not strict:
        return
    if not facts.releases:
        yield NotEvaluated(_NEEDS_RELEASE)
    elif facts.releases[-1] >= _SINCE:
        reason = _needs_it(facts)
        if reason:
            yield _finding(facts, estimator, reason)
        elif not facts.cpu_vendors:
            yield NotEvaluated(_NEEDS_CPU)


def _needs_it(facts: Facts) -> str:
    if facts.guest_signs:
        return f"virtual machines ({facts.guest_signs[0].value})"
    return "machines with AMD CPUs" if "AMD" in facts.cpu_vendors else ""


def _finding(facts: Facts, estimator: Estimator, reason: str) -> Finding:
    strict = [seen for seen in facts.notes("relaxed_ordering") if seen.value == "off"]
    forced = [seen for seen in facts.settings("NCCL_IB_PCI_RELAXED_ORDERING") if seen.value.rstrip(".") == "0"]
    why = "NCCL_IB_PCI_RELAXED_ORDERING=0 switches it off" if forced else "libibverbs does not offer it"
    fix = (
        "unset NCCL_IB_PCI_RELAXED_ORDERING"
        if forced
        else "update libibverbs1 and ibverbs-providers (rdma-core 29 or newer) in the image"
    )
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if forced else Confidence.MEDIUM,
        f"On {place(machines_of(strict), 'a machine')} NCCL does without relaxed ordering on PCIe ({why}); these are"
        f" {reason}",
        f"{fix}; `NET/IB : Using` then ends in [RO]",
        {"hosts": machines_of(strict)},
        evidence_of([*strict, *forced]),
        **compared(estimator, {}, {"effect": "strict-ordering"}),
    )


RULE = Rule(
    code="IB011",
    name="relaxed-ordering",
    severity=Severity.INFO,
    summary="NCCL registers memory without relaxed ordering on machines where PCIe needs it for full speed",
    check=check,
    since="0.1.0",
)
