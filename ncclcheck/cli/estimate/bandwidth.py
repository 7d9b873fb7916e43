"""`ncclcheck estimate`: what should I get, and what if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ncclcheck.cli.estimate.answer import Output, print_answer
from ncclcheck.cli.estimate.job_options import job_options, names
from ncclcheck.cli.output import prints_unicode, write_file
from ncclcheck.cli.quantities import reads, sentences
from ncclcheck.cli.site import chosen_model, with_site
from ncclcheck.estimate.questions.job import (
    ALGORITHMS,
    COLLECTIVES,
    PATHS,
    PROTOCOLS,
    Job,
    parse_message,
    parse_release,
)

if TYPE_CHECKING:
    from ncclcheck.estimate.questions.changes import Change

_DEFAULT_BYTES = "8G"


def bandwidth_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a job in full, and of the question."""
    for option in reversed((
        job_options,
        click.option(
            "--collective", default="all_reduce", show_default=True, callback=names(COLLECTIVES), metavar="NAME",
            help="As nccl-tests names it.",
        ),
        click.option(
            "--bytes", "size", default=_DEFAULT_BYTES, show_default=True, callback=reads(parse_message),
            metavar="SIZE",
            help="Message size: 8G is 8 GiB, as nccl-tests reads -b and -e; 8GB is 8 x 10^9 bytes.",
        ),
        click.option(
            "--algo", "algorithm", callback=names(ALGORITHMS), metavar="NAME",
            help="Algorithm, if it is forced: ring, tree, nvls, collnet or pat.",
        ),
        click.option(
            "--proto", "protocol", callback=names(PROTOCOLS), metavar="NAME",
            help="Protocol, if it is forced: simple, ll or ll128.",
        ),
        click.option("--channels", type=click.IntRange(1, 1024), metavar="N", help="Channels, if they are limited."),
        click.option(
            "--intra", callback=names(PATHS), metavar="PATH",
            help="GPU to GPU in a node: nvlink, pcie-switch, pcie-cpu or shm (host memory).",
        ),
        click.option("--pcie-gen", type=click.IntRange(3, 6), metavar="N", help="PCIe generation of the GPUs' slots."),
        click.option(
            "--cpu", metavar="KIND",
            help="CPU, for traffic through host memory: recent, rome, rome-two-sockets or rome-nps1.",
        ),
        click.option(
            "--nccl", "release", callback=reads(parse_release), metavar="X.Y.Z",
            help="NCCL release; NVLS needs 2.17.",
        ),
        click.option("--plot", metavar="FILE.svg", help="Write the curve over message sizes there, too."),
    )):  # fmt: skip
        command = option(command)
    return command


def answer_bandwidth(job: Job, size: int, changes: Sequence[Change], plot: str | None, output: Output) -> int:
    """size: bytes of the message. plot: a file for the curve."""
    from ncclcheck.estimate.questions.bandwidth import bandwidth
    from ncclcheck.report.bandwidth import curves_of, write_bandwidth

    if plot == "-":
        raise click.UsageError("--plot is the name of a file: stdout is for the answer")
    if plot is not None and not plot.casefold().endswith(".svg"):
        raise click.UsageError("--plot writes SVG: the file's name ends in .svg")
    if plot is not None and plot == output.file:
        raise click.UsageError("--plot and --output-file are the same file")
    model = chosen_model()
    with sentences():
        result = bandwidth(job, size, model, changes)
    if plot is not None:
        from ncclcheck.report.curves import as_svg

        write_file(plot, as_svg(curves_of(result), result.answer.title))
    unicode = prints_unicode(output.file is not None)
    print_answer(
        with_site(result.answer, model),
        output,
        write=lambda page, answer, explain: write_bandwidth(
            page, replace(result, answer=answer), explain, output.color, unicode
        ),
    )
    return 0
