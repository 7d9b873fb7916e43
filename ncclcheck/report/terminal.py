"""The report for people: the picture of the job, the findings worst first, and how much could be seen."""

from __future__ import annotations

import re

from ncclcheck.engine.report import Report
from ncclcheck.report.coverage import open_questions, statistics, summary
from ncclcheck.report.findings import write_evidence, write_findings
from ncclcheck.report.job import write_job
from ncclcheck.report.numbers import counted
from ncclcheck.report.page import Page
from ncclcheck.report.style import Style

# So many codes are read; more are counted.
_CODES_SHOWN = 8
# What shows nearly all that rules ask for.
_BY_LEVEL = re.compile("NCCL_DEBUG(?:_SUBSYS)?=|INFO")
RERUN = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH"


def render(report: Report, style: Style) -> str:
    page = Page(style.width, style.color)
    write_job(page, report, style.verbose, style.explain or style.verbose)
    page.gap()
    if style.statistics:
        for row in statistics(report):
            page.line(f"{row['count']:>5}  {row['code']}  {row['name']}")
        page.gap()
    else:
        write_findings(page, report.findings, style.verbose, style.explain or style.verbose)
        if left := report.unexplained:
            page.labelled("also", f"{counted(left.count, 'WARN line')} of NCCL that no rule explains, first", indent=0)
            write_evidence(page, left.first, style.verbose)
            page.gap()
    _write_coverage(page, report, style.verbose)
    return page.text()


def _write_coverage(page: Page, report: Report, verbose: bool) -> None:
    """verbose: what each open rule needs; else which are open, and which of them a rerun would settle."""
    questions = open_questions(report)
    line = summary(report)
    if not questions:
        page.line((line, "bold"))
        return
    if not verbose:
        page.line((line, "bold"), f"{_codes(_still_open(questions))}: {_advice(questions, report)}", hang=2)
        return
    page.line((line, "bold"), ":")
    for need, codes in questions.items():
        page.line(f"{' '.join(codes)}: {need or 'no reason given'}", indent=2, hang=2)


def _advice(questions: dict[str, list[str]], report: Report) -> str:
    """One question in full; of several, those that a rerun with more lines would settle, if no fix says so already."""
    if len(questions) == 1:
        return next(iter(questions)) or "no reason given"
    every = _still_open(questions)
    settled = {code for need, codes in questions.items() if _BY_LEVEL.search(need) for code in codes}
    if not settled or any(RERUN in finding.fix for finding in report.findings):
        return "-v tells what each needs"
    which = "" if len(settled) == len(every) else f" for {_these(sorted(settled))}"
    return f"rerun with {RERUN}{which}; -v tells what each needs"


def _still_open(questions: dict[str, list[str]]) -> list[str]:
    return sorted({code for codes in questions.values() for code in codes})


def _codes(codes: list[str]) -> str:
    return f" ({' '.join(codes)})" if len(codes) <= _CODES_SHOWN else ""


def _these(codes: list[str]) -> str:
    return " ".join(codes) if len(codes) <= _CODES_SHOWN else f"{len(codes)} of them"
