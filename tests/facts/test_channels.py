"""Channels of communicators, and the net devices that they could use."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.channels import channel_counts, usable
from ncclcheck.facts.seen import Nic


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["mlx5_0", "mlx5_1", "mlx5_0+mlx5_1"], 1),  # a merged device stands beside its parts
        (["mlx5_0", "mlx5_0:2", "mlx5_3"], 2),  # two ports of one card
        (["hfi1_0", "hfi1_1", "hfi1_2"], 3),
        ([], 0),
    ],
)
def test_a_card_counts_once(names: list[str], count: int) -> None:
    assert len(usable([Nic(index, name, "IB", None) for index, name in enumerate(names)])) == count


def test_the_most_common_kind_of_card_counts() -> None:
    compute = [Nic(index, f"mlx5_{index}", "IB", 400.0) for index in range(4)]
    assert len(usable([*compute, Nic(4, "mlx5_4", "RoCE", 100.0), Nic(5, "mlx5_5", "IB", 100.0)])) == 4


def test_every_rank_says_how_many_channels_it_has() -> None:
    lines = []
    for rank, coll in ((0, 4), (1, 4), (2, 2)):
        head = f"n{rank}:{10 + rank}:{20 + rank} [0] NCCL INFO"
        comm = f"comm 0x{rank + 1}0 rank {rank} nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc"
        lines += [
            f"{head} {comm} - Init START",
            f"{head} {coll} coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
            f"{head} {comm} - Init COMPLETE",
        ]
    (found,) = channel_counts(facts_of(lines))
    assert found.counts == (2, 4)
    assert [evidence.line for evidence in found.evidence] == [8, 2]
    assert (found.gpus, found.devices) == (1, 0)


def test_a_second_communicator_that_the_log_cuts_off_is_not_the_first() -> None:
    head, comm = "n0:10:20 [0] NCCL INFO", "comm 0x10 rank 0 nranks 2 cudaDev 0 busId 1000"
    tail = "coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer"
    (found,) = channel_counts(facts_of([f"{head} 4 {tail}", f"{head} {comm} - Init COMPLETE", f"{head} 2 {tail}"]))
    assert found.counts == (4,)
