"""Communicators that would fit one node."""

from __future__ import annotations

from collections.abc import Iterator

from fact_samples import facts_of

from ncclcheck.facts.groups import nodes_known, spanning_groups


def group(ranks: list[int], comm: int, nodes: int, local: int, hosts: list[str]) -> Iterator[str]:
    """START, node count and COMPLETE of one communicator: its n-th rank is on the n-th host."""
    for rank, (world, host) in enumerate(zip(ranks, hosts, strict=True)):
        head = f"{host}:{100 + world}:{200 + world} [{world % 4}] NCCL INFO"
        who = f"comm 0x{comm:x}{world:x}0 rank {rank}"
        ident = (
            f"nranks {len(ranks)} cudaDev {world % 4} nvmlDev {world % 4} busId {world % 4 + 1}000 commId 0x{comm:x}"
        )
        yield f"{head} ncclCommInitRank {who} {ident} - Init START"
        yield f"{head} {who} nRanks {len(ranks)} nNodes {nodes} localRanks {local} localRank 0 MNNVL 0"
        yield f"{head} ncclCommInitRank {who} {ident} - Init COMPLETE"


BLOCK, CYCLIC = ["a", "a", "b", "b"], ["a", "b", "a", "b"]


def test_ranks_of_a_host_that_are_not_consecutive() -> None:
    world = list(group([0, 1, 2, 3], 0xA, 2, 2, CYCLIC))
    assert spanning_groups(facts_of(world)) == ()  # the world itself is larger than a node
    eight = [*group(list(range(8)), 0xA, 2, 4, ["a", "b"] * 4), *group([0, 1, 2, 3], 0xB, 2, 2, CYCLIC)]
    (found,) = spanning_groups(facts_of(eight))
    assert (found.nranks, found.nnodes, found.local_ranks, found.per_node) == (4, 2, 2, 4)
    assert found.interleaved


def test_a_group_beside_groups_inside_the_node_may_be_the_plan() -> None:
    hosts = ["a"] * 4 + ["b"] * 4
    lines = [
        *group(list(range(8)), 0xA, 2, 4, hosts),
        *group([0, 2, 4, 6], 0xB, 2, 2, BLOCK),
        *group([0, 1], 0xC, 1, 2, ["a", "a"]),
    ]
    (found,) = spanning_groups(facts_of(lines))
    assert (found.interleaved, found.beside_inner) == (False, True)


def test_one_rank_without_a_node_count_leaves_the_question_open() -> None:
    lines = list(group([0, 1, 2, 3], 0xA, 2, 2, BLOCK))
    assert nodes_known(facts_of(lines))
    assert not nodes_known(facts_of([line for line in lines if "nNodes" not in line][:6]))
