"""Answers of `ncclcheck estimate` as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ncclcheck.estimate.figures import Answer
from ncclcheck.estimate.quantities import with_range
from ncclcheck.estimate.ranges import Range
from ncclcheck.report.escape import json_without_commands
from ncclcheck.report.page import Page
from ncclcheck.report.style import Style

SCHEMA = "ncclcheck-estimate/1"


def as_text(answer: Answer, style: Style, write: Callable[[Page, Answer, bool], None] | None = None) -> str:
    """style.verbose: with formulas, and the inputs with their origins. write: in place of `write_answer`."""
    page = Page(style.width, style.color)
    (write or write_answer)(page, answer, style.verbose)
    return page.text()


def write_answer(page: Page, answer: Answer, explain: bool) -> None:
    """A line per figure. explain: formulas, and the inputs with their origins."""
    page.line((answer.title, "bold"))
    write_figures(page, answer, explain)
    write_remarks(page, answer)
    if explain:
        write_givens(page, answer)


def write_figures(page: Page, answer: Answer, explain: bool) -> None:
    width = max((len(one.name) for one in answer.figures), default=0) + 2
    for one in answer.figures:
        value, unit = readable(one.value, one.unit)
        page.labelled(one.name, (with_range(value), "bold"), f" {unit}" if unit else "", width=width)
        if explain:
            page.line((one.formula, "dim"), indent=2 + width, hang=2)


def write_remarks(page: Page, answer: Answer) -> None:
    for remark in answer.remarks:
        page.line(remark, indent=2, hang=2)


def write_givens(page: Page, answer: Answer) -> None:
    if answer.givens:
        page.gap()
        width = max(len(one.name) for one in answer.givens) + 2
        for given in answer.givens:
            page.labelled(given.name, given.value, (f"  ({given.origin})", "dim"), width=width)


def readable(value: Range, unit: str) -> tuple[Range, str]:
    """The value in the unit that people read: short times are ms or us."""
    if unit == "s":
        for short, factor in (("us", 1e6), ("ms", 1e3)):
            if 0 < value.expected * factor < 1000:
                return value.scale(factor), short
    return value, unit


def as_json(answer: Answer) -> str:
    return json_without_commands(json.dumps(as_document(answer), indent=2, ensure_ascii=True, allow_nan=False)) + "\n"


def as_document(answer: Answer) -> dict[str, Any]:
    """Its keys are a contract: new ones may come, none goes or changes its meaning."""
    return {
        "schema": SCHEMA,
        "title": answer.title,
        "figures": [
            {"name": one.name, "unit": one.unit, **one.value._asdict(), "formula": one.formula}
            for one in answer.figures
        ],
        "inputs": [given._asdict() for given in answer.givens],
        "remarks": list(answer.remarks),
        **answer.details,
    }
