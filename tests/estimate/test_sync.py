"""Gradient synchronisation: bytes, bandwidth from the model, seconds, and what a step cannot hide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.figures import Answer
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.questions.bandwidth import bandwidth
from ncclcheck.estimate.questions.changes import named
from ncclcheck.estimate.questions.job import Job
from ncclcheck.estimate.questions.sync import Sync, synchronisation
from ncclcheck.estimate.ranges import Range

MODEL = shipped_model()
EIGHT_RAILS = Job(nodes=32, gpus_per_node=8, gpu="H100", network="ib", nics=8, nic_gbit=400)
WORK = 140e9 * 2 * 255 / 256  # of 70 billion bf16 gradients over 256 GPUs


def value(answer: Answer, name: str) -> Range:
    return next(one.value for one in answer.figures if one.name == name)


def asked(params: float = 70e9, job: Job = EIGHT_RAILS, **more: object) -> Answer:
    return synchronisation(Sync(params, job=job, **more), MODEL)  # type: ignore[arg-type]


def test_70b_on_eight_rails() -> None:
    answer = asked()
    sync, busbw = value(answer, "gradient sync"), value(answer, "busbw")
    assert 0.72 <= sync.expected <= 0.79
    assert sync.expected == pytest.approx(WORK / busbw.expected / 1e9)
    assert busbw == bandwidth(EIGHT_RAILS, 140 * 10**9, MODEL).before.busbw
    assert answer.details["bytes"] == 140 * 10**9
    assert f"The limit is {answer.details['limit']}." in answer.remarks
    assert value(asked(dtype="fp32"), "gradient sync").expected == pytest.approx(2 * sync.expected, rel=0.01)


@pytest.mark.parametrize(
    ("job", "low", "high"),
    [
        (Job(nodes=32, gpus_per_node=8, gpu="H100", network="ib", nics=1, nic_gbit=400), 5.5, 6.1),
        (Job(nodes=32, gpus_per_node=8, gpu="H100", network="socket", nic_gbit=25), 90, 140),
    ],
)
def test_70b_on_less(job: Job, low: float, high: float) -> None:
    assert low <= value(asked(job=job), "gradient sync").expected <= high


def test_a_measured_bandwidth_replaces_the_model() -> None:
    answer = asked(job=Job(), gpus=256, busbw_gbps=370.0)
    assert value(answer, "gradient sync").expected == pytest.approx(WORK / 370e9)
    assert value(answer, "busbw") == (370, 370, 370)
    formula = next(one.formula for one in answer.figures if one.name == "gradient sync")
    assert formula == "140 GB x 2 x 255/256 / 370 GB/s = 754 ms"
    assert any(one.origin == "--busbw, measured" for one in answer.givens)


def test_the_computation_hides_its_share() -> None:
    hidden = asked(compute_seconds=8.0)
    assert value(hidden, "exposed").expected == 0 and value(hidden, "scaling efficiency").expected == 100
    slow = asked(job=Job(), gpus=256, busbw_gbps=2.9, compute_seconds=8.0)
    sync = WORK / 2.9e9
    assert value(slow, "exposed") == pytest.approx((sync - 0.67 * 8, sync - 0.6 * 8, sync - 0.3 * 8))
    assert value(slow, "step").expected == pytest.approx(8 + sync - 4.8)
    assert value(slow, "scaling efficiency").expected == pytest.approx(100 * 8 / (8 + sync - 4.8))
    told = asked(job=Job(), gpus=256, busbw_gbps=2.9, compute_seconds=8.0, overlap=0.0)
    assert value(told, "exposed").expected == pytest.approx(sync)


def test_how_long_a_step_hides_it() -> None:
    answer = asked(job=Job(), gpus=256, busbw_gbps=370.0)
    assert value(answer, "computation that hides it").expected == pytest.approx(WORK / 370e9 / 0.6)


def test_buckets_pay_the_latency_each() -> None:
    whole, buckets = asked(), asked(bucket_bytes=25e6)
    assert value(buckets, "gradient sync").expected > 1.5 * value(whole, "gradient sync").expected
    assert value(asked(bucket_bytes=1e12), "gradient sync") == value(whole, "gradient sync")


def test_what_if() -> None:
    answer = synchronisation(Sync(70e9, job=EIGHT_RAILS), MODEL, named(["gdr"], []))
    assert value(answer, "gradient sync").expected > 3 * value(asked(), "gradient sync").expected
    assert answer.title.endswith(", without gdr")


@pytest.mark.parametrize(
    ("job", "gpus"),
    [(Job(gpus_per_node=8), 256), (Job(nodes=32), 256), (Job(nodes=32, gpus_per_node=8), 256)],
)
def test_two_of_three_numbers_tell_the_layout(job: Job, gpus: int) -> None:
    whole = Sync(70e9, job=job, gpus=gpus).whole_job()
    assert (whole.nodes, whole.gpus_per_node) == (32, 8)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"params": 0}, "--params is a number"),
        ({"dtype": "bf17"}, "--dtype: unknown data type"),
        ({"gpus": 250}, "--gpus 250 cannot be divided by --gpus-per-node 8"),
        ({"gpus": 128}, "--gpus 128 is not --nodes 32 x --gpus-per-node 8"),
        ({"gpus": 1}, "--gpus is a number from 2"),
        ({"job": Job(), "gpus": 8}, "how are the GPUs laid out"),
        ({"job": Job()}, "how large is the job"),
        ({"job": Job(), "busbw_gbps": 300.0}, "how large is the job"),
        ({"job": Job(nodes=1, gpus_per_node=1)}, "nobody to synchronise with"),
        ({"busbw_gbps": float("nan")}, "--busbw is a number"),
        ({"overlap": 1.5}, "--overlap is a number from 0 to 1"),
        ({"compute_seconds": float("inf")}, "--compute-time"),
        ({"bucket_bytes": 0.0}, "--bucket"),
        ({"job": Job(nodes=2, gpus_per_node=8, gpu="H900")}, "unknown GPU"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        asked(**wrong)  # type: ignore[arg-type]


@settings(max_examples=40)
@given(
    params=st.floats(1, 1e13),
    dtype=st.sampled_from(["fp32", "bf16", "fp8"]),
    nodes=st.sampled_from([1, 2, 3, 16, 512, 12_500]),
    gpus_per_node=st.sampled_from([2, 4, 8]),
    network=st.sampled_from(["", "ib", "roce", "efa", "socket"]),
    gpu=st.sampled_from([None, "H100", "A100", "RTX 4090", "GB200"]),
    compute=st.none() | st.floats(1e-3, 1e4),
    overlap=st.none() | st.floats(0, 1),
)
def test_ranges_are_ordered_from_two_gpus_to_a_hundred_thousand(
    params: float,
    dtype: str,
    nodes: int,
    gpus_per_node: int,
    network: str,
    gpu: str | None,
    compute: float | None,
    overlap: float | None,
) -> None:
    job = Job(nodes=nodes, gpus_per_node=gpus_per_node, gpu=gpu, network=network)
    answer = asked(params, job, dtype=dtype, compute_seconds=compute, overlap=overlap)
    for one in answer.figures:
        assert 0 <= one.value.low <= one.value.expected <= one.value.high < float("inf"), one
        assert one.formula, one


@settings(max_examples=30)
@given(st.floats(1e6, 1e12), st.floats(1, 10), st.floats(1, 1000))
def test_more_gradients_take_longer_and_more_bandwidth_less(params: float, more: float, busbw: float) -> None:
    base, larger = (value(asked(size), "gradient sync") for size in (params, params * more))
    assert all(a <= b * (1 + 1e-9) for a, b in zip(base, larger, strict=True))
    slow, quick = (asked(params, Job(), gpus=64, busbw_gbps=rate) for rate in (busbw, busbw * more))
    assert value(quick, "gradient sync").expected <= value(slow, "gradient sync").expected
