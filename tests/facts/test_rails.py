"""Do ring edges between machines keep their rail?"""

from __future__ import annotations

import polars as pl
from fact_samples import facts_of, hosts, net, ring

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.rails import RingRails

Ends = tuple[int | str, int | str]  # NIC of the sender, NIC of the receiver


def _list(*names: str) -> str:
    return (
        "NET/IB : Using "
        + " ".join(f"[{i}]{name}:1/IB" for i, name in enumerate(names))
        + " [RO]; OOB eth0:10.0.0.9<0>"
    )


def _facts(
    nodes: int,
    channels: list[list[Ends]],
    lists: list[list[str]] | None = None,
    more: tuple[str, ...] = (),
    seen: int | None = None,
) -> Facts:
    """Rings of one GPU per node: per channel the two NICs of the edge that leaves each node in turn."""
    processes, log = hosts(nodes)
    for rank, process in enumerate(processes[:seen]):
        names = lists[rank] if lists else ["mlx5_0", "mlx5_1"]
        log += process.say(_list(*names)) if names else []
        log += process.say(*more)
        whole = process.whole("a", rank, nodes, "commId 0xaa", nnodes=nodes)
        order = (
            [ring(*range(nodes), channel=c, channels=len(channels)) for c in range(len(channels))] if rank == 0 else []
        )
        log += [*whole[:2], *process.say(*order), whole[2]]
        for channel, edges in enumerate(channels):
            before, after = (rank - 1) % nodes, (rank + 1) % nodes
            log += process.say(net(channel, before, rank, "receive", edges[before][1]), tid=900)
            log += process.say(net(channel, rank, after, "send", edges[rank][0]), tid=900)
    return facts_of(log)


def _rails(*arguments: object, **more: object) -> RingRails:
    rails = _facts(*arguments, **more).ring_rails  # type: ignore[arg-type]
    assert rails is not None
    return rails


KEPT: list[list[Ends]] = [[(0, 0)] * 3, [(1, 1)] * 3]


def test_rails_that_are_kept() -> None:
    rails = _rails(3, KEPT)
    assert (rails.channels, rails.crossing, rails.matched, rails.basis) == (2, 0, 6, "device names")
    assert (rails.nics_per_machine, rails.inferred, rails.contradicted) == (2, False, False)


def test_rails_that_are_left() -> None:
    rails = _rails(2, [[(0, 1), (0, 1)], [(1, 1), (1, 1)]])
    assert (rails.channels, rails.crossing, rails.share) == (2, 1, 0.5)
    assert rails.evidence


def test_the_proxy_of_a_send_is_no_nic() -> None:
    rails = _rails(2, [[("0(0)", 0), ("0(1)", 0)], [("1(0)", 1), ("1(1)", 1)]])
    assert (rails.channels, rails.crossing) == (2, 0)


def test_the_same_index_is_another_device_where_lists_are_in_another_order() -> None:
    rails = _rails(2, [[(0, 0), (0, 0)], [(1, 1), (1, 1)]], lists=[["mlx5_0", "mlx5_1"], ["mlx5_1", "mlx5_0"]])
    assert (rails.basis, rails.crossing, rails.names_differ) == ("device names", 2, False)


def test_differently_named_devices_go_by_pci_order() -> None:
    lists = [["mlx5_0", "mlx5_1"], ["mlx5_2", "mlx5_3"]]
    facts = _facts(2, [[(0, 0), (0, 0)], [(1, 1), (1, 1)]], lists=lists)
    with_pci = [
        f"NET/IB: [{i}] {name}:uverbs{i}:1/IB provider=Mlx5 speed=400000 context=0x7f21a4001c00"
        f" pciPath=/sys/devices/0000:{10 + i}:00.0 ar=1"
        for names in lists[:1]
        for i, name in enumerate(names)
    ]
    assert facts.ring_rails and facts.ring_rails.basis != "PCI order"
    rails = _rails(2, [[(0, 0), (0, 0)], [(1, 1), (1, 1)]], lists=lists, more=tuple(with_pci))
    assert (rails.basis, rails.crossing, rails.names_differ) == ("PCI order", 0, True)


