"""Settings that NCCL prints, settings that scripts mean, and ranks that differ."""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.settings import disagreements, scripts_beside_log, set_to


def pair(values: tuple[str, str], comm_id: str = "a1", pid: int = 7) -> list[str]:
    """Two ranks of one communicator on two machines, and what each prints of NCCL_PROTO."""
    log = []
    for rank, value in enumerate(values):
        process = Process(f"n{rank}", pid)
        log += process.say(*[f"NCCL_PROTO set by environment to {value}"] * bool(value))
        log += process.init("COMPLETE", "5500", rank, 2, f"commId 0x{comm_id}")
    return log


def names(facts: Facts) -> list[str]:
    return [one.name for one in disagreements(facts)]


def test_what_nccl_prints_outweighs_scripts() -> None:
    facts = facts_of(["export NCCL_PROTO=LL NCCL_ALGO=Ring", *pair(("Simple", "Simple"))])
    assert [(one.value, one.in_force, one.machines) for one in set_to(facts, "NCCL_PROTO")] == [
        ("Simple", True, ("n0", "n1"))
    ]
    assert [(one.value, one.in_force) for one in set_to(facts, "NCCL_ALGO")] == [("Ring", False)]
    assert [(one.name, one.value) for one in scripts_beside_log(facts)] == [("NCCL_PROTO", "LL")]


def test_settings_of_scripts_are_not_in_force() -> None:
    facts = facts_of(["export NCCL_P2P_DISABLE=1"])
    assert facts.settings("NCCL_P2P_DISABLE") == ()
    assert not facts.visibility.env


def test_a_configuration_that_a_variable_overrules_is_in_force() -> None:
    process = Process("n1", 7)
    facts = facts_of(process.say("Comm config minCTAs reset to NCCL_MIN_CTAS=16", "Comm config Min CTAs set to 4"))
    assert [(one.value, one.in_force) for one in set_to(facts, "NCCL_MIN_CTAS")] == [("16", True)]


def test_ranks_that_differ() -> None:
    (found,) = disagreements(facts_of(pair(("LL", "Simple"))))
    assert (found.name, dict(found.machines), found.tied, found.by_rank) == (
        "NCCL_PROTO", {"ll": ("n0",), "simple": ("n1",)}, True, False,
    )  # fmt: skip


def test_case_and_unset_are_no_difference() -> None:
    assert names(facts_of(pair(("Simple", "SIMPLE")))) == []
    assert names(facts_of(pair(("Simple", "")))) == []


def test_another_run_may_differ() -> None:
    assert names(facts_of([*pair(("LL", "LL")), *pair(("Simple", "Simple"), "b2", pid=90)])) == []
