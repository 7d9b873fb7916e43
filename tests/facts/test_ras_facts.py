"""Who is gone and who stands, by what RAS says."""

from __future__ import annotations

from fact_samples import facts_of

from ncclcheck.facts.ras import lost_processes, rank_errors, standing_ranks

EVENT = "[2026-02-03 04:05:{:02}] PEER_{}: Process 812 on node 10.0.0.9 managing GPU 4"
REPORT = [
    "Communicators... (0.00s)",
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
    "    0         1         1         4         4         4   RUNNING  MISMATCH",
    "Warnings",
    "#0-0 (00000000000000aa) MISMATCH",
    "  Communicator ranks have different Reduce operation counts",
]
BEHIND = "  Rank 3 has launched up to operation {} -- GPU 3 managed by process 9 on node 10.0.0.9"


def report(behind: int, ahead: int) -> list[str]:
    return [*REPORT, f"  3 ranks have launched up to operation {ahead}", BEHIND.format(behind)]


def test_what_was_seen_last_counts() -> None:
    dead = facts_of([EVENT.format(1, "UNRESPONSIVE"), EVENT.format(2, "DEAD")])
    assert [(one.pid, one.machine, one.dead) for one in lost_processes(dead)] == [("812", "10.0.0.9", True)]
    back = facts_of([EVENT.format(1, "UNRESPONSIVE"), EVENT.format(2, "RECOVERED")])
    assert lost_processes(back) == ()


def test_an_address_is_the_machine_that_bootstraps_there() -> None:
    log = ["n7:812:812 [4] NCCL INFO Bootstrap : Using eth0:10.0.0.9<0>"]
    (one,) = lost_processes(facts_of([*log, EVENT.format(2, "DEAD")]))
    assert one.machine == "n7"


def test_only_counts_that_stay_the_same_stand() -> None:
    (one,) = standing_ranks(facts_of([*report(7, 8), *report(7, 8)]))
    assert (one.rank, one.operation, one.launched, one.ahead, one.pid) == (3, "Reduce", 7, 8, "9")
    for first, second in (((7, 8), (7, 9)), ((7, 8), (8, 9)), ((7, 8), (9, 9))):
        assert standing_ranks(facts_of([*report(*first), *report(*second)])) == ()
    assert standing_ranks(facts_of(report(7, 8))) == ()


def test_one_that_moves_on_stands_no_more() -> None:
    assert standing_ranks(facts_of([*report(7, 8), *report(7, 8), *report(8, 9)])) == ()


def test_errors_of_a_rank_itself_come_before_those_of_its_peers() -> None:
    lines = [
        "#0-0 (00000000000000aa) ERROR",
        "  Asynchronous errors on 3 ranks",
        "  2 ranks reported Remote process error",
        "  Rank 0 -- GPU 0 managed by process 7 on node 10.0.0.8",
        "  Rank 1 -- GPU 1 managed by process 8 on node 10.0.0.8",
        "  Rank 3 reported System error -- GPU 3 managed by process 9 on node 10.0.0.9",
    ]
    errors = rank_errors(facts_of(lines))
    assert [(one.rank, one.error, one.remote, one.pid) for one in errors] == [
        (3, "System error", False, "9"),
        (0, "Remote process error", True, "7"),
        (1, "Remote process error", True, "8"),
    ]
