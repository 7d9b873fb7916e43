"""One line per finding, as editors and CI matchers read it: `path:line: CODE message`. Then the coverage line."""

from __future__ import annotations

from ncclcheck.engine.report import Report
from ncclcheck.report.coverage import open_questions, statistics, summary
from ncclcheck.report.escape import clean, without_line_commands
from ncclcheck.report.style import Style
from ncclcheck.rules.model import Finding


def render(report: Report, style: Style) -> str:
    if style.statistics:
        lines = [f"{row['count']}\t{clean(str(row['code']))}\t{clean(str(row['name']))}" for row in statistics(report)]
    else:
        lines = [
            f"{_place(finding, report)}: {clean(f'{finding.code} {finding.message}')}" for finding in report.findings
        ]
    questions = open_questions(report) if style.verbose else {}
    needs = "; ".join(f"{clean(need)} ({', '.join(codes)})" for need, codes in questions.items())
    lines.append(summary(report) + (f": {needs}" if needs else ""))
    return without_line_commands("\n".join(lines) + "\n")


def _place(finding: Finding, report: Report) -> str:
    """The line that proves it; a finding about what is absent has none, and stands at the first input."""
    if finding.evidence:
        first = finding.evidence[0]
        return f"{clean(first.path)}:{first.line}"
    return clean(report.inputs[0].path) if report.inputs else "-"
