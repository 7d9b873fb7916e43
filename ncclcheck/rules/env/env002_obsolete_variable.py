"""A variable is set that this release of NCCL no longer reads, or reads under another name.

## What it finds

- Variables that NCCL had and gave up before the release of the log: `NCCL_TREE_THRESHOLD` (until 2.4),
  `NCCL_LL_THRESHOLD`, `NCCL_IB_CUDA_SUPPORT`, `NCCL_WORK_FIFO_DEPTH` (until 2.21) and others, with what took their
  place.
- Names that are still read beside a newer one: `NCCL_MAX_NRINGS` for `NCCL_MAX_NCHANNELS`, `NCCL_CHECK_POINTERS` for
  `NCCL_CHECK_MODE` from 2.29.7 on, and what NCCL 2.30.3 and newer calls deprecated or unused
  (`Warning: ENV X is deprecated.`).
- Names from PyTorch before 2.2, where `NCCL_BLOCKING_WAIT`, `NCCL_ASYNC_ERROR_HANDLING` and their like became
  `TORCH_NCCL_...`. PyTorch still reads the old ones and warns. NCCL itself never did.

NCCL does not print a variable that it does not read, so removed ones are found in scripts and `env` dumps only.

## Why it costs

Nothing at run time: the variable has no effect. The job runs on a default that somebody believes to have changed, and
the next upgrade takes the deprecated ones away too.

## Example

    export NCCL_TREE_THRESHOLD=0
    NCCL version 2.18.5+cuda12.2

Since 2.5 the choice between ring and tree is the tuner's; `NCCL_ALGO=Ring` is what switches trees off.

## How to fix

Remove the variable, or set its successor if the effect is still wanted. Check that NCCL prints the new one at
`NCCL_DEBUG=INFO`.

## When it is not a problem

A script that serves several releases sets both names on purpose. With the release of NCCL not in the input nothing is
said about names that some releases read.

## References

- NCCL release notes (2.5: tuner in place of thresholds; 2.22: work FIFO in bytes; 2.30: parameter registry)
- NCCL user guide, Environment Variables, section on deprecated variables
- PyTorch release notes 2.2: `NCCL_*` variables of the process group became `TORCH_NCCL_*`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.releases import release_text
from ncclcheck.facts.settings import Setting, set_to, settings_of
from ncclcheck.facts.variables import Variable, variables
from ncclcheck.rules.common import listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import MOST_SHOWN, NEEDS_RELEASE, NEEDS_SETTINGS, hosts_and_names, proof

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# PyTorch 2.2 renamed its variables; it came with NCCL 2.19.3.
_NCCL_OF_PYTORCH_2_2 = 21903
_CHECK_MODE_FROM = 22907


class _Obsolete(NamedTuple):
    setting: Setting
    why: str
    instead: str
    sure: bool


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = [one for name in settings_of(facts) if (one := _judged(facts, name)) is not None]
    told = {seen.value for kind in ("env_deprecated", "env_unused") for seen in facts.notes(kind)}
    found = [one for one in found if one.setting.name not in told]
    if told:
        yield _by_nccl(facts)
    if found:
        yield _finding(found)
    elif not told and not settings_of(facts):
        yield NotEvaluated(NEEDS_SETTINGS)
    elif not told and not facts.releases and any(_given_up(variables().get(name)) for name in settings_of(facts)):
        yield NotEvaluated(NEEDS_RELEASE)


def _given_up(variable: Variable | None) -> bool:
    return variable is not None and variable.reader == "NCCL" and variable.until is not None


def _judged(facts: Facts, name: str) -> _Obsolete | None:
    variable, setting = variables().get(name), set_to(facts, name)[0]
    if variable is None:
        return None
    oldest = facts.releases[0] if facts.releases else 0
    if _given_up(variable) and oldest > (variable.until or 0) and not setting.in_force:
        return _Obsolete(setting, f"NCCL reads it until {release_text(variable.until or 0)} only", variable.real, True)
    if variable.status == "deprecated" and (name != "NCCL_CHECK_POINTERS" or oldest >= _CHECK_MODE_FROM):
        return _Obsolete(setting, "the old name, read for compatibility", variable.real, True)
    if variable.status == "renamed" and variable.reader == "PyTorch" and oldest >= _NCCL_OF_PYTORCH_2_2:
        return _Obsolete(setting, "renamed in PyTorch 2.2, NCCL itself never reads it", variable.real, False)
    if variable.status == "renamed" and variable.reader != "PyTorch":
        return _Obsolete(setting, "an older form of the name", variable.real, False)
    return None


def _finding(found: list[_Obsolete]) -> Finding:
    settings = [one.setting for one in found]
    said = [f"{one.setting.name} ({one.why})" for one in found]
    fixes = [f"{one.instead} for {one.setting.name}" for one in found if one.instead]
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if all(one.sure for one in found) else Confidence.MEDIUM,
        f"Obsolete in this release: {listed(said, MOST_SHOWN)}",
        f"remove what has no effect{'; use ' + ', '.join(fixes[:MOST_SHOWN]) if fixes else ''}",
        hosts_and_names(settings),
        proof(settings),
        **no_number("a variable that is not read, or has a second name, changes nothing"),
    )


def _by_nccl(facts: Facts) -> Finding:
    deprecated, unused = facts.notes("env_deprecated"), facts.notes("env_unused")
    said = [f"{seen.value} (deprecated)" for seen in deprecated] + [f"{seen.value} (unused)" for seen in unused]
    seen = (*deprecated, *unused)
    instead = [f"{real} for {one.value}" for one in seen if (real := _successor(one.value))]
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH,
        f"NCCL calls obsolete: {listed(said, MOST_SHOWN)}",
        f"remove them from the job's environment{'; use ' + ', '.join(instead) if instead else ''}",
        {"hosts": machines_of(seen), "variable": tuple(dict.fromkeys(one.value for one in seen))},
        evidence_of(seen),
        **no_number("an unused variable changes nothing, a deprecated one still works"),
    )


def _successor(name: str) -> str:
    variable = variables().get(name)
    return variable.real if variable is not None else ""


RULE = Rule(
    code="ENV002",
    name="obsolete-variable",
    severity=Severity.INFO,
    summary="A variable is set that this release of NCCL no longer reads, or reads under another name",
    check=check,
    since="0.1.0",
)
