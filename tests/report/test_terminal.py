"""What people read: snapshots small enough to check by eye."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report_samples import DEAD, EMPTY, NO_HCA, REPORT, SOCKETS
from rich.cells import cell_len

from ncclcheck.engine.links import parents_of
from ncclcheck.engine.report import Report, RuleVerdict, Warnings
from ncclcheck.estimate.ranges import Range
from ncclcheck.facts.evidence import Evidence
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style
from ncclcheck.report.terminal import RERUN
from ncclcheck.rules.model import Severity

WHOLE = """\
input  run.log: 5210 lines, 4803 NCCL records, 3 not recognised, topo-matrix
job    65 machines; 512 of 520 ranks seen; NCCL 2.21.5; CUDA 12.4; NVIDIA H100
       80GB HBM3; network Socket
comms  1 x 512 ranks on 64 nodes (several per node); 64 x 8 ranks on 1 node
       (inside one node); 8 x 64 ranks
calls  12800 x AllReduce of 2.1 MB bfloat16 among 64 ranks; 3 x Broadcast of 7
       elements
on     gpu-[001-064]: 64 machines, 8 ranks each; net devices mlx5_[0-7]
         GPU  NIC     GDR      inside the node
         0-1  mlx5_0  yes      P2P/CUMEM
         2-3  mlx5_1  yes      P2P/CUMEM
         4-5  mlx5_2  yes      P2P/CUMEM
         6-7  mlx5_3  unknown  P2P/CUMEM
on     login: 8 ranks; net devices eth0

ERROR IB001 no-hca  gpu-[001-064]  (medium confidence)
  NCCL found no InfiniBand device.
    run.log:12: gpu-001:4242:4301 [0] NCCL INFO NET/IB : No device found.
  number none: the consequence has it
  fix    ibv_devices
  then   error NET001 socket-fallback: 360 -> 2.5 GB/s, 150x slower; All traffic
         between the 64 machines goes over TCP sockets, because NCCL found ...

WARNING RUN007 rank-missing  (low confidence)
  Rank 3 never arrived.
  cost   510 (40-4000) GPU-hours until noticed
  fix    look at gpu-001

6 rules: 3 fail (2 error, 1 warning), 1 pass, 2 not evaluated (TOP001 VRT001):
  rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH for
  TOP001; -v tells what each needs
"""

NEEDS = """\
6 rules: 3 fail (2 error, 1 warning), 1 pass, 2 not evaluated:
  TOP001: rerun with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH
  VRT001: lspci -vvv of one machine
"""

IN_FULL = """\
ERROR NET001 socket-fallback  gpu-[001-064]
  All traffic between the 64 machines goes over TCP sockets, because NCCL found
  no InfiniBand device.
    run.log:12: gpu-001:4242:4301 [0] NCCL INFO NET/IB : No device found.
    run.log:13: gpu-002:4242:4301 [0] NCCL INFO NET/IB : No device found.
    run.log:14: gpu-003:4242:4301 [0] NCCL INFO NET/IB : No device found.
  number all_reduce 360 (330-370) -> 2.5 (1.0-3.1) GB/s, 150x slower (110x-360x)
         limit nic -> tcp; modelled from log
         gradient sync of 1 GB: 0.0055 (0.0053-0.0060) -> 0.81 (0.64-1.9) s
"""

VERBOSE_ONLY = """\
         formula min(node, 8 x 50)
         inputs NICs = 8 of 400 Gb/s (log)
  cause  IB001
"""

SHORT = """\
INFO NET001 socket-fallback  gpu-[001-064]
  All traffic between the 64 machines goes over TCP sockets, because NCCL found
  no InfiniBand device.
    run.log:12: gpu-001:4242:4301 [0] NCCL INFO NET/IB : No device found.
  number all_reduce 360 (330-370) -> 2.5 (1.0-3.1) GB/s, 150x slower (110x-360x)
  fix    pass the devices into the container:
"""

FIX = """\
  fix    pass the devices into the container:
         docker run --device=/dev/infiniband ...
