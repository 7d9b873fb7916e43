"""Data change on their way: wrong results of nccl-tests, or of NCCL's own diagnostics.

## What it finds

Tables of nccl-tests, as text or JSON, whose `#wrong` is not 0, or whose last lines say `Out of bounds values : 3
FAILED`. Releases before 2.13 print a relative error instead; of these the count in the last lines decides.

`NCCL DIAG` lines of NCCL 2.31 and newer (`NCCL_RUN_DIAGNOSTICS=1`) in which a GPU wrote or read other bytes than its
peer (`p2p: write mismatch`).

## Why it costs

Something on the way changed the numbers: what a training job adds up is wrong in the same way. It shows later, if at
all, as a loss that jumps or a model that is worse. No bandwidth stands against that.

## Example

    # all_reduce_perf on two nodes
         1048576        262144     float     sum      -1    48.50   21.62   40.54      3    47.57   22.04   41.33      0
    # Out of bounds values : 3 FAILED

## How to fix

Find the part, then the path:

1. Each machine alone, then pairs: `all_reduce_perf -b 8 -e 1G -f 2 -g 8 -c 1`.
2. One path after the other off: `NCCL_PROTO=^LL128`, `NCCL_NVLS_ENABLE=0`, `NCCL_P2P_DISABLE=1`,
   `NCCL_NET_GDR_LEVEL=LOC`. The one that mends it names the part: LL128 on a machine that does not keep 128 byte
   writes whole, the NVSwitches, peer access over PCIe (ACS, IOMMU), GPUDirect RDMA.
3. The part itself: `nvidia-smi -q -d ECC,ROW_REMAPPER`, `dcgmi diag -r 3`, `dmesg | grep -iE 'xid|mce'`.

## When it is not a problem

`N/A` means that nobody checked (`-c 0`), which is no error. Relative errors of old releases, such as 5e-07, are what
adding in another order gives.

## References

- nccl-tests: `src/common.cu` (CheckData), doc/PERFORMANCE.md
- NCCL user guide, Environment Variables: NCCL_PROTO ("LL128 ... may cause data corruption")
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.settings import set_to
from ncclcheck.facts.wrong_results import WrongResults, WrongTransfer, were_checked, wrong_results, wrong_transfers
from ncclcheck.rules.common import counted, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_FIX_PEERS = (
    "NCCL_P2P_DISABLE=1 keeps the job right until it is mended; nvidia-smi nvlink -s and -e, nvidia-smi -q -d"
    " ECC,ROW_REMAPPER, dmesg | grep -iE 'xid|aer', lspci -vv | grep ACSCtl (NCCL documentation, Troubleshooting: PCI"
    " Access Control Services), dcgmi diag -r 3"
)
_NEEDS = "a table of nccl-tests whose results were checked: all_reduce_perf -b 8 -e 1G -f 2 -g 8 -c 1"
_FIX = (
    "all_reduce_perf -b 8 -e 1G -f 2 -g 8 -c 1 on each machine alone and then in pairs finds the machine;"
    " NCCL_PROTO=^LL128, NCCL_NVLS_ENABLE=0, NCCL_P2P_DISABLE=1 and NCCL_NET_GDR_LEVEL=LOC, one at a time, find the"
    " path; nvidia-smi -q -d ECC,ROW_REMAPPER and dcgmi diag -r 3 the part"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = wrong_results(facts)
    if found:
        yield _finding(facts, found)
    elif transfers := wrong_transfers(facts):
        yield _of_diagnostics(transfers)
    elif not were_checked(facts):
        yield NotEvaluated(_NEEDS)


def _finding(facts: Facts, found: tuple[WrongResults, ...]) -> Finding:
    hosts = tuple(sorted({host for one in found for host in one.hosts}))
    said = [_told(one) for one in found]
    where = f" on {place(hosts, '')}" if hosts else ""
    asked = any("LL128" in one.value.upper() and "^" not in one.value for one in set_to(facts, "NCCL_PROTO"))
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if any(one.values for one in found) else Confidence.MEDIUM,
        f"nccl-tests got wrong results{where}: {listed(said)}; data change on their way",
        _FIX,
        {"hosts": hosts},
        tuple(line for one in found for line in one.evidence)[:4],
        causes=("HST004", *(("ENV005",) if asked else ())),
        **no_number("wrong results have no bandwidth"),
    )


def _of_diagnostics(transfers: tuple[WrongTransfer, ...]) -> Finding:
    hosts = tuple(dict.fromkeys(one.machine for one in transfers if one.machine))
    told = [
        f"{one.direction} of rank {one.source} to rank {one.destination}{f' over {one.path}' if one.path else ''}"
        for one in transfers
    ]
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"NCCL's own diagnostics found other bytes than were sent between GPUs: {listed(told)}",
        _FIX_PEERS,
        {"hosts": hosts, "ranks": tuple(dict.fromkeys(str(one.source) for one in transfers))},
        tuple(one.evidence for one in transfers[:4]),
        causes=("HST004", "PCI004"),
        **no_number("wrong results have no bandwidth"),
    )


def _told(one: WrongResults) -> str:
    """`3 wrong values in all_reduce at 1 MiB and 4 MiB`."""
    what = counted(one.values, "wrong value") if one.values else "errors beyond rounding"
    sizes = f" at {listed([binary_size(size) for size in one.sizes])}" if one.sizes else ""
    return f"{what} in {one.collective}{sizes}"


RULE = Rule(
    code="PRF002",
    name="data-error",
    severity=Severity.ERROR,
    summary="Data change on their way: wrong results of nccl-tests, or of NCCL's own diagnostics",
    check=check,
    since="0.1.0",
)
