"""Options that describe a training step: shared by `check` and `estimate step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ncclcheck.cli.quantities import DURATION, PARAMS, PRICE, reads
from ncclcheck.estimate.training.parallelism import parse_plan


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Fields of `EstimateOptions`, by their names; None where not given."""
    for option in reversed((
        click.option(
            "--parallel", "plan", callback=reads(parse_plan), metavar="SIZES",
            help="How ranks are divided: dp=32,tp=8,pp=1 (ep=8 for experts).",
        ),
        click.option("--zero", type=int, metavar="STAGE", help="ZeRO stage 0 to 3; 3 is FSDP."),
        click.option(
            "--tokens-per-gpu", type=float, metavar="N", help="Tokens of a step divided by the GPUs: 8192."
        ),
        click.option(
            "--step-time", "step_seconds", callback=DURATION, metavar="TIME", help="What a step takes now: 8s."
        ),
        click.option("--gpu-price", callback=PRICE, metavar="DOLLARS", help="Per GPU and hour: 2.50."),
        click.option(
            "--micro-batches", type=int, metavar="N", help="Micro-batches of a step (accumulation, pipeline)."
        ),
        click.option("--layers", type=int, metavar="N", help="Layers of the model."),
        click.option("--hidden", type=int, metavar="N", help="Hidden size of the model."),
        click.option(
            "--mfu", type=float, metavar="SHARE", help="Share of the GPU's rate reached while it computes: 0.4."
        ),
        click.option(
            "--active-params", callback=PARAMS, metavar="N",
            help="Parameters that a token uses, of a mixture of experts.",
        ),
        click.option("--top-k", "experts_per_token", type=int, metavar="N", help="Experts that a token goes to."),
        click.option(
            "--day-share", type=float, metavar="SHARE", help="Share of the day in such steps; 1 if not given."
        ),
    )):  # fmt: skip
        command = option(command)
    return command
