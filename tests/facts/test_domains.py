"""Ranks of one machine that are not one node."""

from __future__ import annotations

from fact_samples import facts_of

from ncclcheck.facts.domains import networked_inside


def job(hosts: list[str], addresses: list[str], local_ranks: int) -> list[str]:
    """One rank on each GPU of the hosts given, in order; rank 0 sends to rank 1 over sockets."""
    lines = ["NCCL version 2.21.5+cuda12.4"]
    for rank, (host, address) in enumerate(zip(hosts, addresses, strict=True)):
        head = f"{host}:{10 + rank}:{20 + rank} [{rank}] NCCL INFO"
        lines += [
            f"{head} Bootstrap : Using eth0:{address}<0>",
            f"{head} comm 0x{rank + 1}0 rank {rank} nranks {len(hosts)} cudaDev {rank} nvmlDev {rank}"
            f" busId {rank + 1}000 commId 0xabc - Init START",
            f"{head} comm 0x{rank + 1}0 rank {rank} nRanks {len(hosts)} nNodes 2 localRanks {local_ranks} localRank 0"
            " MNNVL 0",
        ]
    return [*lines, f"{hosts[0]}:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"]


def test_one_address_is_one_machine() -> None:
    (found,) = networked_inside(facts_of(job(["h", "h"], ["10.1.0.1", "10.1.0.1"], 1)))
    assert (found.machines, found.ranks, found.local_ranks, found.split, found.proven) == (("h",), 2, 1, True, True)
    assert found.networks == ("Socket",)


def test_a_name_alone_is_no_proof() -> None:
    (found,) = networked_inside(facts_of(job(["h", "h"], ["x.x.x.x", "x.x.x.x"], 1)))
    assert not found.proven


def test_as_many_ranks_as_nccl_counts_is_a_choice() -> None:
    (found,) = networked_inside(facts_of(job(["h", "h"], ["10.1.0.1", "10.1.0.1"], 2)))
    assert found.split is False


def test_two_addresses_of_one_name_are_two_machines() -> None:
    assert networked_inside(facts_of(job(["h", "h"], ["10.1.0.1", "10.1.0.2"], 1))) == ()
