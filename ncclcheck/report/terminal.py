"""The report for people: the picture of the job, the findings worst first, and how much could be seen."""

from __future__ import annotations

from ncclcheck.engine.report import Report
from ncclcheck.report.coverage import open_questions, statistics, summary
from ncclcheck.report.findings import write_findings
from ncclcheck.report.job import write_job
from ncclcheck.report.page import Page
from ncclcheck.report.style import Style


def render(report: Report, style: Style) -> str:
    page = Page(style.width, style.color)
    write_job(page, report, style.verbose)
    page.gap()
    if style.statistics:
        for row in statistics(report):
            page.line(f"{row['count']:>5}  {row['code']}  {row['name']}")
        page.gap()
    else:
        write_findings(page, report.findings, style.verbose)
    _write_coverage(page, report)
    return page.text()


def _write_coverage(page: Page, report: Report) -> None:
    questions = open_questions(report)
    line = summary(report)
    if len(questions) == 1:
        (need,) = questions
        page.line((line, "bold"), f": {need}" if need else "", hang=2)
        return
    page.line((line, "bold"), ":" if questions else "")
    for need, codes in questions.items():
        page.line(f"{' '.join(codes)}: {need or 'no reason given'}", indent=2, hang=2)
