"""Findings as text: each with its proof, its number and its fix; consequences fold under their cause.

An info is told in short, with one line of proof: it is no reason to lose sight of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ncclcheck.engine.links import parents_of
from ncclcheck.estimate.estimates import Estimate
from ncclcheck.estimate.quantities import size_text, two_digits, with_range
from ncclcheck.facts.evidence import Evidence
from ncclcheck.report.hosts import fold
from ncclcheck.report.numbers import large
from ncclcheck.report.page import Page
from ncclcheck.report.step import write_change
from ncclcheck.rules.model import Confidence, Finding, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_EVIDENCE_SHOWN = 3
_EVIDENCE_LINES = 4
_CONSEQUENCE_LINES = 2
_INFO_EVIDENCE_LINES = 2
# Under this no measurement tells the difference.
_SLOWER = 1.05


def write_findings(page: Page, findings: Sequence[Finding], verbose: bool, explain: bool) -> None:
    """verbose: every finding in full, nothing folded. explain: formula and inputs of every number."""
    parents = {} if verbose else parents_of(findings)
    for number, finding in enumerate(findings):
        if number in parents:
            continue
        _write_finding(page, finding, verbose, explain)
        _write_consequences(page, findings, parents, number, explain, depth=0)
        page.gap()


def write_evidence(page: Page, item: Evidence, verbose: bool, lines: int = _EVIDENCE_LINES) -> None:
    """Where a line is, and what it says."""
    at_most = None if verbose else lines
    page.line((f"{item.path}:{item.line}: ", "cyan"), item.text.strip(), indent=4, hang=2, at_most=at_most)


def _write_finding(page: Page, finding: Finding, verbose: bool, explain: bool) -> None:
    hosts = _hosts(finding)
    sure = "" if finding.confidence is Confidence.HIGH else f"  ({finding.confidence.value} confidence)"
    page.line(
        (finding.severity.value.upper(), _STYLES[finding.severity]),
        " ",
        (f"{finding.code} {finding.name}", "bold"),
        f"  {hosts}" if hosts else "",
        (sure, "dim"),
        hang=2,
        at_most=None if verbose else 3,
    )
    page.line(finding.message, indent=2)
    proof = tuple(dict.fromkeys(finding.evidence))
    if finding.severity is Severity.INFO and not verbose:
        for item in proof[:1]:
            write_evidence(page, item, verbose, _INFO_EVIDENCE_LINES)
        if finding.estimate is not None and _tells(finding.estimate):
            page.labelled("number", f"all_reduce {_bandwidth(finding.estimate)}, {_slower(finding.estimate)}")
            _write_alone(page, finding.estimate)
            if explain:
                _write_origin(page, finding.estimate)
    else:
        for item in proof[:_EVIDENCE_SHOWN]:
            write_evidence(page, item, verbose)
        _write_numbers(page, finding, verbose, explain)
    if finding.causes and verbose:
        page.labelled("cause", ", ".join(finding.causes))
    _write_fix(page, finding.fix)


def _write_numbers(page: Page, finding: Finding, verbose: bool, explain: bool) -> None:
    estimate = finding.estimate
    seconds_shown = False
    if estimate is not None:
        page.labelled("number", f"all_reduce {_bandwidth(estimate)}, ", (_slower(estimate), "bold"))
        page.line(f"limit {estimate.limit_healthy} -> {estimate.limit_actual}; {_basis(estimate)}", indent=9)
        _write_alone(page, estimate)
        if (mended := estimate.after_fix) is not None:
            busbw = with_range(mended.busbw)
            other = f"the other {mended.code}" if mended.code == finding.code else mended.code
            page.line(f"after this fix alone {busbw} GB/s: limited by {mended.limit}, see {other}", indent=9)
        step = estimate.step is not None and estimate.step.per_step  # it holds the sync as the plan has it
        if step:
            seconds_shown = True
        elif estimate.sync_seconds_healthy is not None and estimate.sync_seconds_actual is not None:
            before, after = with_range(estimate.sync_seconds_healthy), with_range(estimate.sync_seconds_actual)
            page.line(f"gradient sync of {size_text(estimate.sync_bytes)}: {before} -> {after} s", indent=9)
            seconds_shown = True
        if estimate.step is not None:
            write_change(page, estimate.step, explain)
        if explain:
            _write_origin(page, estimate)
    if finding.cost is not None and not (seconds_shown and finding.cost.unit.startswith("s per gradient sync")):
        dollars = "" if finding.cost.dollars is None else f", {large(finding.cost.dollars, '$')}"
        page.labelled("cost", f"{with_range(finding.cost.amount)} {finding.cost.unit}{dollars}")
    if estimate is None and (verbose or finding.cost is None):
        page.labelled("number", f"none: {finding.no_estimate_because or 'no reason given'}")


def _write_alone(page: Page, estimate: Estimate) -> None:
    """A measurement counts all that slows a job: say so where this fault does not explain it."""
    if estimate.alone is not None and estimate.actual.high < estimate.alone.low:
        page.line(f"this alone would leave {with_range(estimate.alone)} GB/s: more than this slows the job", indent=9)


def _write_origin(page: Page, estimate: Estimate) -> None:
    page.line(f"formula {estimate.formula or '-'}", indent=9, hang=2)
    page.line("inputs " + "; ".join(f"{k} = {v}" for k, v in estimate.inputs.items()), indent=9, hang=2)


def _write_fix(page: Page, fix: str) -> None:
    first, *others = fix.strip().splitlines() or ["-"]
    page.labelled("fix", (first, "green"))
    for line in others:
        page.line((line.rstrip(), "green"), indent=9)


def _write_consequences(
    page: Page, findings: Sequence[Finding], parents: dict[int, int], cause: int, explain: bool, depth: int
) -> None:
    for at, finding in enumerate(findings):
        if parents.get(at) != cause:
            continue
        estimate = finding.estimate
        if estimate is not None and not _tells(estimate):
            estimate = None
        number = f"{_expected(estimate)}; " if estimate is not None else ""
        page.line(
            ("then   ", "dim"),
            (finding.severity.value, _STYLES[finding.severity]),
            f" {finding.code} {finding.name}: {number}{finding.message}",
            indent=2 + 2 * min(depth, 8),
            hang=7,
            at_most=_CONSEQUENCE_LINES,
        )
        if estimate is not None and explain:
            _write_origin(page, estimate)
        _write_consequences(page, findings, parents, at, explain, depth + 1)


def _hosts(finding: Finding) -> str:
    return fold(finding.subject.get("hosts", ()))


def _bandwidth(estimate: Estimate) -> str:
    return f"{with_range(estimate.healthy)} -> {with_range(estimate.actual)} GB/s"


def _expected(estimate: Estimate) -> str:
    """`360 -> 2.5 GB/s, 150x slower`."""
    numbers = (estimate.healthy.expected, estimate.actual.expected, estimate.slowdown.expected)
    healthy, actual, slowdown = map(two_digits, numbers)
    return f"{healthy} -> {actual} GB/s, {slowdown}x slower"


def _tells(estimate: Estimate) -> bool:
    return estimate.slowdown.high >= _SLOWER


def _basis(estimate: Estimate) -> str:
    """With what was assumed: what makes the range as wide as it is."""
    assumed = [name for name, value in estimate.inputs.items() if value.endswith("(assumed)")]
    if not assumed:
        return estimate.basis
    names = ", ".join(assumed)
    measured = estimate.basis == "measured"
    return f"measured; the model assumes {names}" if measured else f"{estimate.basis} ({names})"


def _slower(estimate: Estimate) -> str:
    """`19x slower (15x-24x)`."""
    if estimate.slowdown.high <= 1.0:
        return "no slower"
    number, _, span = with_range(estimate.slowdown, "x").partition(" ")
    return f"{number} slower{f' {span}' if span else ''}"
