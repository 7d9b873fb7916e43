"""Step times of published training runs against the volumes and the step of the model.

J. Zhang, "InfiniBand vs Ethernet for Multi-Node LLM Fine-Tuning" (jingchaozhang.github.io, 2026): PyTorch FSDP with
full sharding in bf16 on nodes of eight H100, over eight 400 Gb/s InfiniBand rails and over TCP sockets of the same
cluster. Throughputs, batches of 2048 tokens, and the bus bandwidth of sockets that nccl-tests measured there are those
of the post; a step is the tokens of all GPUs divided by the throughput.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.training.step import StepEstimate
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

SOCKETS_GBPS = 3.19
H100_TFLOPS = 989


class Run(NamedTuple):
    """params and active in 10^9 parameters; tokens: per GPU and step; on_*: tokens per second; compute: seconds of a
    step that does not wait for the network (one node; two on InfiniBand where one is too small)."""

    name: str
    nodes: int
    params: float
    active: float
    layers: int
    tokens: int
    on_sockets: float
    on_infiniband: float
    compute: float

    def step(self, tokens_per_second: float) -> float:
        return 8 * self.nodes * self.tokens / tokens_per_second


RUNS = [
    Run("7B, 16 GPUs", 2, 7.6, 7.6, 28, 4096, 4968, 131018, 0.502),
    Run("7B, 64 GPUs", 8, 7.6, 7.6, 28, 4096, 18710, 502991, 0.502),
    Run("46.7B MoE, 16 GPUs", 2, 46.7, 12.9, 32, 2048, 398, 22520, 1.415),
    Run("46.7B MoE, 64 GPUs", 8, 46.7, 12.9, 32, 2048, 1501, 83583, 1.415),
    Run("72B, 16 GPUs", 2, 72.7, 72.7, 80, 2048, 203, 9127, 3.59),
    Run("72B, 64 GPUs", 8, 72.7, 72.7, 80, 2048, 784, 30175, 3.59),
]


def estimator(run: Run) -> Estimator:
    shape = JobShape(
        nodes=run.nodes,
        gpus_per_node=8,
        nranks=8 * run.nodes,
        gpu_names=("NVIDIA H100 80GB HBM3",),
        nvlink=Answer.YES,
        nvls=Answer.YES,
        intra=frozenset({"P2P"}),
        network="ib",
        nics_per_node=8,
        nic_gbit=(400.0,),
        gdr=Answer.YES,
    )
    flops = 6 * run.active * 1e9 * run.tokens
    options = EstimateOptions(
        params=run.params * 1e9,
        active_params=run.active * 1e9,
        layers=run.layers,
        zero=3,
        tokens_per_gpu=run.tokens,
        mfu=flops / (H100_TFLOPS * 1e12 * run.compute),
    )
    return Estimator(shape, options)


def seconds(step: StepEstimate | None) -> tuple[float, float]:
    assert step is not None
    assert step.timing is not None
    return step.timing.step_healthy.expected, step.timing.step_actual.expected


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_steps_with_the_measured_bandwidth(run: Run) -> None:
    """The volume of FSDP at the bandwidth of nccl-tests on the same cluster, and InfiniBand by the model."""
    known, line = estimator(run), Evidence("table.txt", 12, "")
    sockets = Measured("all_reduce", *[SOCKETS_GBPS] * 3, 1 << 27, 8 << 30, True, True, None, None, (), line)
    got = Estimator(replace(known.shape, measured=sockets), known.options).compare({}, {"network": "socket"})
    assert got is not None
    on_infiniband, on_sockets = seconds(got.step)
    assert on_sockets == pytest.approx(run.step(run.on_sockets), rel=0.20)
    assert on_infiniband == pytest.approx(run.step(run.on_infiniband), rel=0.20)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_steps_by_the_model_alone(run: Run) -> None:
    got = estimator(run).compare({}, {"network": "socket"})
    assert got is not None
    _, on_sockets = seconds(got.step)
    assert on_sockets == pytest.approx(run.step(run.on_sockets), rel=0.20)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_measured_step_predicts_the_healthy_one(run: Run) -> None:
    """From the step on sockets and its tokens: what InfiniBand saves is inside the range, and close to the middle."""
    known = estimator(run)
    options = replace(known.options, mfu=None, step_seconds=run.step(run.on_sockets))
    got = Estimator(known.shape, options).compare({}, {"network": "socket"})
    assert got is not None
    assert seconds(got.step)[1] == pytest.approx(run.step(run.on_sockets))
    assert got.step is not None
    assert got.step.loss is not None
    share = got.step.loss.share
    lost = 1 - run.step(run.on_infiniband) / run.step(run.on_sockets)
    assert share.low <= lost <= share.high
    assert share.expected == pytest.approx(lost, rel=0.2)
