"""What is absent, what could be seen, and what the head of a report shows."""

from __future__ import annotations

import pytest
from fact_samples import Process, facts_of, hosts, net, p2p, ring

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.picture import CommunicatorKind


def test_ranks_without_a_record_are_absent() -> None:
    log = [line for rank in (0, 2) for line in Process(f"n{rank}", 1).init("START", "a", rank, 4, "commId 0xaa")]
    (absent,) = facts_of(log).absent
    assert (absent.nranks, absent.seen, absent.missing, absent.arrived) == (4, (0, 2), (1, 3), False)


def test_a_process_whose_rank_no_line_tells_is_not_absent() -> None:
    processes, log = hosts(4)
    for rank in (0, 2):
        log += processes[rank].init("START", "a", rank, 4, "commId 0xaa")
    assert facts_of(log).absent == ()
    trees = [
        line
        for rank in range(2)
        for line in Process("n1", rank).say(ring(0, 1), f"Trees [0] 1/-1/-1->{rank}->-1 [1] -1/-1/-1->{rank}->0")
    ]
    assert facts_of(trees).absent == ()


def test_a_line_after_the_first_exchange_proves_that_all_have_arrived() -> None:
    start = Process("n1", 1).init("START", "a", 0, 4, "commId 0xaa")
    for text in (
        "comm 0xa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0",
        ring(0, 1, 2, 3),
        "24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer",
        net(0, 0, 3, "send", 0),
    ):
        (absent,) = facts_of(start + Process("n1", 1).say(text)).absent
        assert absent.arrived, text


def test_nobody_is_absent_where_all_are_there() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.whole("a", rank, 2, "commId 0xaa", nnodes=2)
    assert facts_of(log).absent == ()


def test_an_excerpt_tells_the_absent_by_the_ring() -> None:
    (absent,) = facts_of(Process("n1", 1).say(ring(0, 1, 2), p2p(0, 0, 1, (0, 1)))).absent
    assert (absent.seen, absent.missing) == ((0,), (1, 2))


def test_visibility() -> None:
    warn = facts_of(
        ["n1:1:2 [0] misc/socket.cc:134 NCCL WARN Net : Connect to 10.0.0.2<41233> failed : No route to host"]
    )
    assert (warn.visibility.log, warn.visibility.info, warn.visibility.init) == (True, False, False)
    graph = facts_of(
        Process("n1", 1).say("Pattern 4, crossNic 0, nChannels 2, bw 20.0/20.0, type NVL/PIX, sameChannels 1")
    )
    assert (graph.visibility.info, graph.visibility.graph, graph.visibility.channels) == (True, True, False)
    assert not facts_of(["iteration 1 loss 0.3"]).visibility.log


def test_one_gpu_of_two_ranks_is_shared_only_on_one_machine() -> None:
    def starts(host: str) -> list[str]:
        return Process("n1", 1).init("START", "a", 0, 2, "commId 0xaa") + Process(host, 2).init(
            "START", "a", 1, 2, "commId 0xaa"
        )

    (shared,) = facts_of(starts("n1")).shared_gpus
    assert (shared.machine, shared.ranks) == ("n1", (0, 1))
    assert facts_of(starts("n2")).shared_gpus == ()


def test_a_bus_id_of_zero_is_no_gpu() -> None:
    log = [
        line
        for rank in range(2)
        for line in Process("n1", rank + 1).say(
            f"comm 0xa rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 0 commId 0xaa - Init START"
        )
    ]
    assert facts_of(log).shared_gpus == ()


def test_the_picture_of_a_job() -> None:
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        machine, local = divmod(rank, 2)
        log += process.say(
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.9<0>", "Using network IB"
        )
        log += process.whole("a", rank, 4, "commId 0xaa", nnodes=2)
        log += process.whole("b", local, 2, f"commId 0xb{machine}") + process.whole(
            "c", machine, 2, f"commId 0xc{local}", nnodes=2
        )
        log += process.say(
            net(0, rank, (rank + 2) % 4, "send", local, (local, local)),
            p2p(0, rank, rank ^ 1, (local, 1 - local)),
            tid=900,
        )
    picture = facts_of(log).picture()
    assert (picture.release, picture.cuda, picture.machines, picture.ranks_seen, picture.ranks_total) == (
        "2.26.2",
        "12.2",
        2,
        4,
        4,
    )
    assert picture.networks == ("IB",)
    assert picture.communicators == (
        CommunicatorKind(1, 4, 2, "several per node"), CommunicatorKind(2, 2, 2, "one rank per node"),
        CommunicatorKind(2, 2, 1, "inside one node"),
    )  # fmt: skip
    (kind,) = picture.kinds
    assert (kind.hosts, kind.ranks_per_machine, kind.devices) == (("n1", "n2"), 2, ("mlx5_0", "mlx5_1"))
    assert [(gpu.gpu, gpu.nics, gpu.gdr, gpu.intra) for gpu in kind.gpus] == [
        ("0", ("mlx5_0",), "yes", "P2P/CUMEM"), ("1", ("mlx5_1",), "yes", "P2P/CUMEM"),
    ]  # fmt: skip


