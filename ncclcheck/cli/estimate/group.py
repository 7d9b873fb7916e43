"""`ncclcheck estimate` itself answers for bandwidth; its subcommands answer for the rest."""

from __future__ import annotations

import click

from ncclcheck.cli.estimate.checkpoint import checkpoint
from ncclcheck.cli.estimate.inference import inference
from ncclcheck.cli.estimate.sync import sync


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def estimate(context: click.Context) -> int | None:
    """What should I get: bus bandwidth, its range and its limit.

    The subcommands answer other questions: gradient synchronisation, inference, checkpoints.
    """
    return None if context.invoked_subcommand else 0


for command in (sync, inference, checkpoint):
    estimate.add_command(command)
