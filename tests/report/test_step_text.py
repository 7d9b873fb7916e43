"""A training step in the reports: under the number of a finding, and in the head."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from report_samples import REPORT, SOCKETS

from ncclcheck.engine.report import Report
from ncclcheck.estimate.figures import Given
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.money import loss
from ncclcheck.estimate.training.step import CollectiveSeconds, StepEstimate
from ncclcheck.estimate.training.step_time import Timing
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style

GATHER = CollectiveSeconds(
    "all_gather of FSDP", "all_gather", 2e8, 160, 32, "1 on each of 32 nodes", Range(0.7, 0.8, 1), Range(4, 5, 6),
    "nic", "tcp flow", "160 x 200 MB = 0.8 s",
)  # fmt: skip
REDUCE = replace(GATHER, name="all_reduce of TP", op="all_reduce", actual=Range(1, 1.2, 1.4))
TIMING = Timing(
    Range(5, 5, 5), Range(5, 5.5, 6), Range(8, 8, 8), Range(0, 0.1, 0.2), Range(0.3, 0.38, 0.4), Range(0.8, 0.9, 1),
    Range(0.6, 0.62, 0.63), Range(3e5, 3.8e5, 4e5), Range(262144, 262144, 262144),
    "3e15 operations of a GPU", "5 s compute + exposed communication",
)  # fmt: skip
STEP = StepEstimate(
    True, (GATHER, REDUCE), Range(2, 2.4, 3), Range(5, 6.2, 7), TIMING, loss(Range(0.25, 0.31, 0.38), 256, 1, 2.5, 0.9),
    (Given("step time", "8 s", "--step-time"),), ("layers are guessed",),
)  # fmt: skip


def with_step(step: StepEstimate) -> Report:
    assert SOCKETS.estimate is not None
    finding = replace(SOCKETS, estimate=replace(SOCKETS.estimate, step=step))
    return replace(REPORT, findings=(finding,), step=step)


def text(step: StepEstimate, verbose: bool = False) -> str:
    return render("terminal", with_step(step), Style(verbose=verbose))


def test_head_and_finding() -> None:
    got = text(STEP)
    assert (
        """\
step   6.2 (5.0-7.0) s of communication: all_gather of FSDP 5.0 s, all_reduce of
       TP 1.2 s
       8.0 s a step, 38 (30-40) % of it exposed communication; scaling
       efficiency 62 (60-63) %; 260,000 tokens per second
       layers are guessed
"""
        in got
    )
    assert (
        """\
         step 5.5 (5.0-6.0) -> 8.0 s; 1,900 (1,500-2,300) GPU-hours and $4,800
         ($3,800-$5,800) a day lost at $2.50
"""
        in got
    )
    assert "160 x 200 MB" not in got


def test_verbose_has_formulas_and_inputs() -> None:
    got = " ".join(text(STEP, verbose=True).split())
    for told in (
        "all_gather of FSDP: 160 x 200 MB = 0.8 s",
        "step = 5 s compute + exposed communication",
        "lost = 24 h x 256 GPUs x 0.31 x 1 = 1,905 GPU-hours a day; x $2.5 = $4,762",
        "inputs step time = 8 s (--step-time)",
    ):
        assert told in got


def test_a_job_that_effectively_stops_has_no_precise_sum() -> None:
    stopped = replace(STEP, loss=loss(Range(0.8, 0.95, 0.99), 256, 1, 2.5, 0.9))
    got = " ".join(text(stopped).split())
    assert "the job effectively stops: nearly all of its 6,100 GPU-hours a day are lost ($15,000 at $2.50)" in got


def test_a_part_of_the_day_is_told() -> None:
    half = replace(STEP, loss=loss(Range(0.5, 0.5, 0.5), 256, 0.5, None, 0.9))
    assert "1,500 GPU-hours a day lost, in such steps 50 % of the day" in " ".join(text(half).split())


def test_communication_alone() -> None:
    got = text(replace(STEP, timing=None, loss=None))
    assert "         communication of a step: 2.4 (2.0-3.0) -> 6.2 (5.0-7.0) s\n" in got
    calls = text(replace(STEP, per_step=False, timing=None, loss=None))
    assert "time   6.2 (5.0-7.0) s of a rank for the calls in the log: all_gather" in calls
    assert "         calls in the log: 2.4 (2.0-3.0) -> 6.2 (5.0-7.0) s\n" in calls


def test_without_numbers_the_reason_is_told() -> None:
    report = replace(REPORT, no_step_because="the input does not tell how many ranks the job has")
    assert "step   none: the input does not tell how many ranks" in render("terminal", report, Style())


def test_json_has_units_in_its_keys() -> None:
    document = json.loads(render("json", with_step(STEP), Style()))
    step: dict[str, Any] = document["findings"][0]["estimate"]["step"]
    assert document["step"] == step
    assert step["comm_seconds"]["actual"] == {"low": 5.0, "expected": 6.2, "high": 7.0}
    assert step["step_seconds"]["healthy"]["expected"] == 5.5
    assert step["gpu_hours_per_day"]["expected"] == pytest.approx(1904.64)
    assert step["dollars_per_day"]["expected"] == pytest.approx(4761.6)
    assert step["effectively_stops"] is False
    assert step["tokens_per_second"]["actual"]["expected"] == 262144
    assert step["collectives"][0]["calls_per_rank"] == 160
    assert step["inputs"] == [{"name": "step time", "value": "8 s", "origin": "--step-time"}]
    bare = json.loads(render("json", with_step(replace(STEP, timing=None, loss=None)), Style()))["step"]
    assert bare["step_seconds"] is None
    assert bare["lost_share"] is None
