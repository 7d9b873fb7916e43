"""Who waited for PyTorch's watchdog, and who was not there."""

from __future__ import annotations

from fact_samples import facts_of

from ncclcheck.facts.timeouts import Timeout, death_follows, timed_out

HEAD = "[rank{0}]:[E512 09:14:07.331880412 ProcessGroupNCCL.cpp:632] "
CAUGHT = (
    "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn={3}, NumelOut="
)
CAUGHT += "{3}, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
STATUS = (
    "[PG ID {3} PG GUID {4} Rank {0}]  failure detected by watchdog at work sequence id: {1} PG status: last enqueued"
)
STATUS += " work: {2}, last completed work: {5}"


def waits(rank: int, work: int, op: str = "ALLREDUCE", size: int = 8, group: str = "0", member: int = -1) -> list[str]:
    in_group = rank if member < 0 else member
    caught = HEAD.format(rank) + CAUGHT.format(in_group, work, op, size)
    status = STATUS.format(in_group, work, work + 2, 0, group, work - 1 or -1)
    return [caught, HEAD.format(rank) + status]


def only(lines: list[str]) -> Timeout:
    found = timed_out(facts_of(lines))
    assert found is not None
    (one,) = found.groups
    return one


def test_no_watchdog_no_timeout() -> None:
    assert timed_out(facts_of(["step 7 took 12 s"])) is None
    # an error of NCCL, no timeout
    assert timed_out(facts_of(waits(0, 5)[1:])) is None


def test_the_first_collective_of_all_leaves_nobody_behind() -> None:
    one = only([*waits(0, 1), *waits(1, 1)])
    assert (one.waiting, one.work, one.first, one.all_there) == ((0, 1), 1, (), False)


def test_seconds_are_those_that_the_ranks_stood() -> None:
    found = timed_out(facts_of(waits(0, 5)))
    assert found is not None
    assert found.seconds == 600.012


def test_who_stands_earlier_is_first() -> None:
    one = only([*waits(0, 98), *waits(1, 96), *waits(2, 98)])
    assert (one.first, one.how, one.last, one.waiting, one.sure) == ((1,), "stuck", 96, (0, 2), True)


def test_numbers_of_pairs_are_not_compared() -> None:
    one = only([*waits(0, 98, "SEND"), *waits(1, 96, "RECV")])
    assert (one.first, one.work) == ((), None)


def test_sizes_that_may_differ_are_not_compared() -> None:
    assert only([*waits(0, 5, "ALLTOALL_BASE", 8), *waits(1, 5, "ALLTOALL_BASE", 9)]).first == ()
    assert only([*waits(0, 5, size=8), *waits(1, 5, size=8), *waits(2, 5, size=9)]).first == (2,)


def test_an_attempt_after_another_is_not_compared_with_it() -> None:
    one = only([*waits(0, 98), *waits(1, 98), *waits(0, 41), *waits(1, 41)])
    assert (one.mixed, one.first) == (True, ())


def test_far_numbers_without_a_group_are_of_two() -> None:
    assert only([waits(0, 1580)[0], waits(1, 5)[0]]).first == ()
    near = only([waits(0, 7)[0], waits(1, 5)[0]])
    assert (near.first, near.sure) == ((1,), False)


def test_half_of_the_ranks_are_not_silent() -> None:
    assert only([*waits(0, 5), *waits(63, 5)]).first == ()
    assert only([*waits(0, 5), *waits(9999999, 5)]).first == ()


def test_a_rank_that_waits_elsewhere_is_not_silent() -> None:
    # 2 is missing in no group, 3 in all
    lines = [
        *waits(0, 5, group="1"),
        *waits(1, 5, group="1", member=1),
        *waits(2, 9, group="2", member=0),
        *waits(4, 7),
    ]
    assert only(lines).first == (3,)


def test_the_death_of_a_rank_that_waited_follows() -> None:
    died = "[rank{}]: ValueError: no"
    assert death_follows(facts_of([*waits(0, 5), died.format(0)]))
    assert not death_follows(facts_of([*waits(0, 5), died.format(1)]))
    assert not death_follows(facts_of([died.format(0), *waits(0, 5)]))


def test_who_called_the_others_waits() -> None:
    called = (
        HEAD.format(0) + "[PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout"
    )
    one = only([called + " from  rank 8 and we will try. Last enqueued NCCL work: 62, last completed NCCL work: 62."])
    assert (one.waiting, one.work, one.first) == ((8,), None, ())
