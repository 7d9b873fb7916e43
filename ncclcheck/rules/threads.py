"""NCCL's threads on the CPUs: how to name them, and what it costs when those CPUs are few or far away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.affinity import Binding
from ncclcheck.facts.answer import Answer
from ncclcheck.rules.common import Numbers, compared, listed, no_number

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def threads_of(bindings: Sequence[Binding]) -> str:
    """`NCCL's threads for GPUs 2 and 3`."""
    gpus = sorted({binding.gpu for binding in bindings})
    return f"NCCL's threads for {'GPU' if len(gpus) == 1 else 'GPUs'} {listed([str(gpu) for gpu in gpus], 8)}"


def cpu_cost(facts: Facts, estimator: Estimator) -> Numbers:
    """Proxy threads copy every byte of sockets and of host staging; with GPUDirect RDMA they only post requests."""
    if facts.crossing.answer is Answer.NO:
        return no_number(
            "GPUs of one node exchange data without NCCL's proxy threads; data loaders are not in the model"
        )
    if facts.crossing.answer is not Answer.YES:
        return no_number("the input does not tell whether the job sends data between machines")
    return compared(estimator, {}, {"effect": "cpu"})