def test_machines_that_differ_are_drawn_apart() -> None:
    log = [line for i, nics in enumerate(("[0]mlx5_0:1/IB [1]mlx5_1:1/IB", "[0]mlx5_0:1/IB"))
           for line in Process(f"n{i}", 1).say(f"NET/IB : Using {nics} [RO]; OOB eth0:10.0.0.9<0>")]  # fmt: skip
    assert [kind.hosts for kind in facts_of(log).picture().kinds] == [("n0",), ("n1",)]


def test_the_shape_of_a_job() -> None:
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        whole = process.whole("a", rank, 4, "commId 0xaa", nnodes=2)
        log += [
            *whole[:2],
            *process.say(
                "4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer"
            ),
            whole[2],
        ]
        log += process.say(
            net(0, rank, (rank + 2) % 4, "send", rank % 2, (rank % 2, rank % 2)), "Connected all rings", tid=900
        )
    shape = facts_of(log).shape()
    assert (shape.nodes, shape.gpus_per_node, shape.nranks, shape.nics_per_node, shape.nchannels) == (2, 2, 4, 2, 4)
    assert (shape.network, shape.gdr, shape.nvls, shape.release) == ("ib", Answer.YES, Answer.NO, (2, 26, 2))


def test_one_rank_does_not_show_how_many_devices_a_machine_uses() -> None:
    processes, log = hosts(1, 2)
    log += processes[0].say("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.9<0>")
    log += processes[0].whole("a", 0, 4, "commId 0xaa", nnodes=2)
    log += processes[0].say(net(0, 0, 2, "send", 0), "Connected all rings", tid=900)
    assert facts_of(log).shape().nics_per_node == 2


def test_nodes_of_old_releases_are_counted_where_all_machines_show_equally_many() -> None:
    processes, log = hosts(2, 2, release="2.14.3")
    for rank, process in enumerate(processes):
        log += process.say(f"comm 0xa rank {rank} nranks 4 cudaDev {rank % 2} busId {process.bus} - Init COMPLETE")
    shape = facts_of(log).shape()
    assert (shape.nodes, shape.gpus_per_node) == (2, 2)


def test_an_empty_input_proves_nothing() -> None:
    facts = facts_of(["hello"])
    assert (facts.machines, facts.communicators, facts.edges, facts.ring_rails, facts.absent) == ((), (), (), None, ())
    assert facts.shape().nranks is None
    assert facts.picture().machines == 0


def test_jobs_that_share_nothing_are_counted() -> None:
    def job(*names: str) -> list[str]:
        return [
            line
            for rank, name in enumerate(names)
            for line in Process(name, 7).whole("a", rank, len(names), f"commId 0x{names[0]}", nnodes=len(names))
        ]

    assert facts_of(job("aa", "ab"), job("ba", "bb")).jobs == 2
    assert facts_of(job("aa", "ab"), job("ab", "bb")).jobs == 1, "one machine in both: a restart"
    assert facts_of(job("aa", "ab") + job("ba", "bb")).jobs == 1, "one log"
    part = Process("ca", 1).init("START", "a", 0, 4, "commId 0xca")
    assert facts_of(job("aa", "ab"), job("ba", "bb"), part).jobs == 1, "one is here in part: it may be of either"


@pytest.mark.parametrize(
    ("texts", "release"),
    [
        (["Bootstrap: Using eth0:10.2.3.4<0>"], "2.24.3 or newer (from the form of its lines)"),
        (["nranks 16"], "2.4.8 or older (from the form of its lines)"),
        (["nranks 16", "Bootstrap: Using eth0:10.2.3.4<0>"], ""),
        (["NCCL version 2.18.3+cuda12.2", "Bootstrap: Using eth0:10.2.3.4<0>"], "2.18.3"),
        (["GPU 2 / HCA 5 connected to CPU 1 via C2C link"], "2.26.2 to 2.26.6 (from the form of its lines)"),
    ],
)
def test_without_a_version_line_the_picture_shows_a_range_of_releases(texts: list[str], release: str) -> None:
    facts = facts_of(Process("n1", 1).say(*texts))
    assert facts.picture().release == release
    assert len(facts.releases) == release.startswith("2.18.3")
