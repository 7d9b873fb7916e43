"""Whole logs of healthy jobs: everything finds its place, and nothing is ambiguous."""

from __future__ import annotations

import random
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from fact_samples import facts_of

from ncclcheck.facts.facts import Facts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from loggen import Shape, lines

RELEASES = ("2.7.8", "2.14.3", "2.18.3", "2.22.3", "2.26.2", "2.30.7")
FABRICS = ("ib", "roce", "efa", "fastrak", "socket", "mnnvl")
LAUNCHERS = ("none", "mpirun", "srun", "torchrun", "pdsh", "kubectl")

# Every release with every fabric, and with every launcher.
SHAPES = [
    Shape(3, 4, release=release, fabric=fabric, launcher=LAUNCHERS[(i + j) % 6], lines=4000, other=0.1 * (i % 2))
    for i, release in enumerate(RELEASES)
    for j, fabric in enumerate(FABRICS)
    if not (fabric == "mnnvl" and i < 3)
]  # fmt: skip


def _name(shape: Shape) -> str:
    return f"{shape.release}-{shape.fabric}-{shape.launcher}"


@lru_cache
def _log(shape: Shape) -> tuple[str, ...]:
    return tuple(lines(shape))


@lru_cache
def _facts(shape: Shape) -> Facts:
    return facts_of(_log(shape))


@pytest.mark.parametrize("shape", SHAPES, ids=_name)
def test_every_communicator_is_whole(shape: Shape) -> None:
    communicators = _facts(shape).communicators
    complete = sum("Init COMPLETE" in line for line in _log(shape))
    assert sum(communicator.nranks or 0 for communicator in communicators) == complete
    assert len(communicators) > 6
    for communicator in communicators:
        assert not communicator.ambiguous
        assert communicator.nranks == len(communicator.ranks) == communicator.completed
        one_node = len(communicator.machines) == 1 or shape.fabric == "mnnvl"
        if shape.version >= (2, 20, 3):
            assert communicator.nnodes == (1 if one_node else 3)
        assert communicator.crossing.answer.value == ("no" if one_node else "yes")
        assert len(communicator.machines) in (1, 3)


@pytest.mark.parametrize("shape", SHAPES, ids=_name)
def test_network_edges_go_between_machines_and_all_others_inside(shape: Shape) -> None:
    facts = _facts(shape)
    assert {group.scope for group in facts.edges if group.transport != "NET"} == {"inside"}
    between = {group.scope for group in facts.edges if group.transport == "NET"}
    assert between == (set() if shape.fabric == "mnnvl" else {"between"})
    assert sum(group.edges for group in facts.edges) == sum(" via " in line for line in _log(shape))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.fabric not in ("mnnvl", "socket")], ids=_name)
def test_rails_are_kept(shape: Shape) -> None:
    rails = _facts(shape).ring_rails
    assert rails is not None
    assert rails.basis and rails.channels and not rails.crossing
    assert not (rails.inferred or rails.odd_wrap or rails.contradicted)


@pytest.mark.parametrize("shape", SHAPES, ids=_name)
def test_the_job_is_as_it_was_made(shape: Shape) -> None:
    facts = _facts(shape)
    assert len(facts.machines) == 3
    shape_of_job = facts.shape()
    assert (shape_of_job.nranks, shape_of_job.nodes) == (12, 1 if shape.fabric == "mnnvl" else 3)
    network = {"fastrak": "tcpxo", "mnnvl": "ib"}.get(shape.fabric, shape.fabric)
    assert shape_of_job.network == network
    assert (facts.picture().ranks_seen, facts.picture().ranks_total) == (12, 12)
    assert facts.absent == ()


@pytest.mark.parametrize("release", RELEASES)
def test_a_part_of_the_ranks(release: str) -> None:
    """The log of one machine: the world is known, and its network edges go elsewhere."""
    shape = Shape(machines=3, gpus=4, release=release)
    facts = facts_of([line for line in _log(shape) if line.startswith("gpu-002:")])
    assert facts.machines == ("gpu-002",)
    (absent,) = facts.absent
    assert (absent.seen, absent.arrived) == ((4, 5, 6, 7), True)
    scopes = {group.scope for group in facts.edges if group.transport == "NET"}
    assert scopes == ({"between"} if shape.version >= (2, 20, 3) else {"unknown"})


@pytest.mark.parametrize("alternate", [False, True])
def test_alternating_rings_of_an_even_number_of_machines_keep_their_rails(alternate: bool) -> None:
    rails = facts_of(lines(Shape(machines=4, gpus=4, alternate=alternate))).ring_rails
    assert rails and (rails.channels, rails.crossing) == (8, 0)


def test_rings_that_leave_their_rails() -> None:
    rails = facts_of(lines(Shape(machines=2, gpus=4, fault="non_rail"))).ring_rails
    assert rails and (rails.channels, rails.crossing) == (8, 8)


def _answers(facts: Facts) -> tuple[object, ...]:
    """What rules see, without the places of evidence and without order."""
    edges = {
        (g.transport, g.method, g.network, g.direction, g.gdr, g.scope, g.machines, g.devices, g.edges)
        for g in facts.edges
    }
    communicators = sorted(
        (str(c.nranks), c.nnodes or 0, c.ranks, c.machines, c.networks, c.completed) for c in facts.communicators
    )
    rails = facts.ring_rails
    found = (rails.machines, rails.channels, rails.crossing, rails.basis) if rails else None
    return facts.machines, edges, communicators, found, facts.shape(), facts.picture(), facts.nic_lists


@pytest.mark.parametrize("release", ["2.14.3", "2.20.5", "2.26.2"])
def test_the_order_of_files_does_not_matter(release: str) -> None:
    """One file per process."""
    log = _log(Shape(machines=2, gpus=4, release=release, lines=3000))
    files: dict[str, list[str]] = {}
    for line in log:
        files.setdefault(":".join(line.split(":")[:2]) if line.startswith("gpu") else "rest", []).append(line)
    shuffled = list(files.values())
    random.Random(3).shuffle(shuffled)
    assert _answers(facts_of(*shuffled)) == _answers(facts_of(*files.values()))


def test_two_readings_give_equal_facts() -> None:
    log = _log(SHAPES[20])
    one, other = facts_of(log), facts_of(log)
    assert (one.edges, one.communicators, one.ring_rails) == (other.edges, other.communicators, other.ring_rails)
    assert _answers(one) == _answers(other)
