"""`ncclcheck estimate` itself answers for bandwidth; its subcommands answer for the rest."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import click
from click.core import ParameterSource

from ncclcheck.cli.commands import Commands
from ncclcheck.cli.estimate.answer import Output, output_options
from ncclcheck.cli.estimate.bandwidth import answer_bandwidth, bandwidth_options
from ncclcheck.cli.estimate.batch import run_batch
from ncclcheck.cli.estimate.calibrate import run_calibrate
from ncclcheck.cli.estimate.job_options import job_of
from ncclcheck.cli.quantities import sentences
from ncclcheck.cli.site import SITE_FILE, chosen_model, site_option
from ncclcheck.estimate.questions.changes import named

_OF_BATCH = {"batch", "site", "output_format", "output_file", "color"}
_OF_CALIBRATION = {
    "calibrate", "site_file", "color", "nodes", "gpus_per_node", "gpu", "nics", "nic_gbit", "network", "algorithm",
    "protocol", "channels", "intra", "pcie_gen", "release", "without", "with_",
}  # fmt: skip
_MODULES = {name: f"ncclcheck.cli.estimate.{name}" for name in ("checkpoint", "inference", "step", "sync")}


class Estimate(Commands):
    """A group one of whose options takes all the files that a shell's glob puts behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_behind_its_own(args, "--calibrate"))


def each_behind_its_own(args: Sequence[str], option: str) -> list[str]:
    """`--calibrate a b --gpu X` as `--calibrate a --calibrate b --gpu X`."""
    given: list[str] = []
    taking = False
    for at, arg in enumerate(args):
        if arg.startswith("-"):
            taking = arg == option or arg.startswith(f"{option}=")
        elif taking and args[at - 1] != option:
            given.append(option)
        given.append(arg)
    return given


@click.group(
    cls=Estimate,
    modules=_MODULES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@bandwidth_options
@click.option("--batch", metavar="FILE", help="Answer for every row of a table of jobs instead.")
@click.option(
    "--calibrate",
    multiple=True,
    metavar="TABLE...",
    help="Fit your site's constants to your own nccl-tests tables instead.",
)
@click.option(
    "--site-file", default=SITE_FILE, show_default=True, metavar="FILE", help="Where --calibrate writes them."
)
@site_option
@output_options
@click.pass_context
def estimate(
    context: click.Context,
    /,
    batch: str | None,
    calibrate: tuple[str, ...],
    site_file: str,
    size: int,
    without: tuple[str, ...],
    with_: tuple[str, ...],
    plot: str | None,
    output: Output,
    **flags: Any,
) -> int | None:
    """What should I get: bus bandwidth, its range, its limit, and the curve over message sizes.

    What if: --without gdr, --with acs show before and after, and with several of them which one binds. What is not
    told of a job widens the range, and is listed.

    The subcommands answer other questions: gradient synchronisation, training steps, inference, checkpoints.
    """
    if subcommand := context.invoked_subcommand:
        if any(_is_given(context, name) for name in context.params):
            raise click.UsageError(f"options of {subcommand} stand behind its name")
        return None
    if batch is not None:
        _let_only(context, "--batch", _OF_BATCH)
        return run_batch(batch, output, chosen_model())
    if calibrate:
        _let_only(context, "--calibrate", _OF_CALIBRATION)
    elif _is_given(context, "site_file"):
        raise click.UsageError("--site-file is written by --calibrate; --site reads it")
    with sentences():
        job, changes = job_of(flags), named(without, with_)
    if calibrate:
        return run_calibrate(calibrate, job, changes, site_file)
    return answer_bandwidth(job, size, changes, plot, output)


def _let_only(context: click.Context, question: str, names: Container[str]) -> None:
    """An option that plays no part in a question is not dropped without a word."""
    for parameter in context.command.params:
        if parameter.name and parameter.name not in names and _is_given(context, parameter.name):
            raise click.UsageError(f"{parameter.opts[0]} plays no part in {question}")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