def test_devices_without_names_go_by_the_gpus_that_use_them() -> None:
    """EFA and TCPX list no names: two GPUs per node, NIC i beside GPU i."""
    for brackets in (("0", "1"), ("10000", "18000")):
        log = []
        for rank, process in enumerate(hosts(2, 2)[0]):
            peer, nic = (rank + 2) % 4, rank % 2
            ends = [f"{rank}[{brackets[nic]}]", f"{peer}[{brackets[nic]}]"]
            log += process.say(
                f"Channel 0{nic}/0 : {ends[1]} -> {ends[0]} [receive] via NET/FasTrak/{nic}",
                f"Channel 0{nic}/0 : {ends[0]} -> {ends[1]} [send] via NET/FasTrak/{nic}",
                "Connected all rings",
            )
        rails = facts_of(log).ring_rails
        assert rails and (rails.basis, rails.channels, rails.crossing) == ("order of GPUs", 2, 0)


def test_rail_numbers_of_the_list_come_first() -> None:
    names = ("NET/IB : Using [0]mlx5_0:1:1:0/RoCE [1]mlx5_1:1:0:0/RoCE [RO]; OOB eth0:10.0.0.9<0>",)
    rails = _rails(2, [[(0, 0), (0, 0)], [(1, 1), (1, 1)]], lists=[[], []], more=names)
    assert (rails.basis, rails.crossing) == ("rail numbers", 0)


def test_names_that_sit_beside_other_gpus_contradict_the_order_of_gpus() -> None:
    """The same names on both machines, but counted the other way round."""
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        local, peer = rank % 2, (rank + 2) % 4
        nic = local if rank < 2 else 1 - local
        log += process.say(_list("mlx5_0", "mlx5_1"))
        log += process.whole("a", rank, 4, "commId 0xaa", nnodes=2)
        log += process.say(
            net(local, peer, rank, "receive", nic, (local, local)), net(local, rank, peer, "send", nic, (local, local)),
            "Connected all rings, use ring PXN 0 GDR 1", tid=900,
        )  # fmt: skip
    rails = facts_of(log).ring_rails
    assert rails and (rails.basis, rails.contradicted, rails.crossing) == ("device names", True, 2)


def test_alternating_rings_keep_their_rails() -> None:
    """Even nodes leave by 1 on channel 0, odd nodes by 0: exit meets entry."""
    rails = _rails(2, [[(1, 1), (0, 0)], [(0, 0), (1, 1)]])
    assert (rails.channels, rails.crossing, rails.odd_wrap) == (2, 0, False)


ODD: list[list[Ends]] = [[(1, 1), (0, 0), (1, 0)], [(0, 0), (1, 1), (0, 1)]]


def test_alternating_rings_over_an_odd_number_of_nodes_cross_at_the_wrap() -> None:
    pattern = "Pattern 4, crossNic 2, nChannels 2, bw 20.0/20.0, type NVL/PIX, sameChannels 0"
    for more in ((), (pattern,)):
        rails = _rails(3, ODD, more=more)
        assert (rails.channels, rails.crossing, rails.odd_wrap) == (2, 0, True)


def test_a_crossing_pair_is_no_wrap_where_nothing_alternates() -> None:
    pattern = "Pattern 4, crossNic 0, nChannels 2, bw 20.0/20.0, type NVL/PIX, sameChannels 0"
    assert _rails(3, ODD, more=(pattern,)).crossing == 2
    one_node_leaves_elsewhere: list[list[Ends]] = [[(0, 0), (0, 0), (1, 0)], [(1, 1), (1, 1), (0, 1)]]
    assert _rails(3, one_node_leaves_elsewhere).crossing == 2


def test_one_side_tells_where_a_node_leaves_as_it_enters() -> None:
    rails = _rails(3, KEPT, seen=1)
    assert (rails.inferred, rails.channels, rails.crossing) == (True, 2, 0)


def test_one_side_crosses_where_a_node_leaves_by_another_nic() -> None:
    rails = _rails(2, [[(0, 1), (0, 1)]], seen=1)
    assert (rails.inferred, rails.channels, rails.crossing) == (True, 1, 1)


