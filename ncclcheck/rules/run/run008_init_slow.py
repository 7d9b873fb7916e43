"""Init of a communicator took long, and most of it was waiting or connecting.

## What it finds

`Init timings` (2.22.3 and newer, at INFO) with a total of 10 s or more, of which bootstrap or connections are at least
half, as the median over the ranks.

Bootstrap is a rendezvous: who comes early waits for who comes last. So a **long** bootstrap on most ranks and a
**short** one on a few means that those few came late; they are named. Where all ranks spend the same time in it, the
rendezvous itself is slow.

## Why it costs

Seconds at each start and each new communicator, times all GPUs: 60 s on 512 GPUs are 8.5 GPU-hours. It is no loss of
bandwidth and needs no change of NCCL's transports. The cost counts what would be gained: the wait beyond that of the
latest rank, where some came late, else all of it.

## Example

    pine-2:2322:2335 [7] NCCL INFO Init timings - ncclCommInitRank: rank 15 nranks 16 total 64.20 (kernels 0.25, alloc
    0.33, bootstrap 62.90, allgathers 0.02, topo 0.15, graphs 0.05, connections 0.48, rest 0.02)

## How to fix

- Late ranks: what do they do before init? Image pull, import of packages from a shared file system, data sets,
  checkpoints, compilation. Compare the time stamps of their first lines with those of others.
- All alike: `NCCL_SOCKET_IFNAME` to the fast and direct interface, name resolution, a store or root on a loaded host;
  several roots for thousands of ranks (`ncclCommInitRankScalable`, 2.23 and newer; NCCL_UID_STAGGER_RATE).
- Connections: connect at first use (`NCCL_RUNTIME_CONNECT=1`, the default), fewer channels and communicators,
  `ncclCommSplit` with shared resources (`NCCL_COMM_SPLIT_SHARE_RESOURCES=1`).

## When it is not a problem

Kernels that load at the first init are counted apart (`kernels`, lazy loading of CUDA modules). A job that starts once
and runs for days may not care.

## References

- NCCL sources: `src/init.cc` (timers), `src/bootstrap.cc`
- NCCL user guide, Creating a communicator; Environment Variables: NCCL_RUNTIME_CONNECT, NCCL_UID_STAGGER_RATE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.init_times import InitTimes, init_times
from ncclcheck.rules.common import place
from ncclcheck.rules.failures import folded, ranks_in_words
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "'Init timings' of a communicator of several ranks (2.22.3 and newer, NCCL_DEBUG=INFO)"
_PRINTED_FROM = 22203
_NEEDS_RELEASE = "NCCL 2.22.3 or newer, which prints 'Init timings'"
# Loading kernels and searching the topology take some seconds on a healthy machine.
_LONG_S = 10.0
_SHARE = 0.5

_FIX_LATE = (
    "see what these ranks do before init (image pull, imports from a shared file system, data loading): compare the"
    " time stamps of their first lines with those of the others"
)
_FIX_RENDEZVOUS = (
    "NCCL_SOCKET_IFNAME=<fast interface> on all hosts, name resolution, load of rank 0's host; where only part of the"
    " ranks is in the input, the late ones may be among the others"
)
_FIX_CONNECT = "leave NCCL_RUNTIME_CONNECT at 1; fewer channels and communicators; NCCL_COMM_SPLIT_SHARE_RESOURCES=1"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    times = init_times(facts)
    if not times:
        old = facts.release is not None and facts.release < _PRINTED_FROM
        yield NotEvaluated(_NEEDS_RELEASE if old else _NEEDS)
    for one in times:
        if one.total >= _LONG_S and max(one.bootstrap, one.connections) >= _SHARE * one.total:
            yield _finding(one, estimator)
            return


def _finding(one: InitTimes, estimator: Estimator) -> Finding:
    late = one.late if len(one.late) * 2 < one.ranks else ()
    message, fix = _told(one, late)
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if late or one.ranks == one.nranks else Confidence.MEDIUM,
        f"Init of {one.nranks} ranks took {one.total:.0f} s, {message}",
        fix,
        {"hosts": one.late_machines if late else (), "ranks": folded(late)},
        one.evidence,
        cost=estimator.at_each_init(_wait(one, late), one.nranks),
        no_estimate_because="seconds at each init, no bandwidth",
    )


def _wait(one: InitTimes, late: tuple[int, ...]) -> float:
    if one.connections > one.bootstrap:
        return one.connections
    return one.bootstrap - one.shortest if late else one.bootstrap


def _told(one: InitTimes, late: tuple[int, ...]) -> tuple[str, str]:
    if one.connections > one.bootstrap:
        return f"{one.connections:.0f} s of it to connect", _FIX_CONNECT
    waited = f"{one.bootstrap:.0f} s of it in bootstrap"
    if not late:
        return f"{waited}, on all ranks of the input alike", _FIX_RENDEZVOUS
    where = f" on {place(one.late_machines, '')}" if one.late_machines else ""
    return f"{waited}: most ranks waited for {ranks_in_words(late)}{where} ({one.shortest:.1f} s)", _FIX_LATE


RULE = Rule(
    code="RUN008",
    name="init-slow",
    severity=Severity.INFO,
    summary="Init of a communicator took long, and most of it was waiting or connecting",
    check=check,
    since="0.1.0",
)
