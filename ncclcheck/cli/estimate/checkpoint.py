"""`ncclcheck estimate checkpoint`."""

from __future__ import annotations

from typing import Any

import click

from ncclcheck.cli.estimate.answer import Output, output_options, print_answer
from ncclcheck.cli.exits import CLEAN
from ncclcheck.cli.quantities import DURATION, PARAMS, PRICE, SIZE, sentences

_PER_PARAMETER = 64.0  # a bare number up to here is bytes per parameter


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--params", callback=PARAMS, metavar="N", help="Parameters of the model: 70B.")
@click.option(
    "--state-bytes",
    callback=SIZE,
    metavar="N|SIZE",
    help="Bytes per parameter (14 to 16 with optimizer), or the whole state: 1.1TB.",
)
@click.option("--write-gbps", type=float, metavar="N", help="GB/s that one writer writes: 2.")
@click.option("--writers", type=int, default=1, show_default=True, metavar="N", help="Writers at the same time.")
@click.option(
    "--write-time", callback=DURATION, metavar="TIME", help="Time that a checkpoint stops the computation: 2s."
)
@click.option("--mtbf", callback=DURATION, metavar="TIME", help="Between two failures of the whole job: 6h.")
@click.option("--preemptions-per-day", type=float, metavar="N", help="Of the whole job, instead of --mtbf: 4.")
@click.option("--restart", callback=DURATION, metavar="TIME", help="From a failure to the next step: 10m.")
@click.option("--interval", callback=DURATION, metavar="TIME", help="From one checkpoint to the next: 60s.")
@click.option("--timeout", callback=DURATION, metavar="TIME", help="Until the watchdog notices a dead peer: 600s.")
@click.option("--notice", metavar="TIME|CLOUD", help="Before a preemption: 30s, aws, azure, google.")
@click.option("--gpus", type=int, metavar="N", help="GPUs of the job.")
@click.option("--gpu-price", callback=PRICE, metavar="PRICE", help="Dollars per GPU and hour: 2.50.")
@output_options
def checkpoint(
    state_bytes: float | None,
    write_time: float | None,
    mtbf: float | None,
    restart: float | None,
    interval: float | None,
    timeout: float | None,
    notice: str | None,
    output: Output,
    **given: Any,
) -> int:
    """How often to write checkpoints, and what failures, preemptions and the watchdog cost.

    Times take us, ms, s, m, h and d. Whatever the given options allow is answered.
    """
    from ncclcheck.estimate.figures import TABLE
    from ncclcheck.estimate.hardware_table import hardware
    from ncclcheck.estimate.quantities import parse_duration
    from ncclcheck.estimate.questions.checkpoint import Checkpointing
    from ncclcheck.estimate.questions.checkpoint import checkpoint as answer

    with sentences():
        per_parameter = state_bytes is not None and state_bytes <= _PER_PARAMETER
        table, notice_from, notice_seconds = hardware(), f"--notice {notice}", None
        if notice is not None:
            notice_seconds = table.notice_seconds.get(notice.lower())
            if notice_seconds is None:
                notice_seconds = parse_duration(notice)
            else:
                notice_from += f", {TABLE}: {table.sources['notice']}"
        found = answer(
            Checkpointing(
                state_per_param=state_bytes if per_parameter else None,
                state_bytes=None if per_parameter else state_bytes,
                write_seconds=write_time,
                mtbf_seconds=mtbf,
                restart_seconds=restart,
                interval_seconds=interval,
                timeout_seconds=timeout,
                notice_seconds=notice_seconds,
                notice_from=notice_from,
                **given,
            ),
            table,
        )
    print_answer(found, output)
    return CLEAN
