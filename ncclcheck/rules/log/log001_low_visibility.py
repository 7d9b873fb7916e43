"""The debug level or subsystems of the log hide lines that the rules need.

## What it finds

- NCCL_DEBUG=VERSION or WARN: the only NCCL lines are the version line and warnings. No rule about networks,
  transports or topology can speak, and NCCL prints **no** WARN when it falls back to sockets or turns GPUDirect off.
- A subsystem list without INIT (`NCCL_DEBUG_SUBSYS=COLL` shows collectives and neither INIT nor NET), or an excerpt
  without such lines.

What single rules lack beyond that (NET, GRAPH, ENV) stands in the last lines of the report.

Default masks: INIT until 2.16.2, INIT and ENV from 2.16.5, INIT, BOOTSTRAP and ENV from 2.23.4. A list in
NCCL_DEBUG_SUBSYS replaces them; a leading `^` takes names away from ALL. Unknown names are ignored.

## Why it costs

Nothing by itself. It is the reason that the report has less to say: silence of a rule that had no facts is not a pass.

## Example

    NCCL version 2.19.3+cuda12.2
    step 1 loss 11.02 tokens/s 412

One bare line: the release is known, and nothing else.

## How to fix

For a diagnosis run, one file per process:

    export NCCL_DEBUG=INFO
    export NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH
    export NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log        # %p, or ranks of a node overwrite each other

What the additions show: NET the HCA list with rates and PCI paths (2.27.3 and newer) and why GPUDirect was refused
(until 2.29.7); GRAPH the PCI tree, NVLink totals, path types, ring patterns and crossNic; TUNING the model's choice;
COLL each call (large: use it for one minute). From 2.26.2 `NCCL_DEBUG_TIMESTAMP_LEVELS=INFO,WARN` adds the time.
Options of the launcher that drop output of all ranks but one (`--local-ranks-filter`, Ray's log folding) hide as much
as the level: LOG003 tells.

For production keep `NCCL_DEBUG=WARN`; INFO prints at init and at the first collective only, a few hundred lines per
8-GPU node, and costs no bandwidth.

## When it is not a problem

When the question at hand needs no more: a failure with its WARN, a version check. From 2.30.3 destroy lines are
in a subsystem of their own and absent by default, which hides nothing that matters here.

## References

- NCCL user guide, Environment Variables: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE,
  NCCL_DEBUG_TIMESTAMP_FORMAT, NCCL_DEBUG_TIMESTAMP_LEVELS
- NCCL sources: `src/debug.cc`, `src/include/nccl_common.h` (subsystems)
- NVIDIA/nccl issue 1667: which lines answer which question
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


_FIX = "rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    seen = facts.visibility
    if not seen.log:
        yield NotEvaluated("an NCCL log")
    elif not seen.info:
        yield _finding("The log holds no INFO lines of NCCL: what it decided about networks and GPUs is hidden")
    elif not seen.init:
        yield _finding(
            "No INIT lines (NCCL_DEBUG_SUBSYS without INIT, or an excerpt): interfaces, networks and communicators are"
            " not in the log"
        )


def _finding(message: str) -> Finding:
    return RULE.finding(
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        message=message,
        fix=_FIX,
        no_estimate_because="a log that hides things costs no bandwidth",
    )


RULE = Rule(
    code="LOG001",
    name="low-visibility",
    severity=Severity.INFO,
    summary="The debug level or subsystems of the log hide lines that the rules need",
    check=check,
    since="0.1.0",
)
