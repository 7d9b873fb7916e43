"""Init that was begun and not finished."""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.unfinished import unfinished

END = "srun: error: n1: task 1: Terminated"


def started(rank: int, nranks: int = 4, release: str = "2.21.5") -> list[str]:
    process = Process("n1", 100 + rank, rank, "10.0.0.1")
    return [
        *process.version(release), *process.bootstrap(),
        *process.init("START", "1", rank, nranks, "commId 0xa"),
    ]  # fmt: skip


def completed(rank: int, nranks: int = 4) -> list[str]:
    return Process("n1", 100 + rank, rank).init("COMPLETE", "1", rank, nranks, "commId 0xa")


def test_ranks_that_are_stuck_absent_and_silent() -> None:
    silent = Process("n1", 103, 3, "10.0.0.1").bootstrap()
    (one,) = unfinished(facts_of([*started(0), *started(1), *started(2), *silent, *completed(0), END]))
    assert (one.seen, one.completed, one.stuck, one.absent) == ((0, 1, 2), (0,), (1, 2), (3,))
    assert (one.arrived, one.beside, one.silent, one.ended) == (True, True, ("n1:103",), "SIGTERM (15)")


def test_an_end_counts_after_the_start_only() -> None:
    (one,) = unfinished(facts_of([END, *started(0)]))
    assert (one.ended, one.arrived) == ("", False)


def test_the_end_in_another_input_counts() -> None:
    (one,) = unfinished(facts_of(started(0), [*started(1), END]))
    assert one.ended == "SIGTERM (15)"


def test_an_error_of_the_own_process_comes_before_ends_of_others() -> None:
    trace = Process("n1", 100, 0).say("init.cc:1501 -> 2")
    (one,) = unfinished(facts_of([*started(0), END, *trace]))
    assert (one.failed, one.ended) == (True, "NCCL returned error 2")


def test_a_probe_that_fails_is_no_end() -> None:
    probes = Process("n1", 100, 0).say("misc/ibvwrap.cc:61 -> 3", "init.cc:1501 -> 0")
    (one,) = unfinished(facts_of([*started(0), *probes]))
    assert one.ended == ""


def test_what_comes_after_init_shows_that_it_is_done() -> None:
    child = Process("n1", 100, 0).init("START", "2", 0, 2, "parent 0x1 splitCount 1 color 0 key 0", "ncclCommSplit ")
    assert [one.nranks for one in unfinished(facts_of([*started(0), *child, END]))] == [2]
    late = Process("n1", 100, 0).say("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")
    assert unfinished(facts_of([*started(0, release="2.26.2"), *late, END])) == ()
    assert len(unfinished(facts_of([*started(0, release="2.18.3"), *late, END]))) == 1


def test_lines_that_ray_folds() -> None:
    folded = [f"{started(0)[-1]} [repeated 3x across cluster]"]
    (one,) = unfinished(facts_of([*folded, END]))
    assert one.folded
