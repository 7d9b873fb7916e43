"""`ncclcheck estimate` itself answers for bandwidth; its subcommands answer for the rest."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from ncclcheck.cli.estimate.answer import output_options
from ncclcheck.cli.estimate.bandwidth import answer_bandwidth, answer_calibration, bandwidth_options
from ncclcheck.cli.estimate.batch import run_batch
from ncclcheck.cli.estimate.checkpoint import checkpoint
from ncclcheck.cli.estimate.inference import inference
from ncclcheck.cli.estimate.step import step
from ncclcheck.cli.estimate.sync import sync
from ncclcheck.cli.site import SITE_FILE, chosen_model, site_option


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@bandwidth_options
@click.option("--batch", metavar="FILE", help="Answer for every row of a table of jobs instead.")
@click.option(
    "--calibrate",
    multiple=True,
    metavar="TABLE",
    help="Fit your site's constants to your own nccl-tests tables instead. Repeatable.",
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
    size: str,
    without: tuple[str, ...],
    with_: tuple[str, ...],
    plot: str | None,
    output_format: str,
    output_file: str | None,
    color: str,
    explain_estimate: bool,
    **flags: Any,
) -> int | None:
    """What should I get: bus bandwidth, its range, its limit, and the curve over message sizes.

    What if: --without gdr, --with acs show before and after, and with several of them which one binds. What is not
    told of a job widens the range, and is listed.

    The subcommands answer other questions: gradient synchronisation, training steps, inference, checkpoints.
    """
    if subcommand := context.invoked_subcommand:
        if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in context.params):
            raise click.UsageError(f"options of {subcommand} stand behind its name")
        return None
    if batch is not None:
        return run_batch(batch, output_format, output_file, chosen_model())
    if calibrate:
        return answer_calibration(flags, without, with_, calibrate, site_file)
    return answer_bandwidth(
        flags, size, without, with_, plot,
        output_format=output_format, output_file=output_file, color=color, explain_estimate=explain_estimate,
    )  # fmt: skip


for command in (sync, step, inference, checkpoint):
    estimate.add_command(command)
