"""The job's collectives are bound by latency: their messages are small.

## What it finds

The collectives that the job calls (lines of `NCCL_DEBUG_SUBSYS=COLL`: operation, count, datatype), each timed by the
model at its size. Where more than half of the time of all calls is latency on every configuration that fits the log,
the job sends messages too small for its network.

## Why it costs

A call takes a fixed time, a1, beside its bytes: about 15 us on one node of eight GPUs, 20 to 60 us between nodes over
RDMA, more over sockets, and more with every doubling of the nodes. While that passes no byte moves: faster links,
more NICs and other algorithms of bandwidth change nothing.

## Example

    node1:731:880 [0] NCCL INFO AllReduce: opCount 7d1 sendbuff 0x7f10 recvbuff 0x7f10 count 2048 datatype 7 op 0 root 0
    comm 0x55d0 [nranks=16] stream 0x55d1

8 KiB among 16 ranks: at 20 us a call they move 0.8 GB/s, however fast the links are.

## How to fix

Fewer and larger calls:

| who calls | what to set |
| --- | --- |
| PyTorch DDP | `DDP(model, bucket_cap_mb=100)`; `gradient_as_bucket_view=True` |
| FSDP | wrap whole blocks (`transformer_auto_wrap_policy`), not single layers |
| DeepSpeed | `reduce_bucket_size`, `allgather_bucket_size` of 5e8 |
| own code | one tensor in place of many; several calls between ncclGroupStart and ncclGroupEnd |
| calls that must stay small | CUDA graphs save the launch of each; NVLS and trees have less latency than rings |

## When it is not a problem

Inference with tensor parallelism sends small messages by nature: there latency is what counts, and PCIe or NVLink
inside a node is what to look at. A log of the first steps shows set-up calls only; fewer than 20 calls per rank are not
judged. Runs of nccl-tests, which go through all sizes on purpose, are silent.

## References

- NCCL user guide, Troubleshooting and Group Calls (aggregation of small operations)
- PyTorch documentation: DistributedDataParallel (bucket_cap_mb), FSDP (auto_wrap_policy)
- `estimate/latency.py`: a1 by size and path, measured with nccl-tests
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.estimate.estimates import Cost
from ncclcheck.estimate.quantities import count_text
from ncclcheck.estimate.training.log_calls import of_log
from ncclcheck.facts.operations import first_calls
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.estimate.training.latency_share import LatencyShare
    from ncclcheck.estimate.training.workload import Workload
    from ncclcheck.facts.facts import Facts

_NEEDS = "the collectives that the job calls, and some steps of them: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,COLL"
_FIX = (
    "fewer and larger calls: DDP(model, bucket_cap_mb=100), whole blocks as units of FSDP, reduce_bucket_size 5e8 of"
    " DeepSpeed, several calls between ncclGroupStart and ncclGroupEnd; CUDA graphs where they must stay small"
)
# Calls of one rank: those of starting up are no picture of the job.
_FEWEST_CALLS = 20
_MOSTLY = 0.5


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts["measurements"].height:
        return  # a benchmark goes through the sizes on purpose
    workload = of_log(facts.picture()) if facts["operations"].height else None
    if workload is None or sum(one.calls for one in workload.collectives) < _FEWEST_CALLS:
        yield NotEvaluated(_NEEDS)
        return
    found = estimator.latency_share(workload)
    if found is None:
        yield NotEvaluated(estimator.why_not or _NEEDS)
    elif found.share.low > _MOSTLY:
        yield _finding(facts, workload, found)


def _finding(facts: Facts, workload: Workload, found: LatencyShare) -> Finding:
    calls = sum(one.calls for one in workload.collectives)
    one = found.worst
    return RULE.finding(
        Severity.INFO,
        Confidence.MEDIUM,
        f"The job's collectives are bound by latency: {found.share.expected:.0%} of the time of the {count_text(calls)}"
        f" calls of a rank passes without moving bytes, most of it in {one.name} among {one.ranks} ranks"
        f" ({count_text(one.calls)} calls)",
        _FIX,
        {},
        first_calls(facts),
        cost=Cost("s of latency in the calls that the log saw, for each rank", found.seconds),
        no_estimate_because="larger messages save time, and no link becomes faster",
    )


RULE = Rule(
    code="PRF003",
    name="small-messages",
    severity=Severity.INFO,
    summary="The job's collectives are bound by latency: their messages are small",
    check=check,
    since="0.1.0",
)
