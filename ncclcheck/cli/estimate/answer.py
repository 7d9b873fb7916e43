"""Options that all questions share, and how their answers are printed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ncclcheck.cli.output import wants_color, width, write_file, write_stdout
from ncclcheck.estimate.figures import Answer

if TYPE_CHECKING:
    from ncclcheck.report.page import Page

FORMATS = ("terminal", "json")


class Output(NamedTuple):
    """How an answer is printed. file: None is stdout."""

    format: str
    file: str | None
    color: bool
    explain: bool


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--output-format, --output-file, --color, --explain-estimate: they reach the command as `output`."""

    @wraps(command)
    def with_output(
        *args: Any, output_format: str, output_file: str | None, color: str, explain_estimate: bool, **given: Any
    ) -> Any:
        file = None if output_file == "-" else output_file
        output = Output(output_format, file, wants_color(color, file is not None), explain_estimate)
        return command(*args, output=output, **given)

    options: Callable[..., Any] = with_output
    for option in (
        click.option("--explain-estimate", is_flag=True, help="Show formulas, and where each input comes from."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True),
        click.option("--output-file", metavar="FILE", help="Write the answer there instead of to stdout."),
        click.option("--output-format", type=click.Choice(FORMATS), default="terminal", show_default=True),
    ):
        options = option(options)
    return options


def print_answer(answer: Answer, output: Output, write: Callable[[Page, Answer, bool], None] | None = None) -> None:
    """write: the answer as text, if not as `figures.write_answer` does it; its last argument is output.explain."""
    from ncclcheck.report import figures
    from ncclcheck.report.style import Style

    if output.format == "json":
        print_text(figures.as_json(answer), output)
    else:
        print_text(figures.as_text(answer, Style(width(), output.color, output.explain), write), output)


def print_text(text: str, output: Output) -> None:
    if output.file is not None:
        write_file(output.file, text)
    else:
        write_stdout(text)
