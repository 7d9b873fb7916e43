"""Processes write one log file and overwrite each other.

## What it finds

`NCCL_DEBUG_FILE` without `%p` in a job script, a launch command or an `env` dump of the input: every process opens
the file for writing from its start, so of all processes of a machine the lines of one (or torn pieces of several) are
left. With `%p` and without `%h` in a directory that hosts share, processes of two hosts with the same number do the
same; that is likely in containers, where process numbers are small and repeat.

NCCL does not print this variable. From 2.4 to 2.21.5 the version line still goes to the standard output of rank 0.

## Why it costs

No bandwidth, but evidence: ranks that fail and ranks that wait look the same once their lines are gone, and rules that
compare ranks (LOG003, ENV004, TOP001) have nothing to compare.

## Example

    export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/shared/logs/nccl.log
    srun --ntasks-per-node=8 python train.py

## How to fix

    export NCCL_DEBUG_FILE=/shared/logs/$SLURM_JOB_ID/nccl.%h.%p.log

and give ncclcheck the directory. `%h` is the host, `%p` the process, `%%` a percent sign.

## When it is not a problem

One process that drives all GPUs of one machine. A file on a local disk needs no `%h`. `/dev/stdout` and `/dev/stderr`
are no files.

## References

- NCCL user guide, Environment Variables: NCCL_DEBUG_FILE
- NCCL sources: `src/debug.cc` (the file is opened with "w")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.jobs import processes_per_machine
from ncclcheck.facts.settings import Setting, set_to
from ncclcheck.rules.common import listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import by_scripts, hosts_and_names, proof

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "NCCL_DEBUG_FILE as the job script or `env` shows it: NCCL does not print the variable"
_LOCAL = re.compile(r"/(?:tmp|var|dev|run|local|localscratch|nvme\w*|raid)\b")
_NO_FILE = re.compile(r"/dev/(?:stdout|stderr|tty|fd/\d+)$")


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    files = [setting for setting in set_to(facts, "NCCL_DEBUG_FILE") if not _NO_FILE.match(setting.value)]
    if not by_scripts(facts):
        yield NotEvaluated(_NEEDS)
        return
    one = [setting for setting in files if "%p" not in setting.value]
    shared = [
        setting for setting in files
        if "%p" in setting.value and "%h" not in setting.value and not _LOCAL.match(setting.value)
    ]  # fmt: skip
    if one and processes_per_machine(facts) == 1 == len(facts.machines):
        return  # nobody to overwrite
    if one:
        yield _finding(one, "lacks %p: all processes of a machine write the same file and overwrite each other", True)
    elif shared and len(facts.machines) > 1:
        what = "lacks %h: on shared storage processes of two hosts with one number overwrite each other"
        yield _finding(shared, what, False)


def _finding(files: list[Setting], what: str, sure: bool) -> Finding:
    name = files[0].value
    stem, dot, suffix = name.rpartition(".")
    missing = "".join(f".{mark}" for mark in ("%h", "%p") if mark not in name)
    better = f"{stem}{missing}.{suffix}" if dot and "/" not in suffix and "%" not in suffix else f"{name}{missing}"
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"NCCL_DEBUG_FILE={listed([setting.value for setting in files])} {what}",
        f"NCCL_DEBUG_FILE={better}, and give ncclcheck the directory",
        hosts_and_names(files),
        proof(files),
        **no_number("a lost log costs no bandwidth"),
    )


RULE = Rule(
    code="LOG004",
    name="log-overwritten",
    severity=Severity.INFO,
    summary="Processes write one log file and overwrite each other",
    check=check,
    since="0.1.0",
)
