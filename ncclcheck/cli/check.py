"""`ncclcheck check`: judge logs."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

import click

from ncclcheck.cli.exits import FAIL_ON, exit_code
from ncclcheck.cli.output import complain, refuse_to_overwrite, wants_color, width, write_file, write_stdout
from ncclcheck.cli.pipeline import Selection, WrongCallError, estimate_options, run_check
from ncclcheck.cli.quantities import PARAMS
from ncclcheck.cli.site import chosen_model, site_option
from ncclcheck.cli.step_options import step_options
from ncclcheck.report.formats import FORMATS, render
from ncclcheck.report.style import Style

_RULES = "Codes, names, families (NET), or ALL; a comma list, may be repeated."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1)
@click.option("--output-format", type=click.Choice(list(FORMATS)), default="terminal", show_default=True)
@click.option("--output-file", metavar="FILE", help="Write the report there instead of to stdout.")
@click.option("--select", multiple=True, metavar="RULES", help=f"Run these rules only. {_RULES}")
@click.option("--ignore", multiple=True, metavar="RULES", help="Leave these out; the longest selector wins.")
@click.option("--extend-select", multiple=True, metavar="RULES", help="Run these, too.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="error", show_default=True, help="Exit 1 from here on.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found or missing (for prologs).")
@click.option("--gpu", metavar="NAME", help="GPU class the estimate shall assume: H100; local: this machine's.")
@click.option("--nic-gbps", "nic_gbit", type=float, metavar="N", help="NIC rate in Gb/s as sold: 400.")
@click.option(
    "--params", callback=PARAMS, metavar="N", help="Parameters of the model whose gradients are synchronised: 70B."
)
@click.option("--dtype", metavar="TYPE", help="Data type of those gradients: bf16.")
@step_options
@site_option
@click.option("--explain-estimate", is_flag=True, help="Show the formula and the inputs of every number.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("--statistics", is_flag=True, help="Count findings per rule.")
@click.option("-v", "--verbose", is_flag=True, help="Show formulas, inputs and consequences in full.")
def check(
    paths: tuple[str, ...],
    output_format: str,
    output_file: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    fail_on: str,
    exit_zero: bool,
    explain_estimate: bool,
    color: str,
    statistics: bool,
    verbose: bool,
    **known: Any,
) -> int:
    """Judge the logs of one job at PATHS: files, directories, archives, quoted globs, - for stdin.

    Exit codes: 0 nothing at or above --fail-on, 1 something, 2 wrong call, 3 an input could not be read or held
    nothing to judge, 130 interrupted.
    """
    paths = paths_or_stdin(paths)
    if output_file == "-":
        output_file = None
    if output_file is not None:
        refuse_to_overwrite(output_file, paths)
    try:
        options = estimate_options(**known)
        checked = run_check(paths, Selection(select, ignore, extend_select), options, chosen_model())
    except WrongCallError as error:
        raise click.UsageError(str(error)) from None

    if output_file is not None:  # members of directories and globs are known only now
        refuse_to_overwrite(output_file, [row.path for row in checked.report.inputs])
    style = Style(width(), wants_color(color, output_file is not None), verbose, statistics, explain_estimate)
    text = render(output_format, checked.report, style)
    for line in (*checked.complaints, *(checked.remarks if verbose else ())):
        complain(line)
    if output_file is not None:
        write_file(output_file, text)
    else:
        write_stdout(text)
    return exit_code(checked.report.findings, fail_on, checked.nothing_to_judge, exit_zero)


def paths_or_stdin(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Without a path, read what is piped in; at a terminal, say how the program is called rather than wait."""
    if paths:
        return paths
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or no file at all
        mode = 0
    if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode):
        return ("-",)
    raise click.UsageError("no input: name a log, a directory, or - for standard input")
