"""How many ring channels go over which net device of a machine."""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.sharing import nic_sharing


def log(devices: str, used: list[int], ranks: int = 2, seen: int = 4, matrix: str = "") -> list[str]:
    """Two machines with two ranks each; ring channel c goes over net device used[c] at both ends."""
    lines = matrix.splitlines()
    for rank in range(seen):
        machine, local = divmod(rank, ranks)
        one = Process(f"n{machine}", 50 + rank, local)
        lines += one.say(f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.{machine + 1}<0>", "Using network IB")
        lines += one.init("START", "9", rank, 4, "commId 0xabc") + one.nodes("9", rank, 4, 2, ranks)
        if rank == 0:
            lines += one.say(*(f"Channel {c:02d}/{len(used):02d} : 0 1 2 3" for c in range(len(used))))
        for channel, device in enumerate(used):
            send = f"Channel {channel:02d}/0 : {{}} [{{}}] via NET/IB/{device}/GDRDMA"
            lines += one.say(*[send.format("1[1] -> 2[0]", "send")] * (rank == 1))
            lines += one.say(*[send.format("1[1] -> 2[0]", "receive")] * (rank == 2))
            lines += one.say(*[send.format("3[1] -> 0[0]", "send")] * (rank == 3))
            lines += one.say(*[send.format("3[1] -> 0[0]", "receive")] * (rank == 0))
        lines += one.say("Connected all rings")
    return lines


BOTH = "[0]mlx5_0:1/IB [1]mlx5_1:1/IB"


def test_a_device_that_carries_nothing_is_idle() -> None:
    first, second = nic_sharing(facts_of(log(BOTH, [0, 0])))
    assert (first.machine, second.machine) == ("n0", "n1")
    assert (first.load, first.idle, first.near, first.channels) == ({"mlx5_0": 4}, ("mlx5_1",), None, 2)
    assert first.uneven


def test_even_use_is_not_uneven() -> None:
    assert [one.uneven for one in nic_sharing(facts_of(log(BOTH, [0, 1])))] == [False, False]
    assert [one.uneven for one in nic_sharing(facts_of(log("[0]mlx5_0:1/IB", [0, 0])))] == [False, False]


def test_a_port_of_another_link_layer_is_no_candidate() -> None:
    (one, _) = nic_sharing(facts_of(log("[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE", [0, 0])))
    assert one.idle == ()


def test_only_machines_with_all_their_ranks_are_judged() -> None:
    assert [one.machine for one in nic_sharing(facts_of(log(BOTH, [0, 0], seen=3)))] == ["n0"]


def test_a_machine_that_a_ring_does_not_enter_or_leave_lacks_lines() -> None:
    lines = log(BOTH, [0, 1])
    whole = {one.machine for one in nic_sharing(facts_of(lines))}
    lost = next(line for line in lines if line.startswith("n1:") and "Channel 01" in line and "NET/IB/1" in line)
    left = {one.machine for one in nic_sharing(facts_of([line for line in lines if line != lost]))}
    assert (whole, left) == ({"n0", "n1"}, {"n0"})
