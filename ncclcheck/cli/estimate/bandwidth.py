"""`ncclcheck estimate`: what should I get, and what if."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ncclcheck.cli.estimate.answer import print_answer
from ncclcheck.cli.output import prints_unicode, wants_color, write_file
from ncclcheck.cli.site import chosen_model, with_site
from ncclcheck.estimate.questions.changes import WITH, WITHOUT

if TYPE_CHECKING:
    from ncclcheck.estimate.questions.job import Job

_MOST = 1_000_000
_DEFAULT_BYTES = "8G"


def bandwidth_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a job and of the question."""
    for option in reversed((
        click.option("--nodes", type=click.IntRange(1, _MOST), metavar="N", help="Nodes of the job."),
        click.option("--gpus-per-node", type=click.IntRange(1, _MOST), metavar="N", help="GPUs on each of them."),
        click.option("--gpu", metavar="NAME", help="GPU class: H100; local: this machine's."),
        click.option("--nics", type=click.IntRange(1, 4096), metavar="N", help="NICs in use on each node."),
        click.option("--nic-gbps", type=float, metavar="N", help="Rate of one NIC in Gb/s as sold: 400."),
        click.option(
            "--transport", metavar="NAME",
            help="Between nodes: IB, RoCE, EFA, Slingshot, TCPX, TCPXO or socket (TCP); MNNVL: in racks of GB200.",
        ),
        click.option(
            "--collective", default="all_reduce", show_default=True, metavar="NAME", help="As nccl-tests names it."
        ),
        click.option(
            "--bytes", "size", default=_DEFAULT_BYTES, show_default=True, metavar="SIZE",
            help="Message size: 8G is 8 GiB, as nccl-tests reads -b and -e; 8GB is 8 x 10^9 bytes.",
        ),
        click.option("--algo", metavar="NAME", help="Algorithm, if it is forced: ring, tree, nvls, collnet or pat."),
        click.option("--proto", metavar="NAME", help="Protocol, if it is forced: simple, ll or ll128."),
        click.option("--channels", type=click.IntRange(1, 1024), metavar="N", help="Channels, if they are limited."),
        click.option(
            "--intra", metavar="PATH", help="GPU to GPU in a node: nvlink, pcie-switch, pcie-cpu or shm (host memory)."
        ),
        click.option("--pcie-gen", type=click.IntRange(3, 6), metavar="N", help="PCIe generation of the GPUs' slots."),
        click.option(
            "--cpu", metavar="KIND",
            help="CPU, for traffic through host memory: recent, rome, rome-two-sockets or rome-nps1.",
        ),
        click.option("--nccl", metavar="X.Y.Z", help="NCCL release; NVLS needs 2.17."),
        click.option(
            "--without", multiple=True, metavar="WHAT",
            help=f"What if that were gone: {', '.join(WITHOUT)}. Repeatable.",
        ),
        click.option(
            "--with", "with_", multiple=True, metavar="WHAT",
            help=f"What if that were so: {', '.join(WITH)}. Repeatable.",
        ),
        click.option("--plot", metavar="FILE.svg", help="Write the curve over message sizes there, too."),
    )):  # fmt: skip
        command = option(command)
    return command


def answer_bandwidth(
    flags: dict[str, Any], size: str, without: Sequence[str], with_: Sequence[str], plot: str | None, **output: Any
) -> int:
    """flags: those of the job, by name. output: arguments of `print_answer`. Raises UsageError."""
    from ncclcheck.estimate.questions.bandwidth import bandwidth
    from ncclcheck.estimate.questions.changes import named
    from ncclcheck.estimate.questions.job import parse_message
    from ncclcheck.report.bandwidth import curves_of, write_bandwidth

    if plot == "-":
        raise click.UsageError("--plot is the name of a file: stdout is for the answer")
    if plot is not None and plot == output["output_file"]:
        raise click.UsageError("--plot and --output-file are the same file")
    model = chosen_model()
    try:
        result = bandwidth(_job(**flags), parse_message(size), model, named(without, with_))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if plot is not None:
        from ncclcheck.report.curves import as_svg

        write_file(plot, as_svg(curves_of(result), result.answer.title))
    to_file = output["output_file"] not in (None, "-")
    color, unicode = wants_color(output["color"], to_file), prints_unicode(to_file)
    print_answer(
        with_site(result.answer, model),
        **output,
        write=lambda page, answer, explain: write_bandwidth(
            page, replace(result, answer=answer), explain, color, unicode
        ),
    )
    return 0


def answer_calibration(
    flags: dict[str, Any], without: Sequence[str], with_: Sequence[str], tables: Sequence[str], site_file: str
) -> int:
    """flags, without, with_: what the tables were measured on, where they do not tell. Raises UsageError."""
    from ncclcheck.cli.estimate.calibrate import run_calibrate
    from ncclcheck.estimate.questions.changes import named

    try:
        job, changes = _job(**flags), named(without, with_)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return run_calibrate(tables, job, changes, site_file)


def _job(
    nodes: int | None,
    gpus_per_node: int | None,
    gpu: str | None,
    nics: int | None,
    nic_gbps: float | None,
    transport: str | None,
    collective: str,
    algo: str | None,
    proto: str | None,
    channels: int | None,
    intra: str | None,
    pcie_gen: int | None,
    cpu: str | None,
    nccl: str | None,
) -> Job:
    """Raises ValueError with a sentence."""
    from ncclcheck.estimate.questions import job as known

    if gpu == "local":
        gpu, count = _this_machine()
        nodes, gpus_per_node = nodes or 1, gpus_per_node or count
    return known.Job(
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        gpu=gpu,
        network=known.chosen("--transport", transport, known.TRANSPORTS),
        nics=nics,
        nic_gbit=nic_gbps,
        intra=known.chosen("--intra", intra, known.PATHS),
        pcie_gen=pcie_gen,
        cpu=cpu,
        channels=channels,
        algorithm=known.chosen("--algo", algo, known.ALGORITHMS),
        protocol=known.chosen("--proto", proto, known.PROTOCOLS),
        release=known.parse_release(nccl) if nccl is not None else None,
        collective=known.chosen("--collective", collective, known.COLLECTIVES),
    )


def _this_machine() -> tuple[str, int]:
    """Model and number of the GPUs of this machine."""
    from ncclcheck.live import nvml

    try:
        names = nvml.gpu_names()
    except nvml.NoDriverError as error:
        raise ValueError(f"--gpu local: {error}") from None
    return names[0], len(names)
