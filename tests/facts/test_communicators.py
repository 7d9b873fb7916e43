"""Which records belong to one communicator?"""

from __future__ import annotations

from fact_samples import Process, facts_of, hosts

from ncclcheck.facts.facts import Facts


def _sizes(facts: Facts) -> list[tuple[int | None, int]]:
    """(nranks, ranks seen) of all communicators."""
    return [(c.nranks, len(c.ranks)) for c in facts.communicators]


def _old(process: Process, comm: str, rank: int, nranks: int, tail: str = "") -> list[str]:
    """Init COMPLETE of 2.5.6 to 2.18.1."""
    return process.say(
        f"comm 0x{comm} rank {rank} nranks {nranks} cudaDev {process.device} busId {process.bus}{tail} - Init COMPLETE"
    )


def test_an_id_joins_the_ranks_of_all_processes() -> None:
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        log += process.whole(f"a{rank}", rank, 4, "commId 0xaa", nnodes=2)
    (world,) = facts_of(log).communicators
    assert (world.nranks, world.nnodes, world.local_ranks, world.ranks) == (4, 2, 2, (0, 1, 2, 3))
    assert (world.machines, world.started, world.completed) == (("n1", "n2"), 4, 4)


def test_files_of_one_rank_each_join() -> None:
    processes, _ = hosts(2)
    logs = [process.whole("a1", rank, 2, "commId 0xaa", nnodes=2) for rank, process in enumerate(processes)]
    assert _sizes(facts_of(*logs)) == [(2, 2)]


def test_one_log_given_twice_is_one_communicator() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.whole("a1", rank, 2, "commId 0xaa", nnodes=2)
    (world,) = facts_of(log, log).communicators
    assert (world.ranks, world.ambiguous) == ((0, 1), False)


def test_the_world_is_the_largest_communicator() -> None:
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        machine, local = divmod(rank, 2)
        log += process.whole("b0", local, 2, f"commId 0x{machine + 1}")
        log += process.whole("a0", rank, 4, "commId 0xaa", nnodes=2)
    facts = facts_of(log)
    assert _sizes(facts) == [(4, 4), (2, 2), (2, 2)]
    assert facts.world and facts.world.nranks == 4


def test_a_pointer_used_again_is_another_communicator() -> None:
    processes, log = hosts(2)
    for identity in ("0xaa", "0xbb"):
        for rank, process in enumerate(processes):
            log += process.whole("a1", rank, 2, f"commId {identity}", nnodes=2)
    assert _sizes(facts_of(log)) == [(2, 2), (2, 2)]


def test_a_pointer_used_again_before_there_was_a_start_line() -> None:
    processes, log = hosts(2, release="2.17.1")
    for identity in ("0xaa", "0xbb"):
        for rank, process in enumerate(processes):
            log += _old(process, "a1", rank, 2, f" commId {identity}")
    assert _sizes(facts_of(log)) == [(2, 2), (2, 2)]


def test_two_splits_of_one_colour_that_share_an_id_are_two() -> None:
    """2.18.3 to 2.22.3: the id is made from parent and colour."""
    processes, log = hosts(4, release="2.20.5")
    for rank, process in enumerate(processes):
        log += process.whole("a0", rank, 4, "commId 0xaa", nnodes=4)
    for pointer, key in (("b0", 1), ("b1", -1)):  # in the second one the order of ranks is turned
        for rank, process in enumerate(processes):
            child = rank if key > 0 else 3 - rank
            log += process.whole(pointer, child, 4, f"parent 0xa0 color 0 key {key * rank} commId 0xbb", nnodes=4)
    facts = facts_of(log)
    assert _sizes(facts) == [(4, 4)] * 3
    assert not any(c.ambiguous for c in facts.communicators)


def _splits(release: str, tails: list[str], sizes: list[int]) -> Facts:
    """A world of four, and a split of it per tail: `{color}` is the machine's half, `{key}` the rank."""
    processes, log = hosts(4, release=release)
    for rank, process in enumerate(processes):
        log += process.whole(f"a{rank}", rank, 4, "commId 0xaa", nnodes=4)
    for number, (tail, size) in enumerate(zip(tails, sizes, strict=True)):
        for rank, process in enumerate(processes):
            text = f"parent 0xa{rank} {tail.format(color=rank // size, key=rank)}"
            log += process.whole(f"b{number}{rank}", rank % size, size, text, nnodes=size)
    return facts_of(log)


def test_splits_without_id_are_told_by_counter_and_colour() -> None:
    for word, release in (("splitCount", "2.26.2"), ("childCount", "2.29.7")):
        tails = [f"{word} {count} color {{color}} key {{key}}" for count in (1, 2)]
        facts = _splits(release, tails, [2, 2])
        assert _sizes(facts) == [(4, 4), (2, 2), (2, 2), (2, 2), (2, 2)]


def test_splits_without_counter_are_told_by_their_order() -> None:
    facts = _splits("2.23.4", ["color {color} key {key}"] * 3, [2, 4, 2])
    assert _sizes(facts) == [(4, 4), (4, 4), (2, 2), (2, 2), (2, 2), (2, 2)]


