"""Running the rules: a verdict for each, and their findings in the order a reader wants them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.engine.composition import with_next_limits
from ncclcheck.engine.links import in_stories, link
from ncclcheck.engine.report import RuleVerdict, Warnings
from ncclcheck.rules.model import Finding, NotEvaluated, Rule

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure


class Evaluation(NamedTuple):
    """verdicts: one per rule, in their order. findings: worst story first. crashes: "CODE: Type at file:line"."""

    verdicts: tuple[RuleVerdict, ...]
    findings: tuple[Finding, ...]
    crashes: tuple[str, ...] = ()


def evaluate(facts: Facts, estimator: Estimator, rules: Iterable[Rule]) -> Evaluation:
    """Run each rule. One that raises costs its own verdict, never the run; what it found before that stays."""
    rules = tuple(rules)
    verdicts: list[RuleVerdict] = []
    findings: list[Finding] = []
    crashes: list[str] = []
    for rule in rules:
        found: list[Finding] = []
        needs: list[str] = []
        try:
            for outcome in rule.check(facts, estimator):
                if isinstance(outcome, NotEvaluated):
                    needs.append(outcome.needs)
                else:
                    found.append(outcome)
        except Exception as error:
            needs.append(f"internal error in this rule (please report): {type(error).__name__}")
            crashes.append(f"{rule.code}: {where_raised(error)}")
        verdict = "fail" if found else "not_evaluated" if needs else "pass"
        verdicts.append(RuleVerdict(rule.code, rule.name, verdict, tuple(dict.fromkeys(needs))))
        findings += found
    ordered = with_next_limits(in_stories(link(findings, rules), urgency), estimator)
    return Evaluation(tuple(verdicts), tuple(ordered), tuple(crashes))


def unexplained_warnings(facts: Facts, findings: Iterable[Finding]) -> Warnings | None:
    """What NCCL warns of in words that no finding quotes. A job that a finding declares dead warns of much more in
    its wake: nothing is left over then."""
    findings = tuple(findings)
    if any(stops_the_job(finding) for finding in findings):
        return None
    quoted = {evidence for finding in findings for evidence in finding.evidence}
    warned = [one for one in facts.failures() if one.level == "WARN" and not is_harmless(one)]
    explained = {failure.category for failure in warned if quoted.intersection(failure.evidence)} - {"warn"}
    left = [
        failure for failure in warned if failure.category not in explained and not quoted.intersection(failure.evidence)
    ]
    if not left:
        return None
    return Warnings(sum(failure.count for failure in left), left[0].evidence[0])


def is_harmless(failure: Failure) -> bool:
    """The second process of a machine cannot take the port of the RAS service, and needs none."""
    return failure.fields.get("src_file", "").startswith("ras/") and "bind" in failure.fields.get("call", "")


def urgency(finding: Finding) -> tuple[float, ...]:
    """Sorts worst first: severity, then a job that stops, then the expected slowdown; equals keep their order."""
    slowdown = finding.estimate.slowdown.expected if finding.estimate is not None else 0.0
    return -finding.severity.rank, not stops_the_job(finding), -slowdown


def stops_the_job(finding: Finding) -> bool:
    """Rules about a job that stands still count its cost in GPU-hours, the others in bandwidth."""
    return finding.cost is not None and finding.cost.unit.startswith("GPU-hours")


def where_raised(error: BaseException) -> str:
    """Type and place of an error, without its message: that may quote a log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{type(error).__name__} at {file}:{trace.tb_lineno}"