"""


def show(report: Report, **style: int) -> str:
    return render("terminal", report, Style(**style))  # type: ignore[arg-type]


def test_a_whole_report_in_80_columns() -> None:
    assert show(REPORT) == WHOLE


def test_a_finding_in_full() -> None:
    alone = replace(REPORT, findings=(replace(SOCKETS, causes=()),))
    assert IN_FULL + FIX in show(alone)


def test_verbose_tells_what_each_open_rule_needs() -> None:
    assert show(REPORT, verbose=True).endswith(NEEDS)


def test_verbose_folds_nothing_and_shows_how_numbers_came_about() -> None:
    assert IN_FULL + VERBOSE_ONLY + FIX in show(REPORT, verbose=True)


def test_formulas_may_be_asked_for_alone() -> None:
    """The consequence stays folded, and has its formula; the rest of the report is as it was."""
    origin = ["formula min(node, 8 x 50)", "inputs NICs = 8 of 400 Gb/s (log)"]
    explained = [line.strip() for line in show(REPORT, explain=True).splitlines()]
    assert [line for line in explained if line not in origin] == [line.strip() for line in WHOLE.splitlines()]
    assert explained.count(origin[0]) == explained.count(origin[1]) == 1


@pytest.mark.parametrize("width", [40, 80, 120, 160])
def test_no_line_is_wider_than_asked(width: int) -> None:
    long = replace(DEAD, message="x" * 500 + " 漢字" * 100, fix="y " * 300)
    for verbose in (False, True):
        text = show(replace(REPORT, findings=(NO_HCA, SOCKETS, long)), width=width, verbose=verbose)
        assert max(map(cell_len, text.splitlines())) <= width


def test_colour_changes_no_word() -> None:
    colourful = show(REPORT, color=True)
    assert "\x1b[1;31mERROR\x1b[0m" in colourful
    assert re.sub(r"\x1b\[[0-9;]*m", "", colourful) == WHOLE
    assert "\x1b" not in WHOLE


def test_an_info_is_short() -> None:
    info = replace(SOCKETS, severity=Severity.INFO, causes=(), evidence=SOCKETS.evidence[:1] * 2)
    assert SHORT in show(replace(REPORT, findings=(info,)))


def test_a_number_says_what_it_assumes_and_what_it_does_not_explain() -> None:
    assert SOCKETS.estimate is not None
    inputs = {"GPU": "H100 SXM or B200 SXM (assumed)", "nodes": "2 (input)", "NIC rate": "100 Gb/s (assumed)"}
    wide = replace(SOCKETS.estimate, basis="modelled from assumptions", inputs=inputs)
    shown = " ".join(show(replace(REPORT, findings=(replace(SOCKETS, estimate=wide),))).split())
    assert "modelled from assumptions (GPU, NIC rate)" in shown
    measured = replace(SOCKETS.estimate, actual=Range(1, 1, 1), alone=Range(2, 3, 4))
    for severity in (Severity.ERROR, Severity.INFO):
        text = show(replace(REPORT, findings=(replace(SOCKETS, severity=severity, estimate=measured),)))
        assert "this alone would leave 3.0 (2.0-4.0) GB/s: more than this slows the job" in text
    same = replace(measured, slowdown=Range(1, 1, 1))
    assert "GB/s, no slower" in show(replace(REPORT, findings=(replace(SOCKETS, estimate=same),)))


def test_a_number_that_nobody_can_measure_is_left_out() -> None:
    assert SOCKETS.estimate is not None
    same = replace(SOCKETS.estimate, slowdown=Range(1.0, 1.01, 1.02))
    info = replace(SOCKETS, severity=Severity.INFO, causes=(), estimate=same)
    assert "number" not in show(replace(REPORT, findings=(info,)))


def test_a_line_that_proves_twice_is_shown_once() -> None:
    twice = replace(SOCKETS, causes=(), evidence=SOCKETS.evidence[:1] * 2)
    assert show(replace(REPORT, findings=(twice,))).count("run.log:12:") == 1


def test_many_open_rules_are_counted() -> None:
    needs = ("rerun with NCCL_DEBUG=INFO", "a matrix")
    rules = tuple(RuleVerdict(f"NET{i:03d}", "n", "not_evaluated", needs[i % 3 == 0 :][:1]) for i in range(15))
    report = replace(REPORT, rules=rules, findings=())
    text = " ".join(show(report).split())
    assert "NET001" not in text
    assert "15 not evaluated: rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=" in text
    assert "GRAPH for 10 of them; -v" in text
    advised = replace(DEAD, fix=f"rerun with {RERUN}")
    assert show(replace(report, findings=(advised,))).count("GRAPH") == 1


def test_nothing_to_tell() -> None:
    assert show(EMPTY) == (
        "input  notes.txt: 12 lines, 0 NCCL records\n"
        "input  gone.log: 0 lines, 0 NCCL records; no such file\n"
        "job    nothing in the input tells of one\n"
        "\n"
        "1 rule: 0 fail, 0 pass, 1 not evaluated (NET001): an NCCL log\n"
    )


def test_many_inputs_are_summed_up() -> None:
    inputs = tuple(replace(REPORT.inputs[0], path=f"rank{i}.log", error=None if i else "torn") for i in range(9))
    text = show(replace(REPORT, inputs=inputs))
    assert text.startswith(
        "input  9 files: 46890 lines, 43227 NCCL records, 27 not recognised\n       rank0.log: torn\njob"
    )


def test_statistics_count_instead_of_telling() -> None:
    text = show(replace(REPORT, findings=(*REPORT.findings, SOCKETS)), statistics=True)
    assert "    2  NET001  socket-fallback\n    1  IB001  no-hca\n    1  RUN007  rank-missing\n" in text
    assert "ibv_devices" not in text


def test_many_kinds_of_machine_do_not_flood() -> None:
    job = replace(REPORT.job, kinds=REPORT.job.kinds * 50)
    text = show(replace(REPORT, job=job))
    assert len(text.splitlines()) < 60
    assert "96 more kinds of machine" in text


def test_consequences_fold_under_causes_that_are_shown() -> None:
    chain = (NO_HCA, SOCKETS, replace(DEAD, causes=("NET001",)))
    assert parents_of(chain) == {1: 0, 2: 1}
    assert parents_of((SOCKETS,)) == {}  # its cause was not selected
    elsewhere = replace(NO_HCA, subject={"hosts": ("other",)})
    assert parents_of((elsewhere, SOCKETS, NO_HCA)) == {1: 2}  # rather under the one on a common host
    assert parents_of((elsewhere, SOCKETS)) == {1: 0}


def test_a_circle_of_causes_still_shows_every_finding() -> None:
    circle = (replace(NO_HCA, causes=("NET001",)), SOCKETS, replace(DEAD, causes=("RUN007",)))
    assert len(parents_of(circle)) == 1
    text = show(replace(REPORT, findings=circle))
    assert all(code in text for code in ("IB001", "NET001", "RUN007"))


def test_warnings_that_no_rule_explains() -> None:
    left = Warnings(3, Evidence("run.log", 9, "n1:7:8 [0] transport/net.cc:12 NCCL WARN Something new"))
    text = show(replace(REPORT, unexplained=left))
    assert "also   3 WARN lines of NCCL that no rule explains, first\n    run.log:9: n1:7:8 [0] transport" in text
