"""The output formats by name. Each is a module with `render(report, style) -> str`, imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclcheck.engine.report import Report
    from ncclcheck.report.style import Style

FORMATS = {
    "terminal": "ncclcheck.report.terminal",
    "concise": "ncclcheck.report.concise",
    "json": "ncclcheck.report.json",
}


def render(name: str, report: Report, style: Style) -> str:
    """The whole report as text that ends with a newline."""
    text: str = import_module(FORMATS[name]).render(report, style)
    return text
