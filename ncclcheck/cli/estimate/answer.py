"""Options that all questions share, and how their answers are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ncclcheck.cli.output import wants_color, width, write_file, write_stdout
from ncclcheck.estimate.figures import Answer

if TYPE_CHECKING:
    from ncclcheck.report.page import Page

FORMATS = ("terminal", "json")


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--output-format, --output-file, --color, --explain-estimate: arguments of `print_answer`."""
    for option in (
        click.option("--explain-estimate", is_flag=True, help="Show formulas, and where each input comes from."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True),
        click.option("--output-file", metavar="FILE", help="Write the answer there instead of to stdout."),
        click.option("--output-format", type=click.Choice(FORMATS), default="terminal", show_default=True),
    ):
        command = option(command)
    return command


def print_answer(
    answer: Answer,
    output_format: str,
    output_file: str | None,
    color: str,
    explain_estimate: bool,
    write: Callable[[Page, Answer, bool], None] | None = None,
) -> None:
    """write: the answer as text, if not as `figures.write_answer` does it; its last argument is explain_estimate."""
    from ncclcheck.report import figures
    from ncclcheck.report.style import Style

    if output_file == "-":
        output_file = None
    if output_format == "json":
        text = figures.as_json(answer)
    else:
        style = Style(width(), wants_color(color, output_file is not None), explain_estimate)
        text = figures.as_text(answer, style, write)
    if output_file is not None:
        write_file(output_file, text)
    else:
        write_stdout(text)
