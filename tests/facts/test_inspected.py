"""Who the others wait for, by the times of NCCL Inspector."""

from __future__ import annotations

import json

from fact_samples import facts_of

from ncclcheck.facts.inspected import last_to_arrive, were_timed


def line(rank: int, sn: int, us: float, *, ranks: int = 4, per_host: int = 2, coll: str = "AllReduce") -> str:
    return json.dumps(
        {
            "header": {"id": "0x7", "rank": rank, "n_ranks": ranks, "nnodes": 2},
            "metadata": {"inspector_output_format_version": "v4.0", "hostname": f"m{rank // per_host}", "pid": rank},
            "coll_perf": {"coll": coll, "coll_sn": sn, "coll_msg_size_bytes": 1024, "coll_exec_time_us": us},
        }
    )


def test_ranks_of_one_machine_may_take_turns_in_being_last() -> None:
    times = [line(rank, sn, 2000 if rank < 2 else 500 + (rank + sn) % 2) for rank in range(4) for sn in range(30)]
    last = last_to_arrive(facts_of(times))
    assert last is not None
    assert (last.host, last.ranks, last.nranks, last.operations, last.share) == ("m1", (2, 3), 4, 30, 1.0)
    assert last.us > 1000 and 0.5 < last.waiting < 0.7


def test_waiting_that_is_little_is_nobodys_fault() -> None:
    times = [line(rank, sn, 1000 + 50 * (rank != 3)) for rank in range(4) for sn in range(30)]
    facts = facts_of(times)
    assert were_timed(facts) and last_to_arrive(facts) is None


def test_few_operations_and_missing_ranks_say_nothing() -> None:
    for times in (
        [line(rank, sn, 100 if rank == 1 else 900) for rank in range(4) for sn in range(19)],
        [line(rank, sn, 100 if rank == 1 else 900) for rank in range(3) for sn in range(30)],
    ):
        facts = facts_of(times)
        assert not were_timed(facts) and last_to_arrive(facts) is None
