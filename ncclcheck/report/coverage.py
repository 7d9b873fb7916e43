"""How much the run could see: the last lines of every text report, for silence is not a pass."""

from __future__ import annotations

from collections import Counter

from ncclcheck.engine.report import Report
from ncclcheck.rules.model import Severity


def summary(report: Report) -> str:
    """`16 rules: 3 fail (1 error, 2 info), 10 pass, 3 not evaluated`."""
    verdicts = [rule.verdict for rule in report.rules]
    counts = [f"{verdicts.count('fail')} fail{_severities(report)}", f"{verdicts.count('pass')} pass"]
    if unknown := verdicts.count("not_evaluated"):
        counts.append(f"{unknown} not evaluated")
    return f"{len(verdicts)} {'rule' if len(verdicts) == 1 else 'rules'}: {', '.join(counts)}"


def _severities(report: Report) -> str:
    """How bad the failing rules are, each by its worst finding."""
    worst: dict[str, Severity] = {}
    for finding in report.findings:
        worst[finding.code] = max(worst.get(finding.code, Severity.INFO), finding.severity, key=lambda one: one.rank)
    counts = Counter(worst.values())
    words = [f"{counts[one]} {one.value}" for one in sorted(counts, key=lambda one: -one.rank)]
    return f" ({', '.join(words)})" if words else ""


def open_questions(report: Report) -> dict[str, list[str]]:
    """What the rules without a verdict need, each need once, with the codes that need it."""
    needs: dict[str, list[str]] = {}
    for rule in report.rules:
        if rule.verdict == "not_evaluated":
            for need in rule.needs or ("",):
                needs.setdefault(need, []).append(rule.code)
    return needs


def statistics(report: Report) -> list[dict[str, str | int]]:
    """Findings per rule, most first; rules without any are left out."""
    counted: dict[str, dict[str, str | int]] = {}
    for finding in report.findings:
        row = counted.setdefault(finding.code, {"count": 0, "code": finding.code, "name": finding.name})
        row["count"] = int(row["count"]) + 1
    return sorted(counted.values(), key=lambda row: (-int(row["count"]), str(row["code"])))
