"""`ncclcheck estimate sync`."""

from __future__ import annotations

from typing import Any

import click

from ncclcheck.cli.estimate.answer import Output, output_options, print_answer
from ncclcheck.cli.estimate.job_options import job_of, job_options
from ncclcheck.cli.exits import CLEAN
from ncclcheck.cli.quantities import DURATION, PARAMS, SIZE, sentences
from ncclcheck.cli.site import chosen_model, site_option, with_site


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--params", callback=PARAMS, required=True, metavar="N", help="Parameters of the model: 70B.")
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="Data type of the gradients.")
@click.option("--bucket", callback=SIZE, metavar="SIZE", help="Bytes of one all_reduce, if not all at once: 25MB.")
@click.option("--gpus", type=int, metavar="N", help="GPUs of the job.")
@job_options
@click.option("--busbw", type=float, metavar="GBPS", help="Measured bus bandwidth in GB/s, instead of the model.")
@click.option("--overlap", type=float, metavar="SHARE", help="Of the computation, that hides communication: 0.6.")
@click.option("--compute-time", callback=DURATION, metavar="TIME", help="Computation of a step: 8s.")
@site_option
@output_options
def sync(
    params: float,
    dtype: str,
    bucket: float | None,
    gpus: int | None,
    without: tuple[str, ...],
    with_: tuple[str, ...],
    busbw: float | None,
    overlap: float | None,
    compute_time: float | None,
    output: Output,
    **flags: Any,
) -> int:
    """How long does a gradient synchronisation take, and how much of it does a step not hide.

    Data parallelism with one all_reduce of all gradients. What is not told of the job widens the range.
    """
    from ncclcheck.estimate.questions.changes import named
    from ncclcheck.estimate.questions.sync import Sync, synchronisation

    model = chosen_model()
    with sentences():
        ask = Sync(params, dtype, job_of(flags), gpus, bucket, busbw, overlap, compute_time)
        answer = synchronisation(ask, model, named(without, with_))
    print_answer(with_site(answer, model), output)
    return CLEAN
