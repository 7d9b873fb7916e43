"""Does a communicator use the network between machines?"""

from __future__ import annotations

import pytest
from fact_samples import Process, facts_of, hosts, net, p2p, ring

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.seen import Crossing


def _world(
    processes: list[Process], log: list[str], nnodes: int, local: int, seen: int | None = None, mnnvl: int = 0
) -> Facts:
    nranks = len(processes)
    for rank, process in list(enumerate(processes))[:seen]:
        log += process.whole(f"a{rank}", rank, nranks, "commId 0xaa", nnodes=nnodes, local=local, mnnvl=mnnvl)
    return facts_of(log)


def _told(facts: Facts) -> tuple[Answer, str]:
    assert facts.world is not None
    crossing: Crossing = facts.world.crossing
    return crossing.answer, crossing.confidence


def test_one_node_does_not() -> None:
    processes, log = hosts(1, 4)
    assert _told(_world(processes, log, 1, 4))[0] is Answer.NO


def test_one_node_over_several_machines_does_not() -> None:
    """An MNNVL rack prints `Using network Socket` and no byte goes there."""
    processes, log = hosts(2, 2)
    log += processes[0].say("Using network Socket")
    for rank, process in enumerate(processes):
        log += process.say(p2p(0, rank, (rank + 1) % 4, (rank % 2, (rank + 1) % 2), "MNNVL"))
    facts = _world(processes, log, 1, 4, mnnvl=1)
    assert _told(facts)[0] is Answer.NO
    assert facts.crossing.answer is Answer.NO
    assert {group.scope for group in facts.edges} == {"inside"}


def test_several_nodes_that_are_machines_do() -> None:
    processes, log = hosts(2, 2)
    assert _told(_world(processes, log, 2, 2)) == (Answer.YES, "high")


def test_several_nodes_of_which_one_rank_is_seen_probably_do() -> None:
    processes, log = hosts(2, 2)
    assert _told(_world(processes, log, 2, 2, seen=1)) == (Answer.YES, "medium")


def test_nodes_inside_a_machine_leave_it_open() -> None:
    """Peer access and shared memory off: every GPU is a node."""
    processes, log = hosts(1, 4)
    assert _told(_world(processes, log, 4, 1))[0] is Answer.UNKNOWN


def test_nodes_inside_each_of_two_machines_do_go_between_them() -> None:
    processes, log = hosts(2, 4)
    facts = _world(processes, log, 4, 2)
    assert _told(facts)[0] is Answer.YES


def test_nodes_may_share_a_machine_where_p2p_and_shm_are_off() -> None:
    processes, log = hosts(1, 4)
    log += processes[0].say("NCCL_P2P_DISABLE set by environment to 1", "NCCL_SHM_DISABLE set by environment to 1.")
    assert _told(_world(processes, log, 4, 1, seen=1))[0] is Answer.UNKNOWN


def _uncounted(machines: int, gpus: int, *lines: tuple[int, str], nranks: int | None = None) -> Facts:
    """2.18.3: no line counts nodes."""
    processes, log = hosts(machines, gpus, release="2.18.3")
    for rank, process in enumerate(processes):
        tail, size = "commId 0xaa", nranks or len(processes)
        log += process.init("START", "a1", rank, size, tail, name="")
        log += process.say(*(text for at, text in lines if at == rank))
        log += process.init("COMPLETE", "a1", rank, size, tail, name="")
    return facts_of(log)


def test_before_nodes_were_counted_two_machines_probably_do() -> None:
    assert _told(_uncounted(2, 1)) == (Answer.YES, "medium")


def test_before_nodes_were_counted_an_edge_between_machines_proves_it() -> None:
    facts = _uncounted(2, 1, (0, net(0, 0, 1, "send", 0)))
    assert _told(facts) == (Answer.YES, "high")
    assert facts.world and facts.world.crossing.evidence[0].line == 6


def test_before_nodes_were_counted_all_ranks_of_one_machine_do_not() -> None:
    assert _told(_uncounted(1, 4))[0] is Answer.NO


def test_before_nodes_were_counted_some_ranks_of_one_machine_leave_it_open() -> None:
    assert _told(_uncounted(1, 4, nranks=8))[0] is Answer.UNKNOWN


def test_more_ranks_than_a_machine_can_hold_probably_do() -> None:
    assert _told(_uncounted(1, 4, nranks=32)) == (Answer.YES, "medium")


