"""The report for people: the picture of the job, the findings worst first, and how much could be seen."""

from __future__ import annotations

from ncclcheck.engine.report import Report
from ncclcheck.report.coverage import open_questions, statistics, summary
from ncclcheck.report.findings import write_findings
from ncclcheck.report.job import write_job
from ncclcheck.report.page import Page
from ncclcheck.report.style import Style

# What shows nearly all that rules ask for.
RERUN = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH"


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
    _write_coverage(page, report, style.verbose)
    return page.text()


def _write_coverage(page: Page, report: Report, verbose: bool) -> None:
    """verbose: what each open rule needs; else which are open, and what to rerun with."""
    questions = open_questions(report)
    line = summary(report)
    if len(questions) < 2:
        page.line((line, "bold"), *(f": {need}" for need in questions if need), hang=2)
        return
    if not verbose:
        still_open = " ".join(sorted(code for codes in questions.values() for code in codes))
        again = f"rerun with {RERUN}; " if any("NCCL_DEBUG" in need or "INFO" in need for need in questions) else ""
        page.line((line, "bold"), f" ({still_open}): {again}-v tells what each needs", hang=2)
        return
    page.line((line, "bold"), ":")
    for need, codes in questions.items():
        page.line(f"{' '.join(codes)}: {need or 'no reason given'}", indent=2, hang=2)
