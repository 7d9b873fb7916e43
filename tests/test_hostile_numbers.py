"""Torn and forged numbers, from the bytes of a log to its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclcheck.cli.pipeline import Selection, run_check
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.records import parse_records
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style


@pytest.mark.parametrize(
    "line",
    [
        "h:1:2 [0] NCCL INFO Channel 00/02 :    0   18446744073709551616   2",
        "h:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/1e400/GDRDMA",
        "h:1:2 [0] NCCL INFO Channel 01/0 : 1[101c0] -> 18446744073709551616[101c0] [receive] via NET/AWS Libfabric/1",
        "h:1:2 [0] a.cc:9223372036854775808 NCCL WARN x",
        "h:1:2 [0] NCCL INFO NCCL version 2.99999999999999999999.3+cuda12.4",
        "h:1:2 [0] a.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 9999999999999999999999,",
        "h:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 9223372036854775807 nNodes 4611686018427387904 localRanks 0"
        " localRank 0 MNNVL 0",
    ],
)
def test_numbers_beyond_all_bounds_are_read_and_judged(line: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"h:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n{line}\n")
    assert len(list(parse_records(file_source(str(log), "run.log")))) == 2
    checked = run_check([str(log)], Selection(), EstimateOptions())
    assert checked.remarks == ()
    assert render("terminal", checked.report, Style())
