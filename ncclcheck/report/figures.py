"""Answers of `ncclcheck estimate` as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from ncclcheck.estimate.figures import Answer
from ncclcheck.report.escape import json_without_commands
from ncclcheck.report.numbers import with_range
from ncclcheck.report.page import Page
from ncclcheck.report.style import Style

SCHEMA = "ncclcheck-estimate/1"


def as_text(answer: Answer, style: Style) -> str:
    """A line per figure. style.verbose: with formulas, and the inputs with their origins."""
    page = Page(style.width, style.color)
    write_answer(page, answer, style.verbose)
    return page.text()


def write_answer(page: Page, answer: Answer, explain: bool) -> None:
    """explain: formulas, and the inputs with their origins."""
    page.line((answer.title, "bold"))
    width = max((len(one.name) for one in answer.figures), default=0) + 2
    for one in answer.figures:
        page.labelled(one.name, (with_range(one.value), "bold"), f" {one.unit}" if one.unit else "", width=width)
        if explain:
            page.line((one.formula, "dim"), indent=2 + width, hang=2)
    for remark in answer.remarks:
        page.line(remark, indent=2, hang=2)
    if explain and answer.givens:
        page.gap()
        width = max(len(one.name) for one in answer.givens) + 2
        for given in answer.givens:
            page.labelled(given.name, given.value, (f"  ({given.origin})", "dim"), width=width)


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
