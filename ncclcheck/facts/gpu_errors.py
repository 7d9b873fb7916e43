"""Errors of a GPU or its driver that PyTorch or nccl-tests report, not NCCL itself."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

# Words of CUDA for errors that end a process wherever they are met. Others may be the program's own affair.
_ERRORS = (
    "uncorrectable ECC error", "unspecified launch failure", "illegal memory access", "illegal instruction",
    "misaligned address", "device-side assert", "GPU is lost", "fallen off", "uncorrectable NVLink error",
    "hardware error", "driver version is insufficient", "no kernel image is available", "system not yet initialized",
    "named symbol not found", "unsupported toolchain",
)  # fmt: skip
_WORDS = f"((?i:{'|'.join(_ERRORS)})[^'\\n]*)"
# PyTorch puts these before CUDA's own words; nccl-tests puts quotes around them.
_SAYS = {"python_error": "CUDA error: ", "watchdog_cuda": "^", "test_failed": "'[^']*?"}


class GpuError(NamedTuple):
    """One error. ranks: of the job, where they are named."""

    error: str
    machines: tuple[str, ...]
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]


@question
def gpu_errors(facts: Printed) -> tuple[GpuError, ...]:
    """The errors that are on record, first ones first."""
    rows = facts["around"].filter(pl.col("event").is_in(list(_SAYS)))
    text = pl.col("text").fill_null("")
    error = pl.coalesce(
        pl.when(pl.col("event") == event).then(text.str.extract(before + _WORDS)) for event, before in _SAYS.items()
    )
    rows = rows.with_columns(error=error.str.strip_chars(" .")).drop_nulls("error")
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left").sort("source", "line")
    found = []
    for (said,), part in rows.partition_by("error", as_dict=True, maintain_order=True).items():
        found.append(
            GpuError(
                str(said),
                tuple(part.get_column("machine").drop_nulls().unique().sort()),
                tuple(part.get_column("rank").drop_nulls().unique().sort()),
                tuple(facts.evidence(*at) for at in part.select("source", "line").head(MAX_EVIDENCE).iter_rows()),
            )
        )
    return tuple(found)
