"""A first collective that never finished."""

from __future__ import annotations

from fact_samples import facts_of

from ncclcheck.facts.stalls import first_collective_stalls

INFO = "n1:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
FAILED = "n1:10:20 [0] transport/shm.cc:1 NCCL WARN Call to posix_fallocate failed : No space left on device"


def watchdog(rank: int, number: int) -> str:
    head = f"[rank{rank}]:[E1104 10:22:31.114209 901 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
    work = f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
    return f"{head} operation timeout: {work} ran for 600061 milliseconds before timing out."


def test_all_ranks_wait_in_the_first_one() -> None:
    assert [one.line for one in first_collective_stalls(facts_of([INFO, watchdog(0, 1), watchdog(1, 1)]))] == [2, 3]


def test_a_later_one_or_another_failure_is_no_such_stall() -> None:
    assert first_collective_stalls(facts_of([INFO, watchdog(0, 1), watchdog(1, 12)])) == ()
    assert first_collective_stalls(facts_of([INFO, FAILED, watchdog(0, 1)])) == ()
    assert first_collective_stalls(facts_of([INFO])) == ()
