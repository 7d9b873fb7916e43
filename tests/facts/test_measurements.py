"""The plateau that nccl-tests measured, and whether it is this job's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from fact_samples import facts_of, hosts
from perf_samples import Run

from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.measurements import of_this_job, plateaus

MIB, GIB = 1 << 20, 1 << 30
NODE = Run([(MIB, 30.0, 31.0), (512 * MIB, 440.5, 441.0), (8 * GIB, 471.25, 470.0)], hosts=("n1",))
PAIR = Run([(MIB, 9.0, 9.0), (8 * GIB, 361.5, 360.0)], ranks=4, hosts=("n1", "n2"))


def job(count: int = 2, gpus: int = 2) -> list[str]:
    """A log of `count` machines n1, n2, ... with `gpus` ranks each."""
    processes, lines = hosts(count, gpus)
    n = len(processes)
    for rank, process in enumerate(processes):
        lines += process.whole("7f00", rank, n, "commId 0x5d6b1a2c3e4f", nnodes=count, local=gpus)
    return lines


def only(lines: Iterable[str]):
    (found,) = plateaus(facts_of(lines))
    return found


def test_the_plateau_is_the_largest_size_out_of_place() -> None:
    found = only(NODE.lines())
    assert (found.collective, found.ranks, found.nodes, found.hosts) == ("all_reduce", 8, 1, ("n1",))
    assert (found.busbw, found.smallest, found.size, found.enough) == (471.25, MIB, 8 * GIB, True)
    assert NODE.lines()[found.evidence.line - 1] == NODE.rows()[2]
    assert found.where == f"measured 471.2 at 8 GiB, log0:{found.evidence.line}"


@pytest.mark.parametrize(
    ("hosts", "size", "enough"),
    [(("a",), 128 * MIB, True), (("a",), 64 * MIB, False), (("a", "b"), GIB, True), (("a", "b"), 512 * MIB, False)],
)
def test_small_messages_show_no_plateau(hosts: tuple[str, ...], size: int, enough: bool) -> None:
    run = Run([(size, 120.0, 120.0)], hosts=hosts)
    assert only(run.lines()).enough is enough
    assert (of_this_job(facts_of(run.lines())) is not None) is enough


@pytest.mark.parametrize(
    "run",
    [
        replace(NODE, wrong="12"),
        replace(NODE, ranks=1, points=[(8 * GIB, 0.0, 0.0)]),
        replace(NODE, points=[(0, 0.0, 0.0)]),
    ],
)
def test_what_is_no_plateau(run: Run) -> None:
    assert plateaus(facts_of(run.lines())) == ()


def test_a_wrong_row_is_passed_over() -> None:
    rows = NODE.rows()
    rows[2] = rows[2].replace("       0  ", "       3  ", 1)
    assert only([*NODE.head(), *NODE.column_lines(), *rows]).size == 512 * MIB


def test_unchecked_rows_count_and_say_so() -> None:
    assert only(NODE.lines()).checked
    assert not only(replace(NODE, wrong="N/A").lines()).checked


def test_one_table_per_size_and_repeated_runs() -> None:
    runs = [replace(NODE, points=[(size, gbps, gbps)]) for size, gbps in
            ((MIB, 31.0), (8 * GIB, 402.0), (8 * GIB, 470.0), (8 * GIB, 468.0))]  # fmt: skip
    found = only(line for run in runs for line in run.lines())
    assert (found.smallest, found.least, found.busbw, found.most) == (MIB, 402.0, 468.0, 470.0)


def test_collectives_apart_and_all_reduce_first() -> None:
    runs = [replace(NODE, program=program) for program in ("reduce_scatter", "all_reduce", "broadcast")]
    facts = facts_of(line for run in runs for line in run.lines())
    assert [one.collective for one in plateaus(facts)] == ["all_reduce", "broadcast", "reduce_scatter"]


def test_a_table_of_the_jobs_ranks_nodes_and_hosts_is_the_jobs() -> None:
    found = of_this_job(facts_of(job(), PAIR.lines()))
    assert found is not None and found.busbw == 361.5
    for other in (
        NODE,
        replace(PAIR, hosts=("n8", "n9")),
        replace(PAIR, hosts=("n1",)),
        replace(PAIR, points=[(64 * MIB, 100.0, 100.0)]),
    ):
        assert of_this_job(facts_of(job(), other.lines())) is None, other


def test_hosts_that_were_blanked_out_are_no_other_hosts() -> None:
    assert of_this_job(facts_of(job(), replace(PAIR, hosts=("{one}", "{two}")).lines())) is not None


def test_a_table_without_devices_takes_the_nodes_of_the_job() -> None:
    (found,) = plateaus(facts_of([*job(), *replace(PAIR, devices=False).lines()]))
    assert (found.ranks, found.nodes) == (4, 2)


def test_too_few_digits_for_the_ranks() -> None:
    slow = replace(PAIR, points=[(8 * GIB, 0.09, 0.09)], devices=False)
    assert of_this_job(facts_of([*job(), *slow.lines()])) is not None
    assert of_this_job(facts_of(job(), slow.lines())) is None


def test_a_ring_collective_where_all_reduce_was_not_measured() -> None:
    gather = replace(PAIR, program="all_gather", points=[(8 * GIB, 190.0, 190.0)])
    found = of_this_job(facts_of(job(), gather.lines()))
    assert found is not None and found.collective == "all_gather"
    found = of_this_job(facts_of(job(), [*gather.lines(), *PAIR.lines()]))
    assert found is not None and found.collective == "all_reduce"
    assert of_this_job(facts_of(job(), replace(gather, program="sendrecv").lines())) is None


def test_a_table_alone_tells_the_shape_of_its_job() -> None:
    shape = facts_of(PAIR.lines()).shape()
    assert (shape.nranks, shape.nodes, shape.gpus_per_node, shape.gpu_names) == (4, 2, 2, ("NVIDIA H200",))
    several = facts_of([*PAIR.lines(), *NODE.lines()]).shape()
    assert (several.nranks, several.measured) == (None, None)


def test_no_table_no_plateau() -> None:
    facts = facts_of(job())
    assert (plateaus(facts), of_this_job(facts), facts.shape().measured) == ((), None, None)


def test_sizes_in_powers_of_two() -> None:
    assert [binary_size(n) for n in (500, 1536, 128 * MIB, 8 * GIB, 3 << 39)] == [
        "500 B", "1.5 KiB", "128 MiB", "8 GiB", "1.5 TiB",
    ]  # fmt: skip
