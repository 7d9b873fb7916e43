"""`ncclcheck estimate inference`."""

from __future__ import annotations

from typing import Any

import click

from ncclcheck.cli.estimate.answer import Output, output_options, print_answer
from ncclcheck.cli.exits import CLEAN
from ncclcheck.cli.quantities import PARAMS, SIZE, sentences
from ncclcheck.cli.site import chosen_model, site_option, with_site


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--params", callback=PARAMS, metavar="N", help="Parameters of the model: 70B.")
@click.option("--dtype", default="bf16", show_default=True, metavar="TYPE", help="Data type of the weights.")
@click.option("--layers", type=int, metavar="N", help="Layers of the model.")
@click.option("--kv-heads", type=int, metavar="N", help="Heads of keys and values (of GQA: its groups).")
@click.option("--head-dim", type=int, metavar="N", help="Width of a head.")
@click.option("--hidden", type=int, metavar="N", help="Width of the model, for the all_reduces of large batches.")
@click.option("--kv-dtype", default="bf16", show_default=True, metavar="TYPE", help="Data type of the KV cache.")
@click.option("--context", type=int, metavar="N", help="Tokens that each sequence holds.")
@click.option("--batch", type=int, default=1, show_default=True, metavar="N", help="Sequences at a time.")
@click.option("--tp", type=int, default=1, show_default=True, metavar="N", help="GPUs that share the model.")
@click.option("--gpu", metavar="NAME", help="GPU class: H100.")
@click.option(
    "--gpu-memory", callback=SIZE, metavar="SIZE", help="Memory of one GPU, if not the usual of its class: 40GB."
)
@site_option
@output_options
def inference(gpu_memory: float | None, output: Output, **given: Any) -> int:
    """What does serving a model take: memory, time per token, largest batch.

    Whatever the given options allow is answered. All weights count as read at each step: of a mixture of experts that
    is so for batches that reach every expert; smaller ones are quicker.
    """
    from ncclcheck.estimate.questions.inference import Serving
    from ncclcheck.estimate.questions.inference import inference as answer

    model = chosen_model()
    with sentences():
        found = answer(Serving(memory_bytes=gpu_memory, **given), model)
    print_answer(with_site(found, model), output)
    return CLEAN
