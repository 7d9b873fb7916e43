"""The time of a step: what is exposed, what a fault costs, and that ranges stay ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.parallelism import Plan
from ncclcheck.estimate.training.step import StepEstimate
from ncclcheck.estimate.training.step_time import Timing, compute_of, exposed
from ncclcheck.estimate.training.workload import Collective, Workload
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

YES = Answer.YES
H100 = JobShape(
    nodes=32,
    gpus_per_node=8,
    nranks=256,
    gpu_names=("NVIDIA H100 80GB HBM3",),
    nvlink=YES,
    nvls=YES,
    intra=frozenset({"P2P"}),
    network="ib",
    nics_per_node=8,
    nic_gbit=(400.0,),
    gdr=YES,
)
DDP = EstimateOptions(params=70e9, zero=0)
PLANNED = EstimateOptions(
    params=70e9, layers=80, hidden=8192, plan=Plan(dp=32, tp=8), zero=3, tokens_per_gpu=8192, gpu_price=2.5
)
SHARES = {kind: share.expected for kind, share in hardware().overlap.items()}


def step_of(
    options: EstimateOptions, actual: Mapping[str, object], shape: JobShape = H100, healthy: Mapping[str, object] = {}
) -> StepEstimate:
    estimator = Estimator(shape, options)
    got = estimator.compare(healthy, actual)
    assert got is not None, estimator.why_not
    assert got.step is not None, estimator.why_no_step
    return got.step


def timing_of(step: StepEstimate) -> Timing:
    assert step.timing is not None
    return step.timing


def lost(step: StepEstimate) -> Range:
    assert step.loss is not None
    return step.loss.share


def test_seconds_of_70_billion_gradients() -> None:
    """140 GB over 256 GPUs: eight rails, one rail, 25 GbE where one flow carries it, and sockets as they come."""
    eight = step_of(DDP, {}).comm_actual.expected
    assert 0.70 < eight < 0.80
    assert step_of(DDP, {"nics": 1}).comm_actual.expected == pytest.approx(5.8, rel=0.03)
    socket = step_of(DDP, {"network": "socket", "tcp_gbit": 25.0}).comm_actual.expected
    assert socket == pytest.approx(140 * 2 * 255 / 256 / 2.97, rel=0.1)  # 94 s
    assert step_of(replace(DDP, dtype="fp32"), {}).comm_actual.expected == pytest.approx(2 * eight, rel=0.01)


def test_the_day_of_a_job_on_sockets() -> None:
    """8 s of compute and 94 s of communication, of which 4.8 s hide: over nine tenths are lost."""
    flops = 8 * 989e12 * 0.4
    options = replace(DDP, tokens_per_gpu=flops / 6 / 70e9, mfu=0.4, gpu_price=2.5)
    step = step_of(options, {"network": "socket", "tcp_gbit": 25.0})
    timing = timing_of(step)
    assert timing.compute == pytest.approx(Range(8, 8, 8))
    assert timing.step_healthy.expected == pytest.approx(8)
    assert timing.step_actual.expected == pytest.approx(8 - 4.8 + step.comm_actual.expected)
    assert step.loss is not None
    assert step.loss.gpu_hours.expected == pytest.approx(5650, rel=0.02)
    assert step.loss.dollars is not None
    assert step.loss.dollars.expected == pytest.approx(14_100, rel=0.02)
    assert step.loss.stops


def test_groups_go_where_their_ranks_lie() -> None:
    """Tensor parallelism stays on NVLink; data parallelism has a rail for each of its eight groups."""
    got = {one.name: one for one in step_of(PLANNED, {}).collectives}
    gather, reduce = got["all_gather of FSDP"], got["all_reduce of TP"]
    assert reduce.place == "inside a node"
    assert gather.place == "1 on each of 32 nodes, 8 such groups on a node"
    assert reduce.limit_actual == "nvls"
    assert gather.actual.expected == pytest.approx(
        2 * 140 / 8 * 31 / 32 / 48, rel=0.2
    )  # an eighth of the model over a rail, and some latency
    sick = {one.name: one for one in step_of(PLANNED, {"network": "socket"}).collectives}
    assert sick["all_reduce of TP"].actual == reduce.actual
    assert sick["all_gather of FSDP"].actual.expected > 50 * gather.actual.expected


def test_a_measured_step_is_kept_and_the_healthy_one_predicted() -> None:
    got = step_of(replace(PLANNED, step_seconds=150.0, tokens_per_gpu=None), {"network": "socket"})
    timing = timing_of(got)
    assert timing.step_actual == Range(150, 150, 150)
    assert timing.step_healthy.expected < 100
    assert timing.tokens_per_second_actual is None
    tokens = timing_of(step_of(replace(PLANNED, step_seconds=150.0), {"network": "socket"})).tokens_per_second_actual
    assert tokens is not None
    assert tokens.expected == pytest.approx(8192 * 256 / 150)


def test_a_step_shorter_than_the_modelled_communication() -> None:
    got = step_of(replace(PLANNED, step_seconds=8.0), {"network": "socket"})
    assert timing_of(got).step_actual == Range(8, 8, 8)
    assert lost(got).high < 0.5  # the tokens alone take half of it
    assert any("more communication than fits" in remark for remark in got.remarks)
    absurd = step_of(replace(PLANNED, step_seconds=0.1), {})
    assert any("do not fit together" in remark for remark in absurd.remarks)


def test_a_step_that_waits_for_something_else() -> None:
    got = step_of(replace(PLANNED, step_seconds=1000.0), {})
    assert any("neither computing nor communicating" in remark for remark in got.remarks)
    assert timing_of(got).efficiency_actual.expected < 0.1


def test_a_known_rate_settles_the_compute_time() -> None:
    flops = 6 * 70e9 * 8192
    got = step_of(replace(PLANNED, step_seconds=20.0, mfu=0.4), {"network": "socket"})
    assert timing_of(got).compute.expected == pytest.approx(flops / (989e12 * 0.4))
    assert timing_of(got).step_actual == Range(20, 20, 20)


def test_without_tokens_and_step_time_there_is_only_communication() -> None:
    got = step_of(DDP, {"nics": 1})
    assert got.timing is None
    assert got.loss is None
    assert any("--step-time" in remark for remark in got.remarks)


def test_the_pipeline_idles_in_its_bubble() -> None:
    options = replace(PLANNED, plan=Plan(dp=8, tp=8, pp=4), zero=0, micro_batches=12, mfu=0.4)
    flat = replace(options, plan=Plan(dp=32, tp=8))
    one, other = timing_of(step_of(options, {})), timing_of(step_of(flat, {}))
    assert one.compute.expected == pytest.approx(other.compute.expected)
    assert one.efficiency_actual.expected < 1 / (1 + 3 / 12) + 1e-9


def test_the_job_as_it_is_has_one_side() -> None:
    estimator = Estimator(H100, PLANNED)
    step = estimator.step()
    assert step is not None
    assert step.comm_healthy == step.comm_actual
    assert lost(step) == Range(0, 0, 0)
    assert Estimator(H100).step() is None
    assert Estimator(H100).why_no_step is None


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        (JobShape(), DDP, "does not tell how many nodes"),
        (JobShape(gpus_per_node=8), DDP, "how many ranks"),
        (replace(H100, nodes=1, nranks=8, network=""), PLANNED, "256 ranks do not fit what the input shows of 8"),
    ],
)
def test_no_step_says_why(shape: JobShape, options: EstimateOptions, words: str) -> None:
    estimator = Estimator(shape, options)
    assert estimator.step() is None
    assert words in (estimator.why_no_step or "")


def test_a_plan_alone_gives_the_ranks() -> None:
    got = Estimator(JobShape(gpus_per_node=8, network="ib"), replace(PLANNED, plan=Plan(dp=4, tp=8))).step()
    assert got is not None
    assert got.comm_actual.expected > 0


def measured(busbw: float) -> Measured:
    """The plateau of an all_reduce of all ranks."""
    line = Evidence("table.txt", 12, "")
    return Measured("all_reduce", busbw, busbw, busbw, 1 << 27, 8 << 30, True, True, None, None, (), line)


def test_a_measured_bandwidth_counts_between_nodes_only() -> None:
    got = Estimator(replace(H100, measured=measured(40.0)), PLANNED).step()
    assert got is not None
    found = {one.name: one for one in got.collectives}
    gather = found["all_gather of FSDP"]
    assert gather.actual.expected == pytest.approx(2 * 140 / 8 * 31 / 32 / (40 / 8))
    assert gather.limit_actual == "measured"
    assert found["all_reduce of TP"].limit_actual == "nvls"


def test_a_measured_ring_carries_other_collectives() -> None:
    """Four gigabytes per second over sockets, more than the model expects, and as much for all that rings carry."""
    got = Estimator(replace(H100, network="socket", measured=measured(4.0)), PLANNED).step()
    assert got is not None
    gather = next(one for one in got.collectives if one.op == "all_gather")
    assert gather.limit_actual == "measured"
    # a tree on two nodes is faster than the ring that gathers
    two = replace(H100, nodes=2, nranks=16, measured=measured(480.0))
    got = Estimator(two, replace(PLANNED, plan=Plan(dp=16))).step()
    assert got is not None
    gather = next(one for one in got.collectives if one.op == "all_gather")
    assert gather.limit_actual != "measured"


def test_calls_of_the_log_stand_in_for_a_step() -> None:
    call = Collective("all_reduce of 1 GB", "all_reduce", 1e9, 10, 256, on_node=8)
    estimator = Estimator(H100, logged=Workload((call,), 256, per_step=False))
    got = estimator.compare({}, {"network": "socket"})
    assert got is not None
    assert got.step is not None
    assert got.step.timing is None
    assert got.step.comm_actual.expected == pytest.approx(10 * 2 * 255 / 256 / 3.0, rel=0.02)


def test_a_stopped_job_has_a_price_as_well() -> None:
    cost = Estimator(H100, EstimateOptions(gpu_price=2.0)).stops()
    assert cost.dollars == cost.amount.scale(2.0)
    assert Estimator(H100).stops().dollars is None
    priced = Estimator(H100, EstimateOptions(gpu_price=2.0))
    assert priced.step() is None
    assert "--params" in (priced.why_no_step or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"zero": 4},
        {"tokens_per_gpu": 0.0},
        {"tokens_per_gpu": float("nan")},
        {"step_seconds": -1.0},
        {"gpu_price": 1e30},
        {"micro_batches": 0},
        {"layers": 0},
        {"mfu": 40.0},
        {"day_share": 2.0},
        {"active_params": 80e9},
        {"params": None},
        {"plan": Plan(dp=8, ep=8)},
    ],
)
def test_options_that_make_no_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(PLANNED, **fields)


comms = st.dictionaries(st.sampled_from(["ddp", "fsdp", "tp", "pp", "ep"]), st.floats(0, 1e4), max_size=5)


@given(comms, st.floats(1e-3, 1e4), st.floats(0, 3))
def test_the_compute_time_is_found_again(comm: dict[str, float], compute: float, bubble: float) -> None:
    step = compute * (1 + bubble) + exposed(comm, compute, SHARES)
    assert compute_of(step, comm, SHARES, bubble) == pytest.approx(compute, rel=1e-3, abs=1e-9 * step)


@given(comms, st.floats(0, 1e4))
def test_no_more_hides_than_there_is(comm: dict[str, float], compute: float) -> None:
    least = max(0.0, sum(comm.values()) - 0.9 * compute)
    assert least <= exposed(comm, compute, SHARES) <= sum(comm.values())


plans = st.builds(
    lambda dp, tp, pp: Plan(dp=dp, tp=tp, pp=pp),
    st.integers(1, 1500), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]),
).filter(lambda plan: plan.ranks >= 2)  # fmt: skip
jobs = st.builds(
    lambda plan, per_node, **more: (
        replace(H100, gpus_per_node=per_node, nodes=max(2, -(-plan.ranks // per_node)), nranks=plan.ranks),
        EstimateOptions(plan=plan, **more),
    ),
    plans,
    st.sampled_from([1, 4, 8]),
    params=st.floats(1e6, 1e13),
    zero=st.integers(0, 3),
    tokens_per_gpu=st.none() | st.floats(1, 1e7),
    step_seconds=st.none() | st.floats(1e-3, 1e5),
    gpu_price=st.none() | st.floats(0.01, 100),
    micro_batches=st.none() | st.integers(1, 64),
    mfu=st.none() | st.floats(0.01, 1),
)
faults = st.sampled_from(
    [{}, {"nics": 4}, {"network": "socket"}, {"gdr": False}, {"redirect": ("acs", "vm")}, {"effect": "nic-sys"},
     {"intra": "shm"}, {"nvls": False}, {"nvlinks": 9}]
)  # fmt: skip


def ranges_of(step: StepEstimate) -> list[Range]:
    found = [step.comm_healthy, step.comm_actual]
    for one in step.collectives:
        found += [one.healthy, one.actual]
    for part in (step.timing, step.loss):
        if part is not None:
            found += [value for name in part.__slots__ if isinstance(value := getattr(part, name), Range)]
    return found


@settings(max_examples=150)
@given(jobs, faults)
def test_a_fault_never_makes_a_step_shorter(job: tuple[JobShape, EstimateOptions], fault: dict[str, object]) -> None:
    shape, options = job
    step = step_of(options, fault, shape)
    for one in ranges_of(step):
        assert all(map(isfinite, one))
        assert 0 <= one.low <= one.expected <= one.high
    assert step.comm_healthy.expected <= step.comm_actual.expected * (1 + 1e-9)
    if step.timing is not None:
        assert step.timing.step_healthy.expected <= step.timing.step_actual.expected * (1 + 1e-9)
        assert lost(step).high <= 1
    if step.loss is not None and options.gpu_price is not None:
        twice = step_of(replace(options, gpu_price=2 * options.gpu_price), fault, shape).loss
        assert twice is not None and twice.dollars is not None and step.loss.dollars is not None
        assert twice.dollars.expected == pytest.approx(2 * step.loss.dollars.expected)


@settings(max_examples=60)
@given(jobs, st.sampled_from([(100.0, 200.0), (200.0, 400.0), (400.0, 800.0)]))
def test_more_bandwidth_never_makes_a_step_longer(
    job: tuple[JobShape, EstimateOptions], rates: tuple[float, float]
) -> None:
    shape, options = job
    slow, fast = (
        Estimator(replace(shape, nic_gbit=(rate,)), replace(options, step_seconds=None)).step() for rate in rates
    )
    assert slow is not None
    assert fast is not None
    assert fast.comm_actual.expected <= slow.comm_actual.expected * (1 + 1e-9)
    if fast.timing is not None and slow.timing is not None:
        assert fast.timing.step_actual.expected <= slow.timing.step_actual.expected * (1 + 1e-9)