def test_the_dash_of_a_split_start_is_glued_to_the_key() -> None:
    processes, log = hosts(1)
    log += processes[0].whole("a0", 0, 1, "commId 0xaa")
    log += processes[0].say("ncclCommSplit comm 0xb0 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 10000"
                            " parent 0xa0 splitCount 1 color 7 key 0- Init START")  # fmt: skip
    assert [(c.started, c.completed) for c in facts_of(log).communicators] == [(1, 1), (1, 0)]


def test_a_split_of_a_split_belongs_to_its_parent() -> None:
    processes, log = hosts(4)
    for rank, process in enumerate(processes):
        half, place = divmod(rank, 2)
        log += process.whole(f"a{rank}", rank, 4, "commId 0xaa", nnodes=4)
        log += process.whole(f"b{rank}", place, 2, f"parent 0xa{rank} splitCount 1 color {half} key {rank}", nnodes=2)
        # the same counter and colour in both halves: only the parents tell them apart
        log += process.whole(f"c{rank}", place, 2, f"parent 0xb{rank} splitCount 1 color 0 key {rank}", nnodes=2)
    facts = facts_of(log)
    assert _sizes(facts) == [(4, 4), (2, 2), (2, 2), (2, 2), (2, 2)]
    assert sorted(c.machines for c in facts.communicators[1:]) == [("n1", "n2")] * 2 + [("n3", "n4")] * 2


def test_a_split_of_a_pointer_used_again_belongs_to_the_new_parent() -> None:
    processes, log = hosts(2)
    for identity in ("0xaa", "0xbb"):
        for rank, process in enumerate(processes):
            log += process.whole("a0", rank, 2, f"commId {identity}", nnodes=2)
            log += process.whole("b0", rank, 2, f"parent 0xa0 splitCount 1 color 0 key {rank}", nnodes=2)
    assert _sizes(facts_of(log)) == [(2, 2)] * 4


def test_releases_without_id_join_by_size_and_order() -> None:
    processes, log = hosts(2, release="2.14.3")
    for rank, process in enumerate(processes):
        log += _old(process, f"a{rank}", rank, 2) + _old(process, f"b{rank}", rank, 2)
    facts = facts_of(log)
    assert _sizes(facts) == [(2, 2), (2, 2)]
    assert not any(c.ambiguous for c in facts.communicators)


def test_a_restart_in_one_file_is_another_communicator() -> None:
    log = []
    for run in range(2):
        for rank in range(2):
            process = Process(f"n{rank + 1}", 100 + 50 * run)
            log += process.version("2.14.3") + _old(process, "a1", rank, 2)
    facts = facts_of(log)
    assert _sizes(facts) == [(2, 2), (2, 2)]
    assert not any(c.ambiguous for c in facts.communicators)


def test_groups_of_one_machine_each_are_told_apart_without_id() -> None:
    processes, log = hosts(2, 2, release="2.14.3")
    for rank, process in enumerate(processes):
        log += _old(process, f"a{rank}", rank % 2, 2)
    facts = facts_of(log)
    assert sorted(c.machines for c in facts.communicators) == [("n1",), ("n2",)]


def _data_groups(device_of_peer: int) -> Facts:
    """Two groups without id over two machines, one per local GPU; the channels of GPU 0 name the GPU of their peer."""
    processes, log = hosts(2, 2, release="2.14.3")
    for rank, process in enumerate(processes):
        machine = rank // 2
        peer = process.device if process.device else device_of_peer
        buses = [process.bus, Process("", 0, peer).bus]
        log += process.say(
            f"Channel 00/0 : {machine}[{buses[0]}] -> {1 - machine}[{buses[1]}] [send] via NET/IB/0/GDRDMA"
        )
        log += _old(process, f"a{rank}", machine, 2)
    return facts_of(log)


def test_groups_of_one_gpu_per_machine_are_told_apart_without_id() -> None:
    facts = _data_groups(device_of_peer=0)
    assert _sizes(facts) == [(2, 2), (2, 2)]
    assert not any(c.ambiguous for c in facts.communicators)


def test_groups_that_channel_lines_contradict_are_ambiguous() -> None:
    facts = _data_groups(device_of_peer=1)
    assert [c.ambiguous for c in facts.communicators] == [True]


def test_one_process_with_all_gpus_holds_all_ranks() -> None:
    log = Process("n1", 100).version("2.26.2")
    for gpu in range(4):
        log += Process("n1", 100, gpu).whole(f"a{gpu}", gpu, 4, "commId 0xaa")
    (world,) = facts_of(log).communicators
    assert (world.ranks, world.machines) == ((0, 1, 2, 3), ("n1",))


def test_a_network_is_that_of_the_thread_that_makes_the_communicator() -> None:
    process = Process("n1", 100)
    log = process.version("2.26.2")
    for tid, network in ((801, "IB"), (802, "Socket")):
        start = f"comm 0x{tid} rank 0 nranks {tid} cudaDev 0 nvmlDev 0 busId 10000 commId 0x{tid} - Init START"
        texts = [f"Using network {network}", f"ncclCommInitRankConfig {start}"]
        log += process.say(*texts, tid=tid)
    assert {c.nranks: c.networks for c in facts_of(log).communicators} == {801: ("IB",), 802: ("Socket",)}


def test_a_size_that_no_job_has_tells_nothing() -> None:
    log = Process("n1", 1).init("START", "a", 0, 9223372036854775807, "commId 0xaa")
    (communicator,) = facts_of(log).communicators
    assert (communicator.nranks, facts_of(log).absent) == (None, ())
