"""Every rule against its fixtures, and what holds for all rules.

`fixtures/rules/<CODE>/expect.toml` says what the rule must say about each file of that folder; no test names one.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ncclcheck.engine.registry import load_registry
from ncclcheck.engine.run import Evaluation, evaluate
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.facts import Facts
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources
from ncclcheck.rules.model import Finding, Severity

FIXTURES = Path(__file__).parent.parent / "fixtures"
ENTRIES = {entry.rule.code: entry for entry in load_registry().entries}
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    file.parent.name: tomllib.loads(file.read_text()) for file in sorted((FIXTURES / "rules").glob("*/expect.toml"))
}
HEALTHY = sorted(file for file in (FIXTURES / "healthy").iterdir() if file.suffix != ".md")
HEADINGS = ("What it finds", "Why it costs", "Example", "How to fix", "When it is not a problem", "References")

# Other programs read codes and names: they never change. Names of rules that are still to come are kept for them.
NAMES = {
    "NET001": "socket-fallback",
    "NET002": "wrong-interface",
    "NET003": "mixed-transport",
    "NET004": "plugin-missing",
    "NET005": "socket-untuned",
    "NET006": "collnet-unavailable",
    "IB001": "no-hca",
    "IB002": "hca-filtered",
    "IB003": "ib-disabled",
    "IB004": "hca-count-mismatch",
    "IB005": "port-rate",
    "IB006": "port-down",
    "IB007": "roce-gid",
    "IB008": "mixed-link-layer",
    "IB009": "roce-lossless",
    "IB010": "completion-error",
    "IB011": "relaxed-ordering",
    "IB012": "mtu-mismatch",
    "GDR001": "gdr-off",
    "GDR002": "peermem-missing",
    "GDR003": "nic-too-far",
    "TOP001": "non-rail",
    "TOP002": "shared-nic",
    "TOP003": "numa-remote",
    "TOP004": "topology-missing",
    "TOP005": "few-channels",
    "TOP006": "inconsistent-topology",
    "TOP007": "intra-node-over-net",
    "TOP008": "group-spans-nodes",
    "PCI001": "pcie-bound",
    "PCI002": "p2p-disabled",
    "PCI003": "link-degraded",
    "PCI004": "acs-enabled",
    "NVL001": "nvlink-absent",
    "NVL002": "nvlink-degraded",
    "NVL003": "nvls-off",
    "NVL004": "fabric-state",
    "NVL005": "mnnvl-unused",
    "VRT001": "virtualized",
    "VRT002": "vgpu-or-mig",
    "HST001": "shm-too-small",
    "HST002": "memlock-limit",
    "HST003": "device-not-in-container",
    "HST004": "gpu-health",
    "HST005": "firewall-or-route",
    "HST006": "process-limits",
    "HST007": "cpu-starved",
    "ENV001": "unknown-variable",
    "ENV002": "obsolete-variable",
    "ENV003": "invalid-value",
    "ENV004": "ranks-disagree",
    "ENV005": "debug-leftover",
    "ENV006": "timeout-policy",
    "ENV007": "misused-variable",
    "RUN001": "version-mismatch",
    "RUN002": "duplicate-gpu",
    "RUN003": "init-incomplete",
    "RUN004": "collective-timeout",
    "RUN005": "collective-mismatch",
    "RUN006": "peer-died",
    "RUN007": "cuda-failure",
    "RUN008": "init-slow",
    "RUN009": "outdated-nccl",
    "RUN010": "rank-crashed",
    "PRF001": "below-expected",
    "PRF002": "data-error",
    "PRF003": "small-messages",
    "PRF004": "odd-host",
    "LOG001": "low-visibility",
    "LOG002": "damaged-log",
    "LOG003": "partial-ranks",
    "LOG004": "log-overwritten",
}

# What a rule costs, on one fail fixture at least: bandwidth (an estimate), GPU-hours of a job that stands, or seconds.
BANDWIDTH, GPU_HOURS, SECONDS, LATENCY = "GB/s", "GPU-hours", "s at each init", "s of latency"
NUMBERS = {
    **dict.fromkeys(("NET001", "NET002", "NET004", "NET005", "NET006"), BANDWIDTH),
    "PRF001": BANDWIDTH,
    **dict.fromkeys(
        ("IB001", "IB002", "IB003", "IB004", "IB005", "IB006", "IB008", "IB009", "IB011", "IB012"), BANDWIDTH
    ),
    **dict.fromkeys(("GDR001", "GDR002", "GDR003"), BANDWIDTH),
    **dict.fromkeys(("TOP001", "TOP002", "TOP003", "TOP004", "TOP005", "TOP006", "TOP007", "TOP008"), BANDWIDTH),
    **dict.fromkeys(("PCI001", "PCI002", "PCI003"), BANDWIDTH),
    **dict.fromkeys(("NVL001", "NVL002", "NVL003", "NVL004", "NVL005", "VRT001"), BANDWIDTH),
    **dict.fromkeys(("HST003", "HST007", "ENV001", "ENV005"), BANDWIDTH),
    **dict.fromkeys(("NET003", "IB007", "IB010", "PCI004"), GPU_HOURS),
    **dict.fromkeys(("HST001", "HST002", "HST004", "HST005", "HST006", "ENV003", "ENV004"), GPU_HOURS),
    **dict.fromkeys(("RUN001", "RUN002", "RUN003", "RUN004", "RUN005", "RUN007", "RUN010"), GPU_HOURS),
    "RUN008": SECONDS,
    "PRF003": LATENCY,
    "PRF004": BANDWIDTH,
}
# Rules that cost nothing by themselves, or what the model cannot know: what hides, what follows from another fault,
# what is only old, shares of a GPU.
WITHOUT_NUMBER = {"VRT002", "ENV002", "ENV007", "RUN006", "RUN009", "PRF002", "LOG001", "LOG002", "LOG003", "LOG004"}


@cache
def judged(path: Path) -> Evaluation:
    """All rules on one file: causes are found only when the other rules run too."""
    source = file_source(str(path), str(path))
    facts = Facts(read_sources([source]).tables, [source.name])
    return evaluate(facts, Estimator(facts.shape(), EstimateOptions()), [entry.rule for entry in ENTRIES.values()])


def verdict_of(code: str, evaluation: Evaluation) -> tuple[str, tuple[str, ...]]:
    row = next(row for row in evaluation.verdicts if row.code == code)
    return row.verdict, row.needs


FILES = [pytest.param(code, name, id=f"{code}/{name}") for code, files in EXPECTED.items() for name in files]


@pytest.mark.parametrize(("code", "name"), FILES)
def test_fixture(code: str, name: str) -> None:
    expected = EXPECTED[code][name]
    evaluation = judged(FIXTURES / "rules" / code / name)
    assert [crash for crash in evaluation.crashes if crash.startswith(code)] == []
    verdict, needs = verdict_of(code, evaluation)
    assert verdict == expected["verdict"], needs
    found = [finding for finding in evaluation.findings if finding.code == code]
    if verdict == "not_evaluated":
        assert all(needs), "it says what would settle the question"
        assert any(need.startswith(expected.get("needs", "")) for need in needs)
    if verdict != "fail":
        return
    assert len(found) == 1, "one finding per fault"
    as_expected(found[0], expected)
    well_formed(found[0], code)


def as_expected(finding: Finding, expected: dict[str, Any]) -> None:
    said = {
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "hosts": sorted(finding.subject.get("hosts", ())),
        "causes": sorted(finding.causes),
        "ranks": sorted(finding.subject.get("ranks", ())),
        "estimate": finding.estimate is not None,
    }
    wanted = {key: sorted(want) if isinstance(want, list) else want for key, want in expected.items() if key in said}
    assert {key: said[key] for key in wanted} == wanted, (finding.message, finding.no_estimate_because)


def well_formed(finding: Finding, code: str) -> None:
    assert (finding.code, finding.name) == (code, NAMES[code])
    assert (finding.estimate is None) != (finding.no_estimate_because is None), "an estimate, or why there is none"
    assert finding.estimate is None or finding.cost is not None
    assert finding.evidence or code == "LOG001", "the lines that prove it; what is hidden has none"
    assert finding.message and "\n" not in finding.message
    assert finding.fix


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
@pytest.mark.parametrize("code", ENTRIES)
def test_healthy_logs_stay_quiet(code: str, path: Path) -> None:
    evaluation = judged(path)
    assert [crash for crash in evaluation.crashes if crash.startswith(code)] == []
    found = [finding for finding in evaluation.findings if finding.code == code]
    assert [finding.message for finding in found if finding.severity is not Severity.INFO] == []


@pytest.mark.parametrize("code", sorted(NUMBERS))
def test_a_fail_fixture_has_the_number(code: str) -> None:
    found = [
        finding
        for name, row in EXPECTED[code].items()
        if row["verdict"] == "fail"
        for finding in judged(FIXTURES / "rules" / code / name).findings
        if finding.code == code
    ]
    estimates = [finding.estimate for finding in found if finding.estimate is not None]
    for one in estimates:
        for low, expected, high in (one.healthy, one.actual, one.slowdown):
            assert 0 < low <= expected <= high < inf
        assert one.limit_healthy and one.limit_actual and one.formula
    if NUMBERS[code] == BANDWIDTH:
        assert any(one.slowdown.expected > 1.01 for one in estimates)
    else:
        costs = [finding.cost for finding in found if finding.cost is not None]
        assert any(cost.unit.startswith(NUMBERS[code]) and cost.amount.expected > 0 for cost in costs)


def test_every_rule_has_a_number_or_none_to_give() -> None:
    assert NUMBERS.keys() | WITHOUT_NUMBER == set(ENTRIES)
    assert not NUMBERS.keys() & WITHOUT_NUMBER


def test_codes_and_names_are_the_contract() -> None:
    assert {code: entry.rule.name for code, entry in ENTRIES.items()}.items() <= NAMES.items()
    assert len(set(NAMES.values())) == len(NAMES)
    assert sorted(EXPECTED) == sorted(ENTRIES)


@pytest.mark.parametrize("code", ENTRIES)
def test_page(code: str) -> None:
    entry = ENTRIES[code]
    titles = [line.removeprefix("## ") for line in entry.page.splitlines() if line.startswith("## ")]
    assert titles == list(HEADINGS)
    title = entry.page.splitlines()[0]
    assert title.rstrip(".") == entry.rule.summary, "the page opens with the summary"


@pytest.mark.parametrize("code", ENTRIES)
def test_causes_name_rules(code: str) -> None:
    assert set(ENTRIES[code].rule.caused_by) <= set(ENTRIES) - {code}


def test_no_rule_is_the_cause_of_its_own_cause() -> None:
    TopologicalSorter({code: entry.rule.caused_by for code, entry in ENTRIES.items()}).prepare()


@pytest.mark.parametrize("code", EXPECTED)
def test_fixtures_are_complete(code: str) -> None:
    files = EXPECTED[code]
    present = {path.name for path in (FIXTURES / "rules" / code).iterdir()} - {"expect.toml"}
    assert set(files) == present, "expect.toml names every file and no other"
    assert {row["verdict"] for row in files.values()} == {"fail", "pass", "not_evaluated"}
    for name, row in files.items():
        needed = {"severity", "confidence", "hosts", "causes"} if row["verdict"] == "fail" else set()
        assert needed | {"verdict", "why"} <= set(row), name


def test_the_readme_names_every_rule() -> None:
    text = (FIXTURES.parent / "README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"([A-Z]{2,3}\d{3}) ([a-z0-9-]+)(?=,| \|)", text))
    assert named == {code: entry.rule.name for code, entry in ENTRIES.items()}
