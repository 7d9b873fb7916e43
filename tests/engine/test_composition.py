"""Several faults in one job: what mending one of them brings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclcheck.engine.composition import with_next_limits
from ncclcheck.estimate.config import Config
from ncclcheck.estimate.estimates import Changes
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.model import shipped_model
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape
from ncclcheck.rules.model import Confidence, Finding, Severity

JOB = JobShape(
    nodes=4, gpus_per_node=8, nranks=32, gpu_names=("NVIDIA H100 80GB HBM3",), nvlink=Answer.YES, nvls=Answer.NO,
    nics_per_node=8, nic_gbit=(400.0,), network="roce", gdr=Answer.YES, intra=frozenset({"P2P"}), rdma_seen=True,
)  # fmt: skip
AS_CONFIG = Config(4, 8, "H100 SXM", network="roce", nics=8, nic_gbit=400, nvls=False)
SOCKETS: tuple[Changes, Changes] = ({"network": "roce"}, {"network": "socket"})
ACS: tuple[Changes, Changes] = ({}, {"redirect": "acs"})
UNTUNED: tuple[Changes, Changes] = (
    {"network": "socket", "tcp_tuned": True},
    {"network": "socket", "tcp_tuned": False},
)


@pytest.fixture
def estimator() -> Estimator:
    return Estimator(JOB)


def finding(code: str, changes: tuple[Changes, Changes], estimator: Estimator, causes: tuple[str, ...] = ()) -> Finding:
    estimate = estimator.compare(*changes)
    assert estimate is not None
    return Finding(
        code, code.lower(), Severity.ERROR, Confidence.HIGH, "", "", estimate=estimate, causes=causes
    )  # fmt: skip


def test_one_fault_is_held_back_by_none(estimator: Estimator) -> None:
    (only,) = with_next_limits([finding("NET001", SOCKETS, estimator)], estimator)
    assert only.estimate is not None
    assert only.estimate.after_fix is None


def test_each_fault_says_what_binds_next(estimator: Estimator) -> None:
    findings = [finding("NET001", SOCKETS, estimator), finding("PCI004", ACS, estimator)]
    sockets, acs = (one.estimate for one in with_next_limits(findings, estimator))
    assert sockets is not None
    assert sockets.after_fix is not None
    under_acs = shipped_model().plateau(replace(AS_CONFIG, redirect="acs"))
    assert sockets.after_fix.busbw.expected == pytest.approx(under_acs.busbw.expected)
    assert (sockets.after_fix.limit, sockets.after_fix.code) == (under_acs.limit, "PCI004")
    assert acs is not None
    assert acs.after_fix is not None
    assert (acs.after_fix.limit, acs.after_fix.code) == ("tcp flow", "NET001")
    assert acs.after_fix.busbw.expected < acs.healthy.expected / 10


def test_mending_all_is_what_is_healthy(estimator: Estimator) -> None:
    findings = [finding("NET001", SOCKETS, estimator), finding("PCI004", ACS, estimator)]
    for one in with_next_limits(findings, estimator):
        assert one.estimate is not None
        assert one.estimate.healthy.expected == pytest.approx(shipped_model().plateau(AS_CONFIG).busbw.expected)


def test_a_cause_and_its_consequence_are_one_fault(estimator: Estimator) -> None:
    findings = [finding("IB001", SOCKETS, estimator), finding("NET001", SOCKETS, estimator, causes=("IB001",))]
    for one in with_next_limits(findings, estimator):
        assert one.estimate is not None
        assert one.estimate.after_fix is None


def test_what_is_by_design_holds_nothing_back(estimator: Estimator) -> None:
    sharing: tuple[Changes, Changes] = ({"nics": 8}, {"nics": 4})
    by_design = replace(finding("TOP002", sharing, estimator), severity=Severity.INFO)
    found = with_next_limits([finding("PCI004", ACS, estimator), by_design], estimator)
    acs, shared = (one.estimate for one in found)
    assert acs is not None
    assert acs.after_fix is None
    assert shared is not None
    assert shared.after_fix is not None
    assert shared.after_fix.code == "PCI004"


def test_what_a_measurement_does_not_show_holds_nothing_back() -> None:
    measured = Measured("all_reduce", 400.0, 400.0, 400.0, 8, 1 << 30, True, True, 32, 4, (), Evidence("t", 1, ""))
    estimator = Estimator(replace(JOB, measured=measured))
    busy: tuple[Changes, Changes] = ({}, {"effect": "cpu"})
    findings = [finding("HST007", busy, estimator), finding("IB004", ({"nics": 8}, {"nics": 7}), estimator)]
    for one in with_next_limits(findings, estimator):
        assert one.estimate is not None
        assert one.estimate.after_fix is None


def test_two_rules_that_see_one_thing_are_one_fault(estimator: Estimator) -> None:
    fewer: tuple[Changes, Changes] = ({"nics": 8}, {"nics": 4})
    findings = [finding(code, change, estimator) for code, change in (("IB002", fewer), ("TOP002", fewer))]
    for one in with_next_limits(findings, estimator):
        assert one.estimate is not None
        assert one.estimate.after_fix is None


def test_what_speaks_of_sockets_does_not_hold_back_rdma(estimator: Estimator) -> None:
    findings = [finding("NET001", SOCKETS, estimator), finding("NET005", UNTUNED, estimator)]
    sockets, untuned = (one.estimate for one in with_next_limits(findings, estimator))
    assert sockets is not None
    assert sockets.after_fix is None
    assert untuned is not None


def test_effects_add_up(estimator: Estimator) -> None:
    lossy: tuple[Changes, Changes] = ({}, {"effect": "roce-lossy"})
    split: tuple[Changes, Changes] = ({}, {"effect": "split-data-on-qps"})
    findings = [finding("IB009", lossy, estimator), finding("ENV007", split, estimator)]
    first, second = (one.estimate for one in with_next_limits(findings, estimator))
    assert first is not None
    assert first.after_fix is not None
    assert second is not None
    assert first.after_fix.busbw.expected == pytest.approx(second.actual.expected)
    assert first.after_fix.code == "ENV007"
