"""`ncclcheck estimate step`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from ncclcheck.cli.estimate.answer import Output, output_options, print_answer
from ncclcheck.cli.estimate.job_options import job_of, job_options
from ncclcheck.cli.exits import CLEAN
from ncclcheck.cli.quantities import PARAMS, sentences
from ncclcheck.cli.site import chosen_model, site_option, with_site
from ncclcheck.cli.step_options import step_options
from ncclcheck.estimate.questions.job import Job


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--params", callback=PARAMS, required=True, metavar="N", help="Parameters of the model: 70B.")
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="Data type of weights and gradients.")
@step_options
@job_options
@site_option
@output_options
def step(without: tuple[str, ...], with_: tuple[str, ...], output: Output, **given: Any) -> int:
    """How long does a training step take, how much of it is communication, and what would a fault cost.

    Communication by collective, exposed share, scaling efficiency, tokens per second; with --without or --with before
    and after, and the GPU-hours and dollars that are lost a day. A --step-time is that of the job with the changes.
    """
    from ncclcheck.estimate.options import EstimateOptions
    from ncclcheck.estimate.questions.changes import named
    from ncclcheck.estimate.questions.step import planned_step

    model = chosen_model()
    job = {field.name: given.pop(field.name) for field in fields(Job) if field.name in given}
    with sentences():
        options = EstimateOptions(**given)
        answer = planned_step(job_of(job), options, model, named(without, with_))
    print_answer(with_site(answer, model), output)
    return CLEAN
