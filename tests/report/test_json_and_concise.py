"""The formats for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan

from report_samples import EMPTY, REPORT, SOCKETS

from ncclcheck.estimate.ranges import Range
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style

RANGE = ["low", "expected", "high"]


def test_the_keys_are_a_contract() -> None:
    document = json.loads(render("json", REPORT, Style()))
    assert list(document) == [
        "schema", "version", "inputs", "job", "site", "measurements", "paths", "contradictions", "rules", "findings",
        "unexplained_warnings", "step", "no_step_because",
    ]  # fmt: skip
    assert document["schema"] == "ncclcheck-report/1"
    assert document["inputs"] == [
        {
            "path": "run.log",
            "kinds": ["nccl-log", "topo-matrix"],
            "lines": 5210,
            "recognised": 4800,
            "unrecognised": 3,
            "error": None,
        }
    ]
    assert document["rules"][4] == {
        "code": "TOP001",
        "name": "non-rail",
        "verdict": "not_evaluated",
        "needs": ["rerun with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH"],
    }
    assert document["job"]["kinds"][0]["gpus"][0] == {
        "gpu": "0",
        "nics": ["mlx5_0"],
        "gdr": "yes",
        "intra": "P2P/CUMEM",
    }
    no_hca, sockets, dead = document["findings"]
    assert list(sockets) == [
        "code", "name", "severity", "confidence", "message", "subject", "evidence", "causes", "consequences",
        "estimate", "cost", "no_estimate_because", "fix",
    ]  # fmt: skip
    assert list(sockets["estimate"]) == [
        "unit", "healthy", "actual", "slowdown", "limit", "alone", "after_fix", "basis", "formula", "inputs",
        "sync_seconds", "step",
    ]  # fmt: skip
    assert sockets["estimate"]["healthy"] == {"low": 330.0, "expected": 362.4, "high": 371.0}
    assert sockets["estimate"]["limit"] == {"healthy": "nic", "actual": "tcp"}
    assert list(sockets["estimate"]["sync_seconds"]) == ["bytes", "healthy", "actual", "extra"]
    cost = {"unit": "s per gradient sync of 1 GB", "low": 0.6, "expected": 0.8, "high": 1.9, "dollars": None}
    assert sockets["cost"] == cost
    assert sockets["subject"]["hosts"][:2] == ["gpu-001", "gpu-002"]
    assert len(sockets["evidence"]) == 5
    assert no_hca["estimate"] is None and no_hca["cost"] is None
    assert (no_hca["consequences"], sockets["causes"]) == (["NET001"], ["IB001"])
    assert dead["subject"] == {}


def test_no_number_that_json_has_not() -> None:
    assert SOCKETS.estimate is not None
    endless = replace(SOCKETS, estimate=replace(SOCKETS.estimate, slowdown=Range(nan, 1 / 3, inf)))
    document = json.loads(render("json", replace(REPORT, findings=(endless,)), Style()), parse_constant=lambda c: 1 / 0)
    assert document["findings"][0]["estimate"]["slowdown"] == {"low": None, "expected": 0.333333, "high": None}


def test_statistics() -> None:
    assert json.loads(render("json", REPORT, Style(statistics=True)))["statistics"][0] == {
        "count": 1,
        "code": "IB001",
        "name": "no-hca",
    }


def test_concise() -> None:
    assert render("concise", REPORT, Style()) == (
        "run.log:12: IB001 NCCL found no InfiniBand device.\n"
        "run.log:12: NET001 All traffic between the 64 machines goes over TCP sockets, because NCCL found no"
        " InfiniBand device.\n"
        "run.log: RUN007 Rank 3 never arrived.\n"
        "6 rules: 3 fail (2 error, 1 warning), 1 pass, 2 not evaluated\n"
    )
    assert render("concise", EMPTY, Style()) == "1 rule: 0 fail, 0 pass, 1 not evaluated\n"


def test_verbose_concise_says_what_rules_need() -> None:
    *_, last = render("concise", REPORT, Style(verbose=True)).splitlines()
    assert last == (
        "6 rules: 3 fail (2 error, 1 warning), 1 pass, 2 not evaluated:"
        " rerun with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH (TOP001); lspci -vvv of one machine (VRT001)"
    )
    *_, last = render("concise", EMPTY, Style(verbose=True)).splitlines()
    assert last == "1 rule: 0 fail, 0 pass, 1 not evaluated: an NCCL log (NET001)"
