"""Verdicts, order, and rules that break."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ncclcheck.engine.report import Warnings
from ncclcheck.engine.run import Evaluation, evaluate, unexplained_warnings
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.seen import Failure
from ncclcheck.rules.model import NotEvaluated, Rule, Severity


def run(*rules: Rule) -> Evaluation:
    nothing: Any = None
    return evaluate(nothing, nothing, rules)


def test_verdicts(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    need = NotEvaluated("GRAPH lines")
    result = run(
        make_rule("A1"),
        make_rule("B1", need, need, NotEvaluated("a matrix")),
        make_rule("C1", need, make_finding("C1")),
    )
    assert [(v.code, v.verdict, v.needs) for v in result.verdicts] == [
        ("A1", "pass", ()),
        ("B1", "not_evaluated", ("GRAPH lines", "a matrix")),
        ("C1", "fail", ("GRAPH lines",)),
    ]
    assert [finding.code for finding in result.findings] == ["C1"]


def test_a_rule_that_raises_costs_its_own_verdict_only(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    result = run(
        make_rule("A1", KeyError("text of the log")),
        make_rule("B1", make_finding("B1"), ValueError("x")),
        make_rule("C1"),
    )
    assert [v.verdict for v in result.verdicts] == ["not_evaluated", "fail", "pass"]
    assert result.verdicts[0].needs == ("internal error in this rule (please report): KeyError",)
    assert [finding.code for finding in result.findings] == ["B1"]
    assert result.crashes[0].startswith("A1: KeyError at conftest.py:")
    assert "text of the log" not in repr(result)


def test_order(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    findings = [
        make_finding("INFO", severity=Severity.INFO, slowdown=50),
        make_finding("NONE1"),
        make_finding("SLOW", slowdown=2),
        make_finding("WARN", severity=Severity.WARNING, cost="GPU-hours until noticed"),
        make_finding("NONE2"),
        make_finding("SLOWER", slowdown=20, cost="s per gradient sync of 1 GB"),
        make_finding("STOPS", cost="GPU-hours per GPU until noticed"),
    ]
    result = run(make_rule("X1", *findings))
    assert [f.code for f in result.findings] == ["STOPS", "SLOWER", "SLOW", "NONE1", "NONE2", "WARN", "INFO"]


def test_a_cause_stands_before_its_consequences_and_is_as_urgent(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    rules = [
        make_rule("A1", make_finding("A1", ("a",), severity=Severity.ERROR), caused_by=("B1",)),
        make_rule("B1", make_finding("B1", ("a",), severity=Severity.WARNING), caused_by=("C1",)),
        make_rule("C1", make_finding("C1", ("a",), severity=Severity.WARNING)),
        make_rule("D1", make_finding("D1", ("z",), severity=Severity.WARNING)),
        make_rule("E1", make_finding("E1", ("z",), severity=Severity.ERROR)),
    ]
    assert [finding.code for finding in run(*rules).findings] == ["C1", "B1", "A1", "E1", "D1"]


def test_causes_need_a_common_host(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    rules = [
        make_rule("NET001", make_finding("NET001", ("a", "b")), make_finding("NET001", ("z",)), caused_by=("IB001",)),
        make_rule(
            "IB001", make_finding("IB001", ("b", "c")), make_finding("IB001", ("b",)), caused_by=("IB001", "ENV1")
        ),
        make_rule("GDR001", make_finding("GDR001"), caused_by=("NET001", "ABSENT1")),
    ]
    linked = {(f.code, f.subject.get("hosts", ())): (f.causes, f.consequences) for f in run(*rules).findings}
    assert linked == {
        ("NET001", ("a", "b")): (("IB001",), ("GDR001",)),
        ("NET001", ("z",)): ((), ("GDR001",)),
        ("IB001", ("b", "c")): (("IB001",), ("NET001", "IB001")),
        ("IB001", ("b",)): (("IB001",), ("NET001", "IB001")),
        ("GDR001", ()): (("NET001",), ()),
    }


def test_what_is_only_worth_knowing_explains_nothing_worse(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    rules = [
        make_rule("A1", make_finding("A1", ("a",), severity=Severity.WARNING), caused_by=("C1",)),
        make_rule("B1", make_finding("B1", ("a",), severity=Severity.INFO), caused_by=("C1",)),
        make_rule("C1", make_finding("C1", ("a",), severity=Severity.INFO)),
    ]
    causes = {finding.code: finding.causes for finding in run(*rules).findings}
    assert causes == {"A1": (), "B1": ("C1",), "C1": ()}


def test_causes_that_a_finding_names_count_anywhere_if_they_are_errors(make_rule, make_finding) -> None:  # type: ignore[no-untyped-def]
    lost = replace(make_finding("RUN006", ("a",)), causes=("RUN010", "HST001", "RUN007"))
    rules = [
        make_rule("RUN006", lost),
        make_rule("RUN010", make_finding("RUN010", ("z",))),
        make_rule("HST001", make_finding("HST001", ("z",), severity=Severity.INFO)),
    ]
    linked = {f.code: (f.causes, f.consequences) for f in run(*rules).findings}
    assert linked == {"RUN006": (("RUN010",), ()), "RUN010": ((), ("RUN006",)), "HST001": ((), ())}


def test_warnings_left_over(make_finding) -> None:  # type: ignore[no-untyped-def]
    def warned(category: str, line: int, count: int = 1) -> Failure:
        return Failure(category, "WARN", {}, (), count, (Evidence("run.log", line, ""),))

    facts: Any = SimpleNamespace(
        failures=lambda: (warned("ibv_failed", 1), warned("warn", 2, 3), warned("ibv_failed", 4), warned("warn", 5))
    )
    quoting = replace(make_finding("A1"), evidence=(Evidence("run.log", 1, ""), Evidence("run.log", 5, "")))
    assert unexplained_warnings(facts, [quoting]) == Warnings(3, Evidence("run.log", 2, ""))
    assert unexplained_warnings(facts, [quoting, make_finding("B1", cost="GPU-hours until noticed")]) is None
    assert unexplained_warnings(facts, []) == Warnings(6, Evidence("run.log", 1, ""))


def test_a_port_that_the_ras_service_does_not_get_is_nothing_to_tell() -> None:
    fields = {"src_file": "ras/client_support.cc", "call": "bind"}
    facts: Any = SimpleNamespace(failures=lambda: (Failure("warn", "WARN", fields, (), 1, (Evidence("a", 1, ""),)),))
    assert unexplained_warnings(facts, []) is None
