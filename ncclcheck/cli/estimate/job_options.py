"""Options that describe a job, and what becomes of it: those of every question about bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from ncclcheck.cli.quantities import reads
from ncclcheck.estimate.questions.changes import WITH, WITHOUT
from ncclcheck.estimate.questions.job import TRANSPORTS, Job, chosen

_MOST = 1_000_000


def names(known: Mapping[str, str]) -> Callable[..., Any]:
    """The callback of an option that takes one of these names."""
    return reads(partial(chosen, known=known))


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Fields of `Job` by their names, for `job_of`; and `without`, `with_`, for `changes.named`."""
    for option in reversed((
        click.option("--nodes", type=click.IntRange(1, _MOST), metavar="N", help="Nodes of the job."),
        click.option("--gpus-per-node", type=click.IntRange(1, _MOST), metavar="N", help="GPUs on each of them."),
        click.option("--gpu", metavar="NAME", help="GPU class: H100; local: this machine's."),
        click.option("--nics", type=click.IntRange(1, 4096), metavar="N", help="NICs in use on each node."),
        click.option("--nic-gbps", "nic_gbit", type=float, metavar="N", help="Rate of one NIC in Gb/s as sold: 400."),
        click.option(
            "--transport", "network", callback=names(TRANSPORTS), metavar="NAME",
            help="Between nodes: IB, RoCE, EFA, Slingshot, TCPX, TCPXO or socket (TCP); MNNVL: in racks of GB200.",
        ),
        click.option(
            "--without", multiple=True, metavar="WHAT",
            help=f"What if that were gone: {', '.join(WITHOUT)}. Repeatable.",
        ),
        click.option(
            "--with", "with_", multiple=True, metavar="WHAT",
            help=f"What if that were so: {', '.join(WITH)}. Repeatable.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def job_of(flags: dict[str, Any]) -> Job:
    """flags: fields of `Job`, None where not given. Raises ValueError with a sentence."""
    told = {name: value for name, value in flags.items() if value is not None}
    if told.get("gpu") == "local":
        from ncclcheck.cli.pipeline import gpus_of_this_machine

        gpus = gpus_of_this_machine()
        told = {"nodes": 1, "gpus_per_node": len(gpus)} | told | {"gpu": gpus[0]}
    return Job(**told)