def test_more_ranks_than_gpus_in_the_topology_probably_do() -> None:
    dump = [(0, f"+ PCI[24.0] - GPU/{gpu}000 ({gpu})") for gpu in range(1, 5)]
    assert _told(_uncounted(1, 4, *dump, nranks=8)) == (Answer.YES, "medium")


@pytest.mark.parametrize(("machines", "answer"), [(1, Answer.UNKNOWN), (2, Answer.YES)])
def test_an_excerpt_tells_by_its_ring(machines: int, answer: Answer) -> None:
    log = [line for machine in range(machines) for line in Process(f"n{machine}", 1).say(ring(0, 1, 2, 3))]
    assert facts_of(log).crossing.answer is answer


def test_nothing_is_unknown() -> None:
    assert facts_of(["hello"]).crossing.answer is Answer.UNKNOWN


def test_machines_that_nvlink_may_join_are_one_node_or_not() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.say("MNNVL 1 cliqueId 7ffe cliqueSize 2 cliqueRank 0")
        log += process.init("START", f"a{rank}", rank, 2, "commId 0xaa")
    assert _told(facts_of(log))[0] is Answer.UNKNOWN


def test_all_ranks_on_one_machine_stay_there_whatever_a_cut_dump_counts() -> None:
    processes, log = hosts(1, 4)
    for rank, process in enumerate(processes):
        log += process.init("START", f"a{rank}", rank, 4, "commId 0xaa")
    log += processes[0].say("+ PCI[24.0] - GPU/0-1000 (0)")  # the log ends here
    assert _told(facts_of(log))[0] is Answer.NO


def _cut_before_the_node_count(gpus: int, *more: str) -> Facts:
    """Two machines, each rank at START."""
    processes, log = hosts(2, gpus)
    for rank, process in enumerate(processes):
        log += process.init("START", f"a{rank}", rank, len(processes), "commId 0xaa")
        log += process.say(*more)
    return facts_of(log)


@pytest.mark.parametrize(
    ("gpus", "more", "answer"),
    [
        (4, "", Answer.UNKNOWN),
        (4, "MNNVL busId 0x901000 fabric UUID 5f2c.81aa cliqueId 0x7ffe state 3 healthMask 0xaa", Answer.UNKNOWN),
        # what rules a rack out: an HGX board, no domain in the driver, settings, an old driver, other cards, x86
        (8, "", Answer.YES),
        (4, "MNNVL busId 0x1a000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0", Answer.YES),
        (4, "NCCL_MNNVL_ENABLE set by environment to 0.", Answer.YES),
        (4, "cudaDriverVersion 12020", Answer.YES),
        (4, "CPU/0 (1/1/2)", Answer.YES),
        # who connects has counted the nodes, and this log has no count
        (4, "Channel 00/02 : 0 1 2 3 4 5 6 7", Answer.YES),
    ],
)
def test_a_log_that_ends_before_the_node_count_may_be_a_rack(gpus: int, more: str, answer: Answer) -> None:
    assert _told(_cut_before_the_node_count(gpus, *([more] if more else [])))[0] is answer


def test_a_rack_is_ruled_out_by_the_cards_name() -> None:
    log = ["#  Rank  0 Group  0 Pid    100 on         n1 device  0 [0000:1a:00] NVIDIA L40S"]
    processes, start = hosts(2)
    for rank, process in enumerate(processes):
        start += process.init("START", f"a{rank}", rank, 2, "commId 0xaa")
    assert _told(facts_of(log + start))[0] is Answer.YES


@pytest.mark.parametrize(
    "text", ["comm 0x5500 rank {} nranks 2", "comm 0x5500 rank {} nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE"]
)
def test_lines_of_old_releases_rule_out_a_rack(text: str) -> None:
    facts = facts_of([line for rank in (0, 1) for line in Process(f"n{rank}", 7).say(text.format(rank))])
    assert facts.crossing.answer is Answer.YES


def test_the_device_list_of_nccl_tests_shows_the_machines() -> None:
    rows = [
        f"#  Rank {rank} Pid {7 + rank} on n{rank // 2} device {rank % 2} [0x1b] Tesla V100-SXM2-32GB"
        for rank in range(4)
    ]
    assert facts_of(rows).crossing.answer is Answer.YES
    assert facts_of(rows[:2]).crossing.answer is Answer.UNKNOWN
    assert facts_of([*rows[:2], *rows[:2], rows[0].replace("n0", "n9")]).crossing.answer is Answer.UNKNOWN
