"""`ncclcheck estimate` itself answers for bandwidth; its subcommands answer for the rest."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from ncclcheck.cli.estimate.answer import output_options
from ncclcheck.cli.estimate.bandwidth import answer_bandwidth, bandwidth_options
from ncclcheck.cli.estimate.batch import run_batch
from ncclcheck.cli.estimate.checkpoint import checkpoint
from ncclcheck.cli.estimate.inference import inference
from ncclcheck.cli.estimate.step import step
from ncclcheck.cli.estimate.sync import sync
from ncclcheck.estimate.model import shipped_model


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@bandwidth_options
@click.option("--batch", metavar="FILE", help="Answer for every row of a table of jobs instead.")
@output_options
@click.pass_context
def estimate(
    context: click.Context,
    /,
    batch: str | None,
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
        return run_batch(batch, output_format, output_file, shipped_model())
    return answer_bandwidth(
        flags, size, without, with_, plot,
        output_format=output_format, output_file=output_file, color=color, explain_estimate=explain_estimate,
    )  # fmt: skip


for command in (sync, step, inference, checkpoint):
    estimate.add_command(command)
