"""What a log's faults cost of a training step, from the log to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ncclcheck.cli.pipeline import Selection, estimate_options, run_check
from ncclcheck.estimate.training.parallelism import Plan
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style

FIXTURES = Path(__file__).parents[1] / "fixtures"
NO_HCA = "rules/NET001/fail-no-hca-two-nodes.log"  # four H100 on two nodes, over sockets
HEALTHY = "healthy/two-nodes-h100-ib-2.20.log"
SLOW = {"params": 7e9, "zero": 3, "tokens_per_gpu": 8192.0, "step_seconds": 14.0, "gpu_price": 2.5}
CALLS = "rules/RUN005/pass-pipeline.log"


def report(log: str, style: str = "json", **options: Any) -> str:
    checked = run_check([str(FIXTURES / log)], Selection(), estimate_options(**options))
    assert not checked.remarks
    return render(style, checked.report, Style(width=100))


def document(log: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report(log, **options))
    return found


def test_a_fault_costs_steps_hours_and_dollars() -> None:
    got = document(NO_HCA, **SLOW)
    step = next(one for one in got["findings"] if one["code"] == "NET001")["estimate"]["step"]
    assert step["step_seconds"]["actual"] == {"low": 14.0, "expected": 14.0, "high": 14.0}
    assert step["step_seconds"]["healthy"]["expected"] < 8
    assert [one["name"] for one in step["collectives"]] == ["all_gather of FSDP", "reduce_scatter of FSDP"]
    share = step["lost_share"]["expected"]
    assert step["gpu_hours_per_day"]["expected"] == pytest.approx(24 * 4 * share, rel=1e-4)
    assert step["dollars_per_day"]["expected"] == pytest.approx(2.5 * 24 * 4 * share, rel=1e-4)
    assert got["step"]["step_seconds"]["healthy"] == got["step"]["step_seconds"]["actual"]
    origins = {given["name"]: given["origin"] for given in step["inputs"]}
    assert origins["step time"] == "--step-time"
    assert origins["hidden size"].startswith("assumed")
    shown = report(NO_HCA, "terminal", **SLOW)
    shown = " ".join(shown.split())
    assert "a day lost at $2.50" in shown
    assert "tokens per second" in shown


def test_without_the_options_nothing_is_said_of_steps() -> None:
    for log in (NO_HCA, HEALTHY):
        got = document(log, params=70e9)
        assert got["step"] is None
        assert got["no_step_because"] is None
        assert all(one["estimate"] is None or one["estimate"]["step"] is None for one in got["findings"])


def test_nothing_lost_is_exactly_nothing() -> None:
    got = document("rules/NVL005/fail-switched-off.log", params=70e9, plan=Plan(dp=2, tp=4), zero=3,
                   tokens_per_gpu=8192.0, step_seconds=20.0, gpu_price=2.5)  # fmt: skip
    lost = [one["estimate"]["step"]["gpu_hours_per_day"]["expected"] for one in got["findings"] if one["estimate"]]
    assert lost
    assert all(one == 0 or one > 1e-3 for one in lost)


def test_a_measured_job_has_one_step_time() -> None:
    """In the head and in each finding, whatever the model thinks of it."""
    got = document("rules/GDR001/fail-both-sides-off.log", params=7e9, zero=3, tokens_per_gpu=8192.0)
    head = got["step"]["step_seconds"]["actual"]["expected"]
    found = [one["estimate"] for one in got["findings"] if one["estimate"] and one["estimate"]["basis"] == "measured"]
    assert found
    for estimate in found:
        assert estimate["step"]["step_seconds"]["actual"]["expected"] == pytest.approx(head)


def test_a_plan_that_the_log_contradicts_is_told() -> None:
    got = document(HEALTHY, params=70e9, plan=Plan(dp=32, tp=8), tokens_per_gpu=8192.0)
    assert any("256 ranks and the input shows 8" in remark for remark in got["step"]["remarks"])
    shown = report(HEALTHY, "terminal", params=70e9, plan=Plan(dp=32, tp=8))
    assert "256 ranks and the input shows 8" in " ".join(shown.split())


def test_calls_of_the_log_are_timed() -> None:
    got = document(CALLS)["step"]
    assert got["per_step"] is False
    reduce = got["collectives"][0]
    assert (reduce["operation"], reduce["calls_per_rank"], reduce["ranks"]) == ("all_reduce", 1, 4)
    assert 0 < got["comm_seconds"]["actual"]["low"] <= got["comm_seconds"]["actual"]["high"] < 0.1
    assert "s of a rank for the calls in the log" in " ".join(report(CALLS, "terminal").split())
