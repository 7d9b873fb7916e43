"""Ranks of one communicator do not call the same operation.

## What it finds

- NCCL's complaints: `collective mismatch error, local size ... remote size` (RDMA, up to 2.19.4), `message truncated :
  receiving ... bytes instead of` (sockets), `Mismatched collective detected ... around rank` (up to 2.7.6)
- lines of COLL: the same number of operation (`opCount`) of one communicator with another operation, count, type or
  root on some ranks; the odd ones are named
- PyTorch's `Detected mismatch between collectives on ranks` (TORCH_DISTRIBUTED_DEBUG=DETAIL)
- bootstrap: ranks that disagree on how many they are, or two with one rank.

## Why it costs

Collectives match by order alone. Ranks that call different ones wait for each other for ever, read past a buffer, or
add up numbers that do not belong together; from 2.20.3 on RDMA no longer compares sizes, so that most cases are silent
hangs. GPUs x time until the watchdog fires.

## Example

    birch-2:2137:2137 [1] NCCL WARN NET/Socket : peer 10.20.1.6<41233> message truncated : receiving 524288 bytes
    instead of 131072

## How to fix

- Find the call: `TORCH_DISTRIBUTED_DEBUG=DETAIL`, the flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE=2000`), or
  `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL` and compare `opCount` of the ranks.
- Usual: a collective under `if rank == 0`, an uneven last batch, a parameter without gradient on some ranks
  (`find_unused_parameters`), an exception that one rank caught, dtypes that differ, groups created in another order.
- Sizes that differ by a power of two or by the protocol's buffer: NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE, NCCL_NTHREADS
  or the release of NCCL differ between ranks.
- Bootstrap: two jobs on one port or id, a world size that differs between hosts, a rank that is started twice.

## When it is not a problem

`Send` and `Recv` belong to two ranks and are not compared. Operations of one group share a number. Counts of AllGather
and ReduceScatter are per rank and equal. A job that came to a good end is not judged by its COLL lines.

## References

- NCCL user guide, Collective Operations; Environment Variables: NCCL_PROTO, NCCL_ALGO
- PyTorch documentation: torch.distributed, Debugging applications; flight recorder
- NCCL sources: `src/transport/net_ib.cc`, `src/transport/net_socket.cc`, `src/bootstrap.cc`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.endings import has_ended
from ncclcheck.facts.mismatches import Mismatch, Odd, mismatches, odd_operations
from ncclcheck.rules.common import place
from ncclcheck.rules.failures import ranks_in_words, standstill
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed)"
# Anywhere in the job: releases or settings that differ make ranks call differently.
_CAUSES = ("RUN001", "ENV004")
_FIX_CALLS = (
    "find the call that differs: TORCH_DISTRIBUTED_DEBUG=DETAIL, the flight recorder, or NCCL_DEBUG=INFO"
    " NCCL_DEBUG_SUBSYS=INIT,COLL and compare opCount; a collective under `if rank`, an uneven last batch, unused"
    " parameters"
)
_FIX_SIZES = f"compare NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE and the release of NCCL on both ranks; then {_FIX_CALLS}"
_FIX_BOOTSTRAP = (
    "one world size on all hosts, each rank started once, an id (MASTER_PORT, NCCL_COMM_ID) of its own per job"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    complaints = mismatches(facts)
    for complaint in complaints:
        message, fix, confidence = _told(complaint)
        yield standstill(
            RULE, estimator, message, confidence, fix, complaint.machines, complaint.ranks, complaint.evidence, _CAUSES
        )
    odd = odd_operations(facts)
    if odd:
        yield _odd(estimator, odd, has_ended(facts))
    if not complaints and not odd and not facts.visibility.info and not facts.failures():
        yield NotEvaluated(_NEEDS)


def _told(one: Mismatch) -> tuple[str, str, Confidence]:
    where = place(one.machines, "a rank")
    sizes = f" ({one.sizes[0]} and {one.sizes[1]} bytes)" if one.sizes else ""
    if one.kind == "sizes":
        message = f"{where} and a peer disagree on the size of a message{sizes}: another collective, or other settings"
        return message, _FIX_SIZES, Confidence.HIGH
    if one.kind == "around":
        return (
            f"NCCL finds collectives that do not match, around {ranks_in_words(one.ranks)}",
            _FIX_CALLS,
            Confidence.MEDIUM,
        )
    if one.kind == "torch":
        return "PyTorch finds that ranks are about to call different collectives", _FIX_CALLS, Confidence.HIGH
    if one.kind == "nranks":
        counts = f": {one.sizes[0]} and {one.sizes[1]}" if one.sizes else ""
        return f"Ranks that meet at one id disagree on how many they are{counts}", _FIX_BOOTSTRAP, Confidence.HIGH
    if one.kind == "rank":
        return (
            f"Two processes claim to be {ranks_in_words(one.ranks)} of one communicator",
            _FIX_BOOTSTRAP,
            Confidence.HIGH,
        )
    message = f"Ranks exchange data of different sizes at the start{sizes}: other calls, or other releases of NCCL"
    return message, _FIX_SIZES, Confidence.MEDIUM


def _odd(estimator: Estimator, odd: tuple[Odd, ...], ended: bool) -> Finding:
    one = odd[0]
    (few, few_ranks), (many, many_ranks), *_ = one.calls
    message = (
        f"Ranks of a communicator of {one.nranks} disagree on operation {one.number:#x}:"
        f" {ranks_in_words(few_ranks)} with {few}, {ranks_in_words(many_ranks)} with {many}"
    )
    confidence = Confidence.HIGH if ended else Confidence.MEDIUM
    return standstill(RULE, estimator, message, confidence, _FIX_CALLS, one.machines, few_ranks, one.evidence, _CAUSES)


RULE = Rule(
    code="RUN005",
    name="collective-mismatch",
    severity=Severity.ERROR,
    summary="Ranks of one communicator do not call the same operation",
    check=check,
    since="0.1.0",
)
