"""Small rules and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ncclcheck.estimate.estimates import Cost, Estimate
from ncclcheck.estimate.ranges import Range
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

MakeRule = Callable[..., Rule]
MakeFinding = Callable[..., Finding]


@pytest.fixture
def make_rule() -> MakeRule:
    def make(code: str, *outcomes: Finding | NotEvaluated | Exception, **more: Any) -> Rule:
        def check(facts: object, estimator: object) -> Iterator[Finding | NotEvaluated]:
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome

        fields = {"name": f"name-{code.lower()}", "severity": Severity.ERROR, "summary": "", "since": "0.1.0", **more}
        return Rule(code=code, check=check, **fields)

    return make


@pytest.fixture
def make_finding() -> MakeFinding:
    def make(
        code: str,
        hosts: tuple[str, ...] = (),
        severity: Severity = Severity.ERROR,
        slowdown: float | None = None,
        cost: str | None = None,
    ) -> Finding:
        def around(value: float) -> Range:
            return Range(value, value, value)

        estimate = None
        if slowdown is not None:
            estimate = Estimate(around(slowdown), around(1), around(slowdown), "nic", "tcp", "measured")
        return Finding(
            code=code,
            name=f"name-{code.lower()}",
            severity=severity,
            confidence=Confidence.HIGH,
            message="",
            fix="",
            subject={"hosts": hosts} if hosts else {},
            estimate=estimate,
            cost=Cost(cost, around(1)) if cost else None,
        )

    return make
