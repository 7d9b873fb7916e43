"""Ranks of one job have different values of one variable.

## What it finds

A variable that NCCL prints with different values on processes that communicators tie into one job. An **error** for
what decides which algorithm, protocol, transport, buffer or channel count both ends of a connection take: NCCL_ALGO,
NCCL_PROTO, buffer and chunk sizes, NCCL_NTHREADS, minimum and maximum channels and CTAs, NCCL_CROSS_NIC, NCCL_NET,
NCCL_IB_DISABLE, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, the levels of P2P and GPUDirect, NCCL_CUMEM_ENABLE, MNNVL, NVLS,
PXN, CollNet, the graph file. **Information** for the others: what a host may have for itself (interfaces, HCAs, log
levels, paths, host identity) and what only deserves a look.

Unset on some ranks is no disagreement: NCCL prints a variable when it is first used, and many logs hold rank 0 only.
Restarts and other jobs in the same input are kept apart.

## Why it costs

NCCL takes for granted that all ranks compute the same plan. With a different algorithm or protocol on one rank the
first collective hangs, is truncated or gives wrong numbers; with a different level or transport one node makes other
connections than its peers wait for; with different buffer sizes messages are cut. Where it works at all, everybody
runs at the pace of the slowest.

## Example

    gpu-a1:4410:4471 [0] NCCL INFO NCCL_PROTO set by environment to LL
    gpu-a2:9120:9183 [0] NCCL INFO NCCL_PROTO set by environment to Simple

## How to fix

Give all ranks one environment: export it in the job script and let the launcher pass it (`mpirun -x NAME`,
`srun --export=ALL`), and look for files that only some hosts have:

    pdsh -w 'gpu-a[1-2]' 'cat /etc/nccl.conf ~/.nccl.conf 2>/dev/null; env | grep NCCL_' | dshbak -c

## When it is not a problem

NCCL_SOCKET_IFNAME and NCCL_IB_HCA differ where machines name their devices differently, or where each rank is pinned
to its own HCA on purpose. NCCL_DEBUG on rank 0 only is a habit.

## References

- NCCL user guide, Environment Variables (which must be equal on all ranks)
- NCCL sources: `src/init.cc` (initTransportsRank), `src/graph/tuning.cc`, `src/misc/param.cc` (`/etc/nccl.conf`,
  `~/.nccl.conf`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.settings import Disagreement, disagreements, printed_by_several
from ncclcheck.facts.variables import agreement
from ncclcheck.rules.common import counted, listed, no_number, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_NEEDS = "what NCCL prints of its settings on several ranks of the job (NCCL_DEBUG=INFO, ENV in NCCL_DEBUG_SUBSYS)"
# Both ends of a connection count steps, channels and what a step holds by these.
_STOPS = re.compile(r"NCCL_(?:ALGO|PROTO|(?:LL_|LL128_)?BUFFSIZE|(?:MIN|MAX)_(?:NCHANNELS|NRINGS|CTAS))")
_FIX = (
    "export one value on all ranks (mpirun -x NAME, srun --export=ALL); look for files that only some hosts have:"
    " pdsh -w ... 'cat /etc/nccl.conf ~/.nccl.conf; env | grep NCCL_' | dshbak -c"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = disagreements(facts)
    serious = [one for one in found if agreement(one.name) == "job"]
    others = [one for one in found if one not in serious]
    if serious:
        yield _must_agree(serious, estimator)
    if others:
        yield _may_differ(others)
    if not found and not printed_by_several(facts):
        yield NotEvaluated(_NEEDS)


def _must_agree(found: list[Disagreement], estimator: Estimator) -> Finding:
    values = [f"{one.name} ({_values(one)})" for one in found]
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if all(one.tied for one in found) else Confidence.MEDIUM,
        f"Ranks of one job disagree on {listed(values, 3)}: both ends of a connection must have the same value",
        _FIX,
        _subject(found),
        _proof(found),
        **_numbers(found, estimator),
    )


def _numbers(found: list[Disagreement], estimator: Estimator) -> Numbers:
    """A job that was measured does not stand still."""
    stands = any(one.tied and _STOPS.fullmatch(one.name) for one in found)
    if stands and estimator.shape.measured is None:
        return stopped(estimator)
    return no_number("ranks that disagree hang, cut messages or run at the pace of the slowest: which of it is open")


def _may_differ(found: list[Disagreement]) -> Finding:
    values = [f"{one.name} ({_values(one)})" for one in found]
    pinned = all(one.by_rank and agreement(one.name) == "host" for one in found)
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if all(one.tied for one in found) else Confidence.MEDIUM,
        f"Ranks of one job have different values of {listed(values, 3)}"
        + (": pinned rank by rank" if pinned else ", which each host may have for itself"),
        f"nothing, if it is meant; else {_FIX}",
        _subject(found),
        _proof(found),
        **no_number("these need not agree"),
    )


def _values(one: Disagreement) -> str:
    """`LL on a1, Simple on 3 machines`: the values of the fewest machines first, for that is the odd one."""
    ordered = sorted(one.machines.items(), key=lambda item: len(item[1]))
    if one.by_rank:
        numbers = sorted(one.processes.items(), key=lambda item: item[1])
        return listed([f"{value} on {counted(number, 'process', 'processes')}" for value, number in numbers], 4)
    said = [
        f"{value} on {machines[0] if len(machines) == 1 else counted(len(machines), 'machine')}" if machines else value
        for value, machines in ordered
    ]
    return listed(said, 3)


def _subject(found: list[Disagreement]) -> dict[str, tuple[str, ...]]:
    machines = {name for one in found for names in one.machines.values() for name in names}
    return {"hosts": tuple(sorted(machines)), "variable": tuple(one.name for one in found)}


def _proof(found: list[Disagreement]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(line for turn in range(4) for one in found for line in one.evidence[turn : turn + 1]))[
        :4
    ]


RULE = Rule(
    code="ENV004",
    name="ranks-disagree",
    severity=Severity.ERROR,
    summary="Ranks of one job have different values of one variable",
    check=check,
    since="0.1.0",
)
