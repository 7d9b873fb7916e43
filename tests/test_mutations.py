"""Healthy logs of many kinds stay quiet, and a fault injected into one gives its rule and nothing else.

A finding that the engine links to the fault as its consequence is no other cry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest
from faults import FAULTS, Fault, Log
from loggen import Shape, ShapeError, lines, parse_release, resolve

from ncclcheck.engine.registry import load_registry
from ncclcheck.engine.run import Evaluation, evaluate
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.facts import Facts
from ncclcheck.readers.read import read_sources
from ncclcheck.rules.model import Finding, Severity

RULES = tuple(entry.rule for entry in load_registry().entries)
RELEASES = ("2.12.12", "2.18.5", "2.21.5", "2.27.7", "2.30.7")
LAUNCHERS = ("srun", "torchrun", "mpirun")
KINDS: dict[str, dict[str, object]] = {
    "one": {"machines": 1},
    "two": {"machines": 2},
    "many": {"machines": 64, "gpus": 2, "nics": 2},
    "rack": {"machines": 4, "gpus": 4, "fabric": "mnnvl"},
    "efa": {"machines": 2, "fabric": "efa"},
    "tcpx": {"machines": 2, "fabric": "tcpx"},
    "tcpxo": {"machines": 2, "fabric": "fastrak"},
    "vm": {"machines": 2, "gpus": 4, "vm": True},
    "graph": {"machines": 2, "verbose": True},
    "efa-graph": {"machines": 2, "fabric": "efa", "verbose": True},
    "vm-graph": {"machines": 2, "gpus": 4, "vm": True, "verbose": True},
    "tcpxo-graph": {"machines": 2, "fabric": "fastrak", "verbose": True},
    "one-graph": {"machines": 1, "verbose": True},
}
# Releases for which Google made the plugin.
PLUGIN_RELEASES = {"tcpx": ("2.18.5", "2.21.5"), "tcpxo": ("2.21.5", "2.27.7", "2.30.7"), "tcpxo-graph": ("2.30.7",)}


class Text:
    """A log in memory as an input."""

    name = "job.log"

    def __init__(self, log: Log) -> None:
        self._block = ("\n".join(log) + "\n").encode()

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        yield self._block, 1


def judged(log: Log) -> Evaluation:
    source = Text(log)
    facts = Facts(read_sources([source]).tables, [source.name])
    return evaluate(facts, Estimator(facts.shape(), EstimateOptions()), RULES)


def loud(evaluation: Evaluation) -> list[Finding]:
    return [finding for finding in evaluation.findings if finding.severity is not Severity.INFO]


@cache
def shape_of(kind: str, release: str, launcher: str) -> Shape | None:
    """None where there is no such job."""
    if release not in PLUGIN_RELEASES.get(kind, RELEASES):
        return None
    try:
        return resolve(Shape(release=release, launcher=launcher, **KINDS[kind]))  # type: ignore[arg-type]
    except ShapeError:
        return None


def healthy_logs() -> list[tuple[str, Shape]]:
    """Every kind in every release, with the launchers in turn."""
    turn = count()
    found = []
    for kind in KINDS:
        for release in RELEASES:
            launcher = LAUNCHERS[next(turn) % len(LAUNCHERS)]
            shape = shape_of(kind, release, launcher)
            if shape is not None:
                found.append((f"{kind}-{release}-{launcher}", shape))
    return found


@pytest.mark.parametrize("shape", [pytest.param(shape, id=name) for name, shape in healthy_logs()])
def test_a_healthy_log_stays_quiet(shape: Shape) -> None:
    evaluation = judged(list(lines(shape)))
    assert evaluation.crashes == ()
    assert [f"{finding.code} {finding.message}" for finding in loud(evaluation)] == []
    assert "LOG002" not in {finding.code for finding in evaluation.findings}


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_of_a_healthy_log_is_known(kind: str) -> None:
    for release in RELEASES:
        shape = shape_of(kind, release, "mpirun")
        if shape is not None:
            (reading,) = read_sources([Text(list(lines(shape)))]).inputs
            assert (release, reading.unrecognised) == (release, 0)


LOGS_PER_FAULT = 3


def injections() -> list[tuple[str, Fault, Shape]]:
    """Each fault in a few logs; kinds, releases and launchers take turns within the family of its rule."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    found = []
    for fault in FAULTS:
        for _ in range(LOGS_PER_FAULT):
            family = used[fault.family]
            choices = [
                ((family[kind] + family[release] + family[launcher], at), kind, release, launcher)
                for at, (kind, release, launcher) in enumerate(
                    (kind, release, launcher)
                    for kind in fault.kinds
                    for release in RELEASES
                    if fault.since <= parse_release(release) < fault.before
                    for launcher in LAUNCHERS
                )
                if shape_of(kind, release, launcher)
            ]
            _, *picked = min(choices)
            family.update(picked)
            shape = shape_of(*picked)
            assert shape is not None
            found.append(("-".join([fault.code, fault.name.replace(" ", "_"), *picked]), fault, shape))
    return found


@pytest.mark.parametrize(
    ("fault", "shape"), [pytest.param(fault, shape, id=name) for name, fault, shape in injections()]
)
def test_a_fault_gives_its_rule_and_nothing_else(fault: Fault, shape: Shape) -> None:
    evaluation = judged(fault.make(shape))
    assert evaluation.crashes == ()
    own = [finding for finding in evaluation.findings if finding.code == fault.code]
    assert own, [f"{finding.code} {finding.message}" for finding in evaluation.findings]
    assert max(finding.severity.rank for finding in own) >= Severity(fault.severity).rank
    explained = {fault.code}
    for _ in range(3):  # a consequence of a consequence
        explained |= {finding.code for finding in evaluation.findings if explained.intersection(finding.causes)}
    others = [finding for finding in loud(evaluation) if finding.code not in explained]
    assert [f"{finding.code} {finding.message}" for finding in others] == []