def test_trees_are_no_rings() -> None:
    """Where rank 0 prints the order, only neighbours count; a tree joins rank 0 and 2 of four through other NICs."""
    processes, log = hosts(4)
    for rank, process in enumerate(processes):
        whole = process.whole("a", rank, 4, "commId 0xaa", nnodes=4)
        log += [
            *whole[:2],
            *process.say(_list("mlx5_0", "mlx5_1")),
            *process.say(*[ring(0, 1, 2, 3)] * (rank == 0)),
            whole[2],
        ]
        log += process.say(net(0, (rank - 1) % 4, rank, "receive", 0), net(0, rank, (rank + 1) % 4, "send", 0), tid=900)
    log += processes[0].say(net(0, 0, 2, "send", 0), tid=900) + processes[2].say(net(0, 0, 2, "receive", 1), tid=900)
    rails = facts_of(log).ring_rails
    assert rails and (rails.matched, rails.crossing) == (4, 0)


def test_without_the_order_rings_are_what_comes_before_they_are_connected() -> None:
    """Rank 0 is not in the input."""
    processes, log = hosts(3)
    for rank, process in list(enumerate(processes))[1:]:
        way, edge = ("send", "receive")[rank - 1], (1, 2)
        log += process.say(_list("mlx5_0", "mlx5_1")) + process.whole("a", rank, 3, "commId 0xaa", nnodes=3)
        log += process.say(
            net(0, *edge, way, 0), "Connected all rings", net(1, *edge, way, rank - 1), "Connected all trees", tid=900
        )
    rails = facts_of(log).ring_rails
    assert rails and (rails.channels, rails.crossing) == (1, 0)


def test_a_cut_ring_order_is_not_closed() -> None:
    processes, log = hosts(3)
    for rank, process in enumerate(processes):
        whole = process.whole("a", rank, 3, "commId 0xaa", nnodes=3)
        log += [*whole[:2], *process.say(*["Channel 00/01 : 0 1 ..."] * (rank == 0)), whole[2]]
        log += process.say(net(0, (rank - 1) % 3, rank, "receive", 0), net(0, rank, (rank + 1) % 3, "send", 0), tid=900)
        log += process.say("Connected all rings", tid=900)
    rails = facts_of(log).ring_rails
    assert rails and rails.matched == 3


def test_send_and_receive_channels_are_no_rings() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.whole("a", rank, 2, "commId 0xaa", nnodes=2)
        log += process.say(
            f"Channel 00/1 : 0[0] -> 1[0] [{('send', 'receive')[rank]}] via NET/IB/{rank}",
            "Connected all rings",
            tid=900,
        )
    assert facts_of(log).ring_rails is None


def test_groups_that_look_alike_are_not_joined_across() -> None:
    """Two groups of the same size over the same machines, one per GPU: edges are joined by their GPUs."""
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        machine, local = divmod(rank, 2)
        log += process.say(_list("mlx5_0", "mlx5_1")) + process.whole(
            f"a{rank}", machine, 2, f"commId 0x{local}", nnodes=2
        )
        log += process.say(
            net(0, 0, 1, ("send", "receive")[machine], local, (local, local)), "Connected all rings", tid=900
        )
    rails = facts_of(log).ring_rails
    assert rails and (rails.channels, rails.crossing) == (2, 0)


def test_one_edge_through_two_devices_is_left_out() -> None:
    """Two communicators over the same GPUs that took other NICs: which line is whose cannot be told."""
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.say(_list("mlx5_0", "mlx5_1"))
        for pointer in ("a", "b"):
            log += process.whole(pointer, rank, 2, f"commId 0x{pointer}", nnodes=2)
        for nic in range(2):
            log += process.say(net(0, 0, 1, ("send", "receive")[rank], nic), tid=900)
        log += process.say("Connected all rings", tid=900)
    assert facts_of(log).ring_rails is None


def test_crossing_between_machines_is_told_once_for_communicators_of_one_kind() -> None:
    edges = _facts(2, [[(0, 1), (0, 1)]]).edge_table.filter(pl.col("transport") == "NET")
    assert edges.get_column("like").null_count() == 0
