"""Several faults at once: what mending one of them brings while the others are still there, and what binds then.

Every number comes from the model with the changes of all findings put on the job together. A cause and what it
explains are one fault, and so are findings that change the same of the job: two rules that see one thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncclcheck.engine.links import parents_of
from ncclcheck.estimate.estimates import MEASURED, Estimate, Mended
from ncclcheck.rules.model import Finding, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimates import Changes
    from ncclcheck.estimate.estimator import Estimator

# Under this another fault does not hold back what mending brings.
_HELD_BACK = 0.95
# Findings that compare jobs of different sizes speak of parts of the job, not of the whole.
_SIZES = frozenset(("nodes", "gpus_per_node", "collective", "sharing"))


@dataclass(frozen=True, slots=True)
class _Fault:
    """A cause with its consequences: who they are, and the job's fields without and with it.

    by_design: worth knowing only; nobody will mend it, so it is no reason why mending another does not help.
    """

    members: tuple[int, ...]
    code: str
    by_design: bool
    healthy: Changes
    actual: Changes

    @property
    def broken(self) -> Changes:
        """The fields that it changes."""
        return {name: value for name, value in self.actual.items() if self.healthy.get(name) != value}

    def is_moot(self, mended: Changes) -> bool:
        """Does it speak of what is no longer there, such as the sockets of a job that has RDMA again?"""
        return any(
            name in mended and mended[name] != value and name not in self.broken for name, value in self.actual.items()
        )


def with_next_limits(findings: Sequence[Finding], estimator: Estimator) -> list[Finding]:
    """The same findings; estimates of faults that are held back by others say by how much, and by which."""
    faults = _faults(findings)
    mended = list(findings)
    for fault in faults if len(faults) > 1 else ():
        others = [one for one in faults if one is not fault and not one.by_design]
        found = _mended(fault, others, estimator)
        if found is None:
            continue
        for at in fault.members:
            estimate = mended[at].estimate
            if estimate is not None and found.busbw.expected < _HELD_BACK * estimate.healthy.expected:
                mended[at] = replace(mended[at], estimate=replace(estimate, after_fix=found))
    return mended


def _faults(findings: Sequence[Finding]) -> list[_Fault]:
    """In the order of the findings: the most urgent first."""
    parents = parents_of(findings)
    stories: dict[int, list[int]] = {}
    for at, finding in enumerate(findings):
        if finding.estimate is None or not _composes(finding.estimate):
            continue
        root = at
        while root in parents:
            root = parents[root]
        stories.setdefault(root, []).append(at)
    faults: list[_Fault] = []
    for root, members in stories.items():
        estimates = [one for at in members if (one := findings[at].estimate) is not None]
        fault = _Fault(
            tuple(members),
            findings[root].code,
            all(findings[at].severity is Severity.INFO for at in (root, *members)),
            _together(one.healthy_changes for one in estimates),
            _together(one.actual_changes for one in estimates),
        )
        same = next((at for at, one in enumerate(faults) if one.broken == fault.broken), None)
        if same is None:
            faults.append(fault)
        else:
            first = faults[same]
            faults[same] = replace(
                first, members=first.members + fault.members, by_design=first.by_design and fault.by_design
            )
    return faults


def _composes(estimate: Estimate) -> bool:
    """A fault that a measurement does not show is none."""
    changes = estimate.healthy_changes.keys() | estimate.actual_changes.keys()
    unseen = estimate.basis == MEASURED and estimate.slowdown.expected <= 1.0
    return bool(estimate.actual_changes) and not _SIZES & changes and not unseen


def _mended(fault: _Fault, others: Sequence[_Fault], estimator: Estimator) -> Mended | None:
    """The job with all the faults but this one. None: no other holds it back."""
    left = _with(fault.healthy, others)
    alone = estimator.expect(left)
    if alone is None:
        return None
    best, code = alone.busbw.expected, ""
    for other in others:
        still = [one for one in others if one is not other]
        both = estimator.expect(_with(_together([fault.healthy, other.healthy]), still))
        if both is not None and both.busbw.expected > best * 1.01:
            best, code = both.busbw.expected, other.code
    return Mended(alone.busbw, alone.limit, code) if code else None


def _with(healthy: Changes, faults: Sequence[_Fault]) -> Changes:
    """The fields of mended faults, and over them what the faults that are left change."""
    return {**healthy, **_together(one.broken for one in faults if not one.is_moot(healthy))}


def _together(changes: Iterable[Changes]) -> Changes:
    """All of them at once. Of two values for one field the worse counts: effects add up, numbers and switches are the
    lower, sockets beat everything; else the more urgent one stands."""
    merged: dict[str, object] = {}
    for one in changes:
        for name, value in one.items():
            merged[name] = _worse(name, merged[name], value) if name in merged else value
    return merged


def _worse(name: str, first: object, second: object) -> object:
    if first == second:
        return first
    if name == "effect":
        return tuple(
            "+".join(dict.fromkeys(filter(None, f"{one}+{other}".split("+"))))
            for one in _alternatives(first)
            for other in _alternatives(second)
        )
    if name == "network" and "socket" in (first, second):
        return "socket"
    if isinstance(first, int | float) and isinstance(second, int | float):
        return min(first, second)
    return first or second


def _alternatives(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
