"""Checkpoint intervals, what failures cost, and the watchdog."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.figures import Answer
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.questions.checkpoint import Checkpointing, checkpoint
from ncclcheck.estimate.questions.young_daly import daly, rework_seconds, shares, young
from ncclcheck.estimate.ranges import Range

TABLE = hardware()
SIX_HOURS = 21600.0
JOB = Checkpointing(write_seconds=2, mtbf_seconds=SIX_HOURS, restart_seconds=600, gpus=256, gpu_price=2)


def value(answer: Answer, name: str) -> Range:
    return next(one.value for one in answer.figures if one.name == name)


def asked(ask: Checkpointing) -> Answer:
    return checkpoint(ask, TABLE)


@pytest.mark.parametrize(("write", "interval", "lost"), [(2, 293.9, 0.014), (120, 2277, 0.105)])
def test_youngs_interval(write: float, interval: float, lost: float) -> None:
    answer = asked(replace(JOB, write_seconds=write))
    assert answer.details["interval_by"] == "Young"
    assert value(answer, "best interval").expected == pytest.approx(interval, rel=1e-3)
    assert shares(interval, write, SIX_HOURS, 0).lost == pytest.approx(lost, rel=0.04)  # known to first order


@pytest.mark.parametrize("down", [0.0, 600.0])
def test_the_shares_are_those_of_many_simulated_failures(down: float) -> None:
    """Against a walk through time, failure by failure."""
    import random

    interval, write, mtbf = 900.0, 60.0, 3600.0
    dice, time, done = random.Random(7), 0.0, 0.0
    for _ in range(60_000):
        alive = dice.expovariate(1 / mtbf)
        time += alive
        if alive > down:
            done += (alive - down) // interval * (interval - write)
    assert 1 - done / time == pytest.approx(shares(interval, write, mtbf, down).lost, rel=0.01)


def test_dalys_interval_where_checkpoints_are_long() -> None:
    answer = asked(replace(JOB, write_seconds=1200))
    assert answer.details["interval_by"] == "Daly"
    best = value(answer, "best interval").expected
    assert best == pytest.approx(daly(1200, SIX_HOURS)) and best > young(1200, SIX_HOURS)
    assert value(asked(replace(JOB, write_seconds=50_000)), "best interval").expected == 71_600


@settings(max_examples=60)
@given(st.floats(1, 1e4), st.floats(100, 1e6))
def test_the_best_interval_loses_the_least(write: float, mtbf: float) -> None:
    best = daly(write, mtbf)
    least = shares(best, write, mtbf, 0).lost
    for factor in (0.5, 0.8, 1.25, 2):
        assert least <= shares(best * factor, write, mtbf, 0).lost + 0.004


def test_an_interval_that_cannot_finish_is_said() -> None:
    answer = asked(replace(JOB, write_seconds=120, interval_seconds=60))
    assert answer.details["can_finish"] is False
    assert value(answer, "lost share").expected == 100
    assert "An interval of 60 s cannot even finish: writing a checkpoint takes 120 s." in answer.remarks
    without_failures = Checkpointing(write_seconds=120, interval_seconds=60)
    assert any("cannot even finish" in remark for remark in asked(without_failures).remarks)


def test_an_interval_of_a_minute() -> None:
    answer = asked(replace(JOB, interval_seconds=60, restart_seconds=1e-6))
    assert value(answer, "lost share").expected == pytest.approx(100 * (2 / 60 + 30 / SIX_HOURS), rel=0.01)
    assert value(answer, "lost per event").expected == pytest.approx(30, rel=0.01)


def test_an_event_costs_half_an_interval_and_the_restart() -> None:
    answer = asked(replace(JOB, interval_seconds=60))
    assert value(answer, "lost per event").expected == pytest.approx(630, rel=1e-3)
    assert value(answer, "GPU-hours per event").expected == pytest.approx(256 * 630 / 3600, rel=1e-3)
    assert value(answer, "cost per event").expected == pytest.approx(2 * 256 * 630 / 3600, rel=1e-3)
    share = value(answer, "lost share").expected / 100
    assert value(answer, "cost per day").expected == pytest.approx(24 * 256 * 2 * share)
    parts = sum(value(answer, name).expected for name in ("- writing", "- work done again", "- restarts"))
    assert parts == pytest.approx(100 * share)


def test_preemptions_per_day_are_another_way_to_say_it() -> None:
    four = replace(JOB, mtbf_seconds=None, preemptions_per_day=4)
    assert four.event_seconds == SIX_HOURS
    assert asked(four).figures == asked(JOB).figures


def test_the_watchdog_waits_with_all_gpus() -> None:
    answer = asked(JOB)
    assert value(answer, "GPU-hours per timeout").expected == pytest.approx(42.67, rel=1e-3)
    assert value(answer, "cost per timeout").expected == pytest.approx(85.3, rel=1e-3)
    longer = asked(replace(JOB, timeout_seconds=1800))
    assert value(longer, "GPU-hours per timeout").expected == pytest.approx(128)
    assert value(longer, "lost per event").expected == pytest.approx(value(answer, "lost per event").expected + 1800)
    alone = asked(Checkpointing(gpus=256, timeout_seconds=600))
    assert value(alone, "GPU-hours per timeout").expected == pytest.approx(42.67, rel=1e-3)


def test_state_and_writing() -> None:
    answer = asked(Checkpointing(params=70e9, write_gbps=2, writers=8))
    assert value(answer, "state") == pytest.approx((980, 980, 1120))
    assert value(answer, "writing a checkpoint") == pytest.approx((61.25, 61.25, 70))
    assert value(asked(Checkpointing(params=7e9, state_per_param=2)), "state").expected == 14
    assert value(asked(Checkpointing(state_bytes=1e12)), "state").expected == pytest.approx(1000)


def test_notice() -> None:
    fits, late = (asked(replace(JOB, write_seconds=write, notice_seconds=30)) for write in (29, 31))
    assert "fits into the notice" in fits.remarks[0] and "does not fit into the notice" in late.remarks[0]


def test_a_job_that_stands_still() -> None:
    assert any("stands still" in remark for remark in asked(replace(JOB, mtbf_seconds=60)).remarks)
    value(asked(replace(JOB, mtbf_seconds=1e-6, interval_seconds=86400)), "lost share")


def test_what_is_missing_is_said() -> None:
    missing = (
        "Not told, so what needs it is left out: --write-gbps or --write-time, --mtbf or --preemptions-per-day, --gpus."
    )
    assert asked(Checkpointing(params=70e9)).remarks == (missing,)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"write_seconds": None}, "nothing to count"),
        ({"preemptions_per_day": 4}, "--mtbf and --preemptions-per-day say the same"),
        ({"write_gbps": 2}, "--write-time and --write-gbps say the same"),
        ({"write_gbps": float("nan")}, "--write-gbps is a number"),
        ({"gpus": 0}, "--gpus is a number from 1"),
        ({"writers": 0}, "--writers is a number from 1"),
        ({"mtbf_seconds": 0.0}, "--mtbf in seconds is a number"),
        ({"state_per_param": 1e30}, "--state-bytes per parameter"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        asked(replace(JOB, **({"gpus": None, "mtbf_seconds": None} if "write_seconds" in wrong else {}), **wrong))  # type: ignore[arg-type]


seconds = st.floats(1e-3, 1e7)


@settings(max_examples=100)
@given(seconds, st.floats(1, 100), seconds)
def test_longer_writing_never_shortens_the_interval(write: float, longer: float, mtbf: float) -> None:
    assert daly(write, mtbf) <= daly(write * longer, mtbf) * (1 + 1e-12)
    assert young(write, mtbf) <= young(write * longer, mtbf)
    assert young(write, mtbf) <= daly(write, mtbf)


@settings(max_examples=100)
@given(
    st.builds(
        Checkpointing,
        params=st.floats(1, 1e13),
        write_gbps=st.floats(0.01, 1000),
        writers=st.integers(1, 1000),
        gpus=st.integers(2, 100_000),
        gpu_price=st.none() | st.floats(0.01, 100),
        mtbf_seconds=seconds,
        restart_seconds=st.none() | seconds,
        interval_seconds=st.none() | seconds,
        timeout_seconds=st.none() | seconds,
    )
)
def test_ranges_are_ordered_and_shares_are_shares(ask: Checkpointing) -> None:
    answer = asked(ask)
    for one in answer.figures:
        assert 0 <= one.value.low <= one.value.expected <= one.value.high < float("inf"), one
        assert one.formula, one
        if one.unit == "%":
            assert one.value.high <= 100 * (1 + 1e-9)
    interval = ask.interval_seconds or 1.0
    assert 0 <= rework_seconds(interval, ask.mtbf_seconds or 1.0) <= interval
