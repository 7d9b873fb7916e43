"""Whose is a channel line, and does it go between machines?"""

from __future__ import annotations

import polars as pl
import pytest
from fact_samples import Process, facts_of, hosts, net, p2p

from ncclcheck.facts.facts import Facts


def _scopes(facts: Facts) -> dict[str, int]:
    """Number of network edges by scope."""
    found: dict[str, int] = {}
    for group in facts.edges:
        if group.transport == "NET":
            found[group.scope] = found.get(group.scope, 0) + group.edges
    return found


def _owner(facts: Facts, src: int, dst: int) -> int | None:
    """nranks of the communicator that an edge was given to."""
    owners = facts.edge_table.filter((pl.col("src") == src) & (pl.col("dst") == dst)).get_column("cid").to_list()
    sizes = {communicator.id: communicator.nranks for communicator in facts.communicators}
    return sizes[owners[0]] if len(set(owners)) == 1 and owners[0] is not None else None


def _groups(release: str = "2.26.2", extra: int | None = None) -> tuple[list[Process], list[str]]:
    """Two machines of two GPUs: a group per machine and a group per GPU, all of two ranks; `extra`: size of a world."""
    processes, log = hosts(2, 2, release=release)
    for rank, process in enumerate(processes):
        machine, local = divmod(rank, 2)
        if extra:
            log += process.whole(f"a{rank}", rank, extra, "commId 0xaa", nnodes=2, local=extra // 2)
        log += process.whole(f"b{rank}", local, 2, f"commId 0xb{machine}")
        log += process.whole(f"c{rank}", machine, 2, f"commId 0xc{local}", nnodes=2)
    return processes, log


def test_brackets_tell_groups_of_one_size_apart() -> None:
    processes, log = _groups()
    log += processes[0].say(p2p(0, 0, 1, (0, 1)), net(0, 0, 1, "send", 0, (0, 0)), tid=900)
    log += processes[2].say(net(0, 0, 1, "receive", 0, (0, 0)), tid=900)
    facts = facts_of(log)
    assert _scopes(facts) == {"between": 2}
    net_owners = facts.edge_table.filter(pl.col("transport") == "NET").get_column("cid")
    assert net_owners.n_unique() == 1 and net_owners.null_count() == 0
    assert next(c for c in facts.communicators if c.id == net_owners[0]).machines == ("n1", "n2")


def test_the_printing_rank_of_a_receive_is_on_the_right() -> None:
    processes, log = _groups(extra=4)
    log += processes[2].say(net(0, 1, 2, "receive", 0, (1, 0)), tid=900)
    assert _owner(facts_of(log), 1, 2) == 4


def test_a_peer_beyond_the_size_rules_a_communicator_out() -> None:
    processes, log = _groups(extra=4)
    log += processes[0].say(net(0, 0, 3, "send", 0, (0, 1)), tid=900)
    assert _owner(facts_of(log), 0, 3) == 4


def test_lines_during_init_belong_to_the_communicator_of_their_thread() -> None:
    """The world of two and its copy look alike: only START to COMPLETE on one thread tell, and the first stands for
    both."""
    processes, log = hosts(2, release="2.20.5")
    for rank, process in enumerate(processes):
        for pointer in ("a", "b"):
            whole = process.whole(pointer, rank, 2, f"commId 0x{pointer}", nnodes=2)
            log += [*whole[:2], *process.say(net(0, 0, 1, ("send", "receive")[rank], 0)), whole[2]]
    facts = facts_of(log)
    assert facts.edge_table.get_column("cid").to_list() == [0, 0]
    assert _scopes(facts) == {"between": 4}


def test_init_that_hangs_owns_the_lines_until_the_end() -> None:
    processes, log = hosts(2, release="2.20.5")
    for rank, process in enumerate(processes):
        log += process.whole("a", rank, 2, "commId 0xa", nnodes=2)
        log += process.whole("b", rank, 2, "commId 0xb", nnodes=2)[:2]
        log += process.say(net(0, 0, 1, ("send", "receive")[rank], 0))
    assert facts_of(log).edge_table.get_column("cid").to_list() == [1, 1]


def test_before_start_lines_existed_init_begins_at_the_one_before() -> None:
    log = []
    for rank, process in enumerate([Process("n1", 1), Process("n2", 2)]):
        log += process.version("2.17.1")
        for pointer, nranks in (("a", 3), ("b", 2)):
            edge = f"Channel 00/0 : 0[10000] -> 1[10000] [{('send', 'receive')[rank]}] via NET/IB/0/GDRDMA"
            done = (
                f"comm 0x{pointer} rank {rank} nranks {nranks} cudaDev 0 busId 10000 commId 0x{pointer} - Init COMPLETE"
            )
            log += process.say(edge, done)
    facts = facts_of(log)
    assert facts.edge_table.sort("proc", "line").get_column("cid").to_list() == [0, 1, 0, 1]


def test_connections_after_init_belong_to_no_communicator_that_starts_later() -> None:
    processes, log = hosts(2)
    for step in range(2):
        for rank, process in enumerate(processes):
            log += process.whole(f"{step}a", rank, 2, f"commId 0x{step + 1}", nnodes=2)
        if not step:
            log += processes[0].say(net(0, 0, 1, "send", 0), tid=900)
    assert facts_of(log).edge_table.get_column("cid").to_list() == [0]


def test_connections_that_two_alike_may_own_are_judged_all_the_same() -> None:
    processes, log = hosts(2)
    for pointer in ("a", "b"):
        for rank, process in enumerate(processes):
            log += process.whole(pointer, rank, 2, f"commId 0x{pointer}", nnodes=2)
    log += processes[0].say(net(0, 0, 1, "send", 0), tid=900)
    facts = facts_of(log)
    assert facts.edge_table.get_column("cid").to_list() == [None]
    assert _scopes(facts) == {"between": 1}


def test_a_pointer_used_again_ends_the_life_of_the_first() -> None:
    processes, log = hosts(2)
    for identity, ranks in (("0x1", 2), ("0x2", 4)):
        for rank, process in enumerate(processes):
            log += process.whole("a", rank, ranks, f"commId {identity}", nnodes=ranks)
    log += processes[0].say(net(0, 0, 1, "send", 0), tid=900)
    assert _owner(facts_of(log), 0, 1) == 4


def test_different_answers_leave_an_edge_open() -> None:
    """The peer may be on this machine or on another, and no bracket tells: one process of each kind prints device 0."""
    processes, log = _groups()
    log += processes[0].say("Channel 00/0 : 0 -> 1 [send] via NET/IB/0", tid=900)
    facts = facts_of(log)
    assert facts.edge_table.get_column("candidates").to_list() == [2]
    assert _scopes(facts) == {"unknown": 1}


def test_brackets_are_nvml_devices_from_2_18_3_on() -> None:
    """CUDA_VISIBLE_DEVICES makes the CUDA device differ from the NVML device."""
    log = []
    for rank, (host, pid) in enumerate((("n1", 1), ("n2", 2))):
        process = Process(host, pid)
        log += process.version("2.26.2")
        for comm, nvml in (("a", 3), ("b", 0)):
            gpu = f"cudaDev {3 - nvml} nvmlDev {nvml} busId {nvml}0"
            log += process.say(
                f"ncclCommInitRank comm 0x{comm} rank {rank} nranks 2 {gpu} commId 0x{comm} - Init START"
            )
    log += Process("n1", 1).say(net(0, 0, 1, "send", 0, (3, 3)), tid=900)
    facts = facts_of(log)
    first = facts.members.filter(pl.col("nvml_dev") == 3).get_column("cid").unique().to_list()
    assert facts.edge_table.get_column("cid").to_list() == first


@pytest.mark.parametrize(("release", "device"), [("2.4.8", "cudaDev {0} nvmlDev 0"), ("2.10.3", "cudaDev 0 busId {0}")])
def test_brackets_of_older_releases(release: str, device: str) -> None:
    """CUDA devices in 2.4, bus ids up to 2.18.1, where `6` and `6000` are both bus ids."""
    log = []
    for rank, process in enumerate([Process("n1", 1), Process("n2", 2)]):
        log += process.version(release)
        for comm, name in (("a", "6"), ("b", "7")):
            log += process.say(f"comm 0x{comm} rank {rank} nranks 2 {device.format(name)} - Init COMPLETE")
    log += Process("n1", 1).say("Channel 00 : 0[7] -> 1[7] via P2P/IPC", tid=900)
    facts = facts_of(log)
    second = facts.members.filter(pl.col("comm") == "0xb").get_column("cid").unique().to_list()
    assert facts.edge_table.get_column("cid").to_list() == second


def test_network_edges_inside_a_machine_are_inside() -> None:
    processes, log = hosts(1, 2)
    for rank, process in enumerate(processes):
        log += process.whole(f"a{rank}", rank, 2, "commId 0xaa", nnodes=2, local=1)
        log += process.say(net(0, rank, 1 - rank, "send", 0, (rank, 1 - rank)), tid=900)
    assert _scopes(facts_of(log)) == {"inside": 2}


def test_an_unseen_peer_of_a_communicator_over_machines_is_on_another() -> None:
    processes, log = hosts(1)
    log += processes[0].whole("a", 0, 2, "commId 0xaa", nnodes=2)
    log += processes[0].say(net(0, 0, 1, "send", 0), tid=900)
    assert _scopes(facts_of(log)) == {"between": 1}


def test_twins_that_cannot_be_told_apart_are_judged_by_all_of_them() -> None:
    """No id, and files of two runs on other machines: rank 1 is on n2 or on n4, never on n1."""
    log = []
    for rank, host in ((0, "n1"), (1, "n2"), (0, "n3"), (1, "n4")):
        process = Process(host, 10 + rank)
        log += process.version("2.14.3")
        log += process.say("Channel 00/0 : 0[10000] -> 1[10000] [send] via NET/IB/0/GDRDMA") if rank == 0 else []
        log += process.say(f"comm 0xa rank {rank} nranks 2 cudaDev 0 busId 10000 - Init COMPLETE")
    assert _scopes(facts_of(log)) == {"between": 2}


def test_an_excerpt_without_init_lines_goes_by_where_ranks_print() -> None:
    log = Process("n1", 1).say(net(0, 0, 1, "send", 0)) + Process("n2", 2).say(net(0, 0, 1, "receive", 0))
    assert _scopes(facts_of(log)) == {"between": 2}


def test_an_excerpt_where_ranks_print_on_several_machines_stays_open() -> None:
    log = [
        line
        for host in ("n1", "n2")
        for line in Process(host, 1).say(net(0, 0, 1, "send", 0)) + Process(host, 2).say(net(0, 0, 1, "receive", 0))
    ]
    assert _scopes(facts_of(log)) == {"unknown": 4}


def test_edges_name_the_network_of_a_communicator() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.say("Using network Socket") + process.whole("a", rank, 2, "commId 0xaa", nnodes=2)
        log += process.say(net(0, 0, 1, ("send", "receive")[rank], 0, tail="", network="FasTrak"), tid=900)
    assert [c.networks for c in facts_of(log).communicators] == [("FasTrak",)]
