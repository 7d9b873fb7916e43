"""`ncclcheck estimate step`."""

from __future__ import annotations

from typing import Any

import click

from ncclcheck.cli.estimate.answer import output_options, print_answer
from ncclcheck.cli.estimate.quantities import sentences
from ncclcheck.cli.exits import CLEAN
from ncclcheck.cli.site import chosen_model, site_option, with_site
from ncclcheck.cli.step_options import step_fields, step_options


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--params", required=True, metavar="N", help="Parameters of the model: 70B.")
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="Data type of weights and gradients.")
@step_options
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of the job.")
@click.option("--gpus-per-node", type=click.IntRange(min=1), metavar="N", help="GPUs on each of them.")
@click.option("--gpu", metavar="NAME", help="GPU class: H100.")
@click.option("--nics", type=click.IntRange(1, 4096), metavar="N", help="NICs in use on each node.")
@click.option("--nic-gbps", type=float, metavar="N", help="Rate of one NIC in Gb/s as sold: 400.")
@click.option("--transport", metavar="NAME", help="Between nodes: IB, RoCE, EFA, Slingshot, TCPX, TCPXO or socket.")
@click.option("--without", multiple=True, metavar="WHAT", help="What if that were gone: gdr,nvls. Repeatable.")
@click.option("--with", "with_", multiple=True, metavar="WHAT", help="What if that were so: acs. Repeatable.")
@site_option
@output_options
def step(
    params: str,
    dtype: str,
    nodes: int | None,
    gpus_per_node: int | None,
    gpu: str | None,
    nics: int | None,
    nic_gbps: float | None,
    transport: str | None,
    without: tuple[str, ...],
    with_: tuple[str, ...],
    output_format: str,
    output_file: str | None,
    color: str,
    explain_estimate: bool,
    **plan: Any,
) -> int:
    """How long does a training step take, how much of it is communication, and what would a fault cost.

    Communication by collective, exposed share, scaling efficiency, tokens per second; with --without or --with before
    and after, and the GPU-hours and dollars that are lost a day. A --step-time is that of the job with the changes.
    """
    from ncclcheck.estimate.options import EstimateOptions
    from ncclcheck.estimate.quantities import parse_params
    from ncclcheck.estimate.questions.changes import named
    from ncclcheck.estimate.questions.job import TRANSPORTS, Job, chosen
    from ncclcheck.estimate.questions.step import planned_step

    model = chosen_model()
    with sentences():
        job = Job(
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            gpu=gpu,
            network=chosen("--transport", transport, TRANSPORTS),
            nics=nics,
            nic_gbit=nic_gbps,
        )
        options = EstimateOptions(params=parse_params(params), dtype=dtype, **step_fields(plan))
        answer = planned_step(job, options, model, named(without, with_))
    print_answer(with_site(answer, model), output_format, output_file, color, explain_estimate)
    return CLEAN
