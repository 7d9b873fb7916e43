"""A log with a table of nccl-tests, from the files to the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from perf_samples import Run

from ncclcheck.cli.pipeline import Checked, Selection, quoter, run_check, run_parse
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.evidence import Evidence
from ncclcheck.inputs.source import file_source
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style

FIXTURES = Path(__file__).parents[1] / "fixtures"
# two machines without InfiniBand, four ranks, and their table
SOCKETS = FIXTURES / "rules" / "NET001" / "fail-no-hca-two-nodes.log"


def check(*paths: Path) -> Checked:
    return run_check([str(path) for path in paths], Selection(), EstimateOptions())


def shown(checked: Checked) -> str:
    return " ".join(render("terminal", checked.report, Style(width=100)).split())


def without_table(tmp_path: Path) -> Path:
    log = tmp_path / "job.log"
    lines = SOCKETS.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "NCCL" in line))
    return log


def test_the_head_shows_what_was_measured_and_the_findings_use_it() -> None:
    checked = check(SOCKETS)
    assert "measured all_reduce 256 MiB..1 GiB: 2.94 GB/s busbw at 1 GiB (expected 2.0 (1.2-3.7), tcp flow)" in shown(
        checked
    )
    estimates = [finding.estimate for finding in checked.report.findings if finding.code == "NET001"]
    assert [(one.basis, one.actual.expected) for one in estimates if one] == [("measured", pytest.approx(2.94))]
    assert f"{SOCKETS}:105" in str(estimates[0])


def test_a_table_in_a_file_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "bench.txt"
    run = Run([(1 << 30, 2.51, 2.5)], ranks=4, hosts=("gpu-a12", "gpu-a13"))
    log = without_table(tmp_path)
    for of, basis in ((run, "measured"), (replace(run, hosts=("gpu-b1", "gpu-b2")), "modelled from assumptions")):
        table.write_text("\n".join(of.lines()))
        found = {finding.code: finding for finding in check(log, table).report.findings}
        estimate = found["NET001"].estimate
        assert estimate is not None and estimate.basis == basis


def test_a_busbw_of_nothing_is_no_bandwidth_of_the_job(tmp_path: Path) -> None:
    """0.00 beside an algbw is what one rank alone prints; the other rows say that there are more."""
    log = without_table(tmp_path)
    table = "\n".join(Run([(1 << 28, 2.5, 2.5), (1 << 30, 2.56, 2.56)], ranks=4, hosts=("gpu-a12", "gpu-a13")).lines())
    options = EstimateOptions(params=7e9, tokens_per_gpu=8192, gpu_price=2.0)
    job = log.read_text()
    for text, measured in ((table, True), (table.replace(" 2.56 ", " 0.00 "), False)):
        log.write_text(job + text)
        step = run_check([str(log)], Selection(), options).report.step
        assert step is not None
        assert any(one.limit_actual == "measured" for one in step.collectives) is measured


def test_a_table_does_not_take_a_finding_away(tmp_path: Path) -> None:
    table = tmp_path / "bench.txt"
    table.write_text("\n".join(Run([(1 << 30, 190.2, 190.0)], ranks=4, hosts=("gpu-a12", "gpu-a13")).lines()))
    finding = next(one for one in check(without_table(tmp_path), table).report.findings if one.code == "NET001")
    assert finding.estimate is not None
    assert (finding.estimate.slowdown.expected, finding.estimate.actual.expected) == (1.0, pytest.approx(190.2))


def test_json_has_the_measurements() -> None:
    (measured,) = json.loads(render("json", check(SOCKETS).report, Style()))["measurements"]
    assert (measured["collective"], measured["ranks"], measured["nodes"], measured["bytes"]) == (
        "all_reduce", 4, 2, 1 << 30,
    )  # fmt: skip
    assert measured["busbw"] == {"low": 2.94, "expected": 2.94, "high": 2.94}
    assert measured["expected"]["limit"] == "tcp flow"
    assert (measured["path"], measured["line"]) == (str(SOCKETS), 105)


def test_what_is_not_used_is_said() -> None:
    complaints = check(FIXTURES / "nccl_tests" / "killed.json", FIXTURES / "nccl_tests" / "rows-not-to-believe.txt")
    said = "\n".join(complaints.complaints)
    assert "killed.json: line 1: the JSON of nccl-tests ends in the middle" in said
    assert said.count("rows-not-to-believe.txt: line ") == 6
    assert not complaints.nothing_to_judge


def test_gpus_and_ranks_from_json() -> None:
    text = shown(check(FIXTURES / "nccl_tests" / "run.json"))
    assert "job NVIDIA B200 measured all_reduce among 16 ranks, 1 MiB..8 GiB: 755 GB/s busbw at 8 GiB (expected" in text


def test_the_environment_in_json_is_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    document = json.loads((FIXTURES / "nccl_tests" / "run.json").read_text())
    document["env"] = ["SECRET=hunter2", "NCCL_IB_DISABLE=1", "NCCL_NO_SUCH_THING=1"]
    file.write_text(json.dumps(document))
    quote = quoter([Evidence(str(file), 1, "")], [file_source(str(file), str(file))])
    text = quote(Evidence(str(file), 1, "")).text
    assert text.startswith('{"version"') and "hunter2" not in text
    report = check(file).report
    assert "hunter2" not in render("json", report, Style()) + render("terminal", report, Style(verbose=True))


def test_parse_shows_the_rows_among_the_records() -> None:
    records = list(run_parse([file_source(str(SOCKETS), str(SOCKETS))]))
    assert [(one["line"], one["kind"]) for one in records[-2:]] == [(104, "nccl-tests"), (105, "nccl-tests")]
    assert records[-1]["fields"]["busbw"] == 2.94
    assert {one["kind"] for one in records[:-2]} == {"nccl-log", "device-names"}
