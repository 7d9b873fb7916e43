"""NVLS, the reduction inside the NVSwitches: who has it, who uses it, and where its set-up failed."""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.seen import Failure

# Errors that any call of a process can return: an earlier kernel, the hardware or the memory is at fault, not NVLS.
_OF_OTHERS = ("out of memory", "memory allocation", "illegal", "launch failure", "misaligned", "assert", "ecc", "lost",
              "fallen off", "unknown error", "shutting down", "busy", "driver/library")  # fmt: skip


@question
def nvls_used(facts: Printed) -> Answer:
    """Does some communicator have NVLS channels? NO is normal on many machines."""
    counts = facts["channels"].get_column("nvls").drop_nulls()
    return Answer.of(bool((counts > 0).any()) if len(counts) else None)


@question
def nvls_failures(facts: Printed) -> tuple[Failure, ...]:
    """Failures of CUDA while NVLS memory is set up: a WARN ends the init, after an INFO NCCL goes on without NVLS."""
    called = facts.failures("cuda_failure")
    traces = [one for one in facts.failures("error_trace") if _in_nvls(one)] if called else []
    traced = {machine for one in traces for machine in one.machines}
    nameless = any(not one.machines for one in traces)
    found = [
        one
        for one in called
        if one.level == "WARN"
        and not any(word in one.fields.get("error", "").lower() for word in _OF_OTHERS)
        # the call itself is often in a header, or its file is cut off: then the lines behind it tell
        and (_in_nvls(one) or (_anywhere(one) and ({*one.machines} & traced or (nameless and not one.machines))))
    ]
    return (*found, *facts.failures("nvls_bind_failed"))


def _in_nvls(failure: Failure) -> bool:
    return failure.fields.get("src_file", "").endswith("nvls.cc")


def _anywhere(failure: Failure) -> bool:
    return failure.fields.get("src_file", ".h").endswith(".h")


@question
def most_gpus_of_a_node(facts: Printed) -> int | None:
    """GPUs that the largest node of a communicator surely has; None where nothing tells."""
    devices = facts["inits"].select(pl.max_horizontal("nvml_dev", "cuda_dev").max() + 1).item()
    local = facts["inits"].get_column("local_ranks").max()
    matrices = [len(matrix.gpus) for matrix in facts.matrices if matrix.kind == "topo"]
    known = [number for number in (devices, local, *matrices) if isinstance(number, int)]
    return max(known, default=None)
