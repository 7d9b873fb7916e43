"""Options that describe a training step: shared by `check` and `estimate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_HELP = {
    "--parallel": ("SIZES", "How ranks are divided: dp=32,tp=8,pp=1 (ep=8 for experts)."),
    "--zero": ("STAGE", "ZeRO stage 0 to 3; 3 is FSDP."),
    "--tokens-per-gpu": ("N", "Tokens of a step divided by the GPUs: 8192."),
    "--step-time": ("TIME", "What a step takes now: 8s."),
    "--gpu-price": ("DOLLARS", "Per GPU and hour: 2.50."),
    "--micro-batches": ("N", "Micro-batches of a step (accumulation, pipeline)."),
    "--layers": ("N", "Layers of the model."),
    "--hidden": ("N", "Hidden size of the model."),
    "--mfu": ("SHARE", "Share of the GPU's rate reached while it computes: 0.4."),
    "--active-params": ("N", "Parameters that a token uses, of a mixture of experts."),
    "--top-k": ("N", "Experts that a token goes to."),
    "--day-share": ("SHARE", "Share of the day in such steps; 1 if not given."),
}


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options above, as text: `step_fields` reads them."""
    for name, (metavar, text) in reversed(_HELP.items()):
        command = click.option(name, metavar=metavar, help=text)(command)
    return command


def step_fields(given: dict[str, str | None]) -> dict[str, Any]:
    """Fields of EstimateOptions, of the options that were given. Raises ValueError with a sentence for the user."""
    from ncclcheck.estimate.quantities import parse_duration, parse_params, parse_price
    from ncclcheck.estimate.training.parallelism import parse_plan

    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "parallel": ("plan", parse_plan),
        "zero": ("zero", _whole("--zero")),
        "tokens_per_gpu": ("tokens_per_gpu", _number("--tokens-per-gpu")),
        "step_time": ("step_seconds", parse_duration),
        "gpu_price": ("gpu_price", parse_price),
        "micro_batches": ("micro_batches", _whole("--micro-batches")),
        "layers": ("layers", _whole("--layers")),
        "hidden": ("hidden", _whole("--hidden")),
        "mfu": ("mfu", _number("--mfu")),
        "active_params": ("active_params", parse_params),
        "top_k": ("experts_per_token", _whole("--top-k")),
        "day_share": ("day_share", _number("--day-share")),
    }
    return {field: read(text) for name, (field, read) in readers.items() if (text := given.get(name)) is not None}


def _whole(name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.strip().isascii() and text.strip().isdigit()) or len(text) > 18:
            raise ValueError(f"{name} is a whole number; got {text!r}")
        return int(text)

    return read


def _number(name: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{name} is a number; got {text!r}") from None

    return read
