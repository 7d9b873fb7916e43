"""A variable has a value that NCCL ignores, cannot read or reads as something else.

## What it finds

- Numbers and switches that NCCL says it cannot use: `Invalid value true for NCCL_IB_DISABLE, using default 0`,
  `NCCL_MAX_CTAS 0 is too low, leaving it set at -1`, sockets and threads beyond the limit.
- Values outside the range or the set that the variable has: `NCCL_IB_TC=512`, `NCCL_NTHREADS=384`.
- `NCCL_ALGO` and `NCCL_PROTO`: items that the release does not know, empty items (`Tree,,Ring`), functions that do not
  exist (`allreduse:tree`). Up to 2.23 an unknown name is left out without a word; if none is left, no algorithm is.
  From 2.24 on init fails. Upper and lower case are the same.
- `NCCL_IB_HCA` and `NCCL_SOCKET_IFNAME`: `^` and `=` stand once, in front of the whole list, in this order (`^=a,b`);
  blanks, quotes, `!`, a second `=` or `^` become part of a name that no device has.
- Levels (`NCCL_P2P_LEVEL`, `NCCL_NET_GDR_LEVEL`, `NCCL_NET_MERGE_LEVEL`) that are misspelt or in lower case: ignored
  in silence, and never printed. They and unknown names in `NCCL_DEBUG_SUBSYS` are found in scripts only.

## Why it costs

The job runs with something else than what the setting says: the default, a shorter list, no device at all. With no
algorithm or no device left it stops at init or at the first collective.

## Example

    NCCL version 2.18.5+cuda12.2
    gpu-b1:5120:5177 [0] NCCL INFO NCCL_ALGO set by environment to Ring,,Three

## How to fix

Correct the value; `NCCL_ALGO=^NVLS` leaves one out and keeps the rest. Levels are LOC, NVL, PIX, PXB, PHB, SYS in
upper case. `NCCL_IB_HCA==mlx5_0,mlx5_1` names whole devices (the first `=` belongs to the shell). Values of docker
`--env-file` and of Slurm's `--export` are taken with their quotes: leave them out.

## When it is not a problem

Upper or lower case in NCCL_ALGO, NCCL_PROTO, NCCL_DEBUG and NCCL_NET. A default given by hand (`-1`, `-2`). A comma
at the end of a list.

## References

- NCCL user guide, Environment Variables
- NCCL sources: `src/misc/param.cc`, `src/graph/tuning.cc` (parseList), `src/misc/utils.cc` (parseStringList),
  `src/graph/paths.cc` (ncclGetLevel)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.settings import Setting, settings_of
from ncclcheck.facts.variables import (
    DEVICE_LISTS,
    LOG_LEVELS,
    STRICT_LISTS_FROM,
    SUBSYSTEMS,
    choice,
    variables,
)
from ncclcheck.rules.common import listed, no_number, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import MOST_SHOWN, NEEDS_SETTINGS, written

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# WARN lines that refuse or cut a value; the variable is in them.
_REFUSED = re.compile(
    r"^(?:NET/\w+ ?: )?(?:'?(NCCL_\w+)\S* (?:is greater than the maximum|is being ignored|is too small"
    r"|has invalid value|set to a value greater)"
    r"|the total number of sockets is greater than the maximum.*(NCCL_NSOCKS_PERTHREAD)"
    r"|(NCCL_\w+): unknown value|(NCCL_\w+)=\S+ is out of range|Invalid (NCCL_\w+)\b)"
)
_UNKNOWN_ITEM = re.compile(r"^(?:Unrecognized (?:element|prefix) token|All entries except the first must have)")


class _Fault(NamedTuple):
    """name: of the variable. says: what is wrong. stops: NCCL says that init or a collective fails by it."""

    name: str
    says: str
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    sure: bool
    stops: bool = False


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    faults = [*_by_nccl(facts), *_by_value(facts)]
    if faults:
        yield _finding(faults, estimator)
    elif not settings_of(facts):
        yield NotEvaluated(NEEDS_SETTINGS)


def _by_nccl(facts: Facts) -> Iterator[_Fault]:
    for seen in facts.notes("env_invalid"):
        name = seen.value.partition("=")[0]
        yield _Fault(name, f"{seen.value}: NCCL does not take the value", seen.machines, seen.evidence, True)
    for failure in facts.failures("warn"):
        text = failure.fields.get("text", "")
        refused = _REFUSED.match(text)
        if refused:
            name = next(group for group in refused.groups() if group)
            yield _Fault(name, f"{name}: {text}", failure.machines, failure.evidence, True)
        elif _UNKNOWN_ITEM.match(text):
            yield _Fault(
                "NCCL_ALGO or NCCL_PROTO", f"{text}: init fails", failure.machines, failure.evidence, True, True
            )


def _by_value(facts: Facts) -> Iterator[_Fault]:
    for name, settings in settings_of(facts).items():
        for setting in settings:
            says = _wrong(facts, name, setting)
            if says:
                yield _Fault(
                    name, f"{written(setting)}: {says}", setting.machines, setting.evidence, setting.in_force,
                    name in ("NCCL_ALGO", "NCCL_PROTO") and _nothing_left(facts, setting),
                )  # fmt: skip


def _wrong(facts: Facts, name: str, setting: Setting) -> str:
    """What is wrong with the value; "" where nothing is."""
    value = setting.value
    if name in ("NCCL_ALGO", "NCCL_PROTO"):
        return _wrong_choice(facts, name, value)
    if name in DEVICE_LISTS:
        return _wrong_list(value)
    if name == "NCCL_DEBUG_SUBSYS":
        unknown = [item for item in value.lstrip("^").split(",") if item and item.upper() not in SUBSYSTEMS]
        return f"no subsystem is called {listed(unknown)}" if unknown else ""
    if name == "NCCL_DEBUG":
        return "" if value.upper() in LOG_LEVELS else f"no level ({', '.join(sorted(LOG_LEVELS))}): nothing is printed"
    variable = variables().get(name)
    if variable is None or variable.reader != "NCCL" or variable.allows(value):
        return ""
    if setting.in_force and variable.kind in ("level", "string", "list", "path"):
        return ""  # what NCCL prints of these it has understood
    if variable.kind == "level":
        return "no level (LOC, NVL, PIX, PXB, PHB, SYS, in upper case): ignored in silence"
    if variable.kind == "bool":
        return "not 0 or 1" + (", any other number counts as 1" if re.fullmatch(r"-?\d+", value) else ": ignored")
    return f"outside of {' or '.join(variable.allowed)}"


def _wrong_choice(facts: Facts, name: str, value: str) -> str:
    release = facts.release
    read = choice(name, value, release)
    strict = release is not None and release >= STRICT_LISTS_FROM
    faults = []
    if read.unknown:
        known = "this release" if release is not None else "any release"
        faults.append(f"{listed(read.unknown)} {'is' if len(read.unknown) == 1 else 'are'} unknown to {known}")
    if read.functions:
        faults.append(f"no collective is called {listed(read.functions)}")
    if read.empty and value.strip():
        faults.append(
            f"{'an empty item' if read.empty == 1 else f'{read.empty} empty items'}, so a name may be missing"
        )
    if not faults and read.taken:
        return ""
    tail = ": init fails" if strict and (read.unknown or read.functions) else ""
    if not tail and not read.taken:
        tail = ": nothing is left to choose from"
    elif not tail and read.unknown:
        tail = ", left out in silence"
    return ", ".join(faults) + tail if faults else f"this release has none of these{tail}"


def _nothing_left(facts: Facts, setting: Setting) -> bool:
    failed = facts.failures("algo_unavailable")
    return setting.in_force and bool(failed) and not choice(setting.name, setting.value, facts.release).taken


def _wrong_list(value: str) -> str:
    if value[:1] in "\"'" or value[-1:] in "\"'":
        return "the quotes are part of the value"
    if re.search(r"\s", value.strip()):
        return "a blank becomes part of a name"
    if value.startswith("!"):
        return "! is no sign here: ^ leaves devices out"
    if value.startswith("=^"):
        return "^ comes before =: ^=name"
    items = value.removeprefix("^").removeprefix("=").split(",")
    signed = [item for item in items if item[:1] in ("=", "^")]
    if signed:
        return f"= and ^ stand once, before the whole list, so no device is called {listed(signed)}"
    ports = [item for item in items if ":" in item and not re.fullmatch(r"[^:]+:\d+", item)]
    if ports:
        return f"the port of {listed(ports)} is no number"
    empty = sum(not item for item in items[:-1])
    return f"{'an empty item' if empty == 1 else f'{empty} empty items'}: a name is missing" if empty else ""


def _finding(faults: list[_Fault], estimator: Estimator) -> Finding:
    stops = any(fault.stops for fault in faults)
    lists = [fault.evidence for fault in faults]
    evidence = dict.fromkeys(line for turn in range(4) for one in lists for line in one[turn : turn + 1])
    return RULE.finding(
        Severity.ERROR if stops else Severity.WARNING,
        Confidence.HIGH if any(fault.sure for fault in faults) else Confidence.MEDIUM,
        f"Values that NCCL does not take as they are meant: {'; '.join(fault.says for fault in faults[:MOST_SHOWN])}"
        + (f"; and {len(faults) - MOST_SHOWN} more" if len(faults) > MOST_SHOWN else ""),
        "correct or unset " + ", ".join(dict.fromkeys(fault.name for fault in faults))
        + ", then check what NCCL prints as 'set by environment' (NCCL_DEBUG=INFO)",
        {
            "hosts": tuple(sorted({machine for fault in faults for machine in fault.machines})),
            "variable": tuple(dict.fromkeys(fault.name for fault in faults)),
        },
        tuple(evidence)[:4],
        **(stopped(estimator) if stops else no_number("what the value was meant to do is not in the input")),
    )  # fmt: skip


RULE = Rule(
    code="ENV003",
    name="invalid-value",
    severity=Severity.WARNING,
    summary="A variable has a value that NCCL ignores, cannot read or reads as something else",
    check=check,
    since="0.1.0",
)
