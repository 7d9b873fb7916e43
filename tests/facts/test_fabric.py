"""What the driver and NCCL say of NVLink between machines, of NVLS, of GPUDirect RDMA and of the machines' build."""

from __future__ import annotations

import pytest
from fact_samples import facts_of, hosts

from ncclcheck.facts.fabric import cliques, divided_domains, fabric_states, mixed_flags
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.gdr import path_type, too_far
from ncclcheck.facts.inventory import inventories, usual
from ncclcheck.facts.nvls import nvls_failures


def _fabric(uuid: str, clique: str = "0x7ffe", state: int = 3) -> str:
    return f"MNNVL busId 0x901000 fabric UUID {uuid} cliqueId {clique} state {state} healthMask 0x1aa"


def _two_machines(uuids: tuple[str, str], cliques: tuple[str, str] = ("0x7ffe", "0x7ffe"), mnnvl: int = 0) -> Facts:
    processes, log = hosts(2, 2)
    for rank, process in enumerate(processes):
        log += process.say(_fabric(uuids[rank // 2], cliques[rank // 2]))
        log += process.whole(f"a{rank}", rank, 4, "commId 0xaa", nnodes=2, local=2, mnnvl=mnnvl)
    return facts_of(log)


def test_a_uuid_of_zero_is_no_domain() -> None:
    states = fabric_states(_two_machines(("0.0", "5f2c.0")))
    assert [(one.cluster, one.machines, one.gpus, one.health) for one in states] == [
        ("", ("n1",), 2, 0x1AA),
        ("0x5f2c.0x0", ("n2",), 2, 0x1AA),
    ]


@pytest.mark.parametrize(
    ("uuids", "ids", "found"),
    [
        (("5f2c.81aa", "5f2c.81aa"), ("0x7ffe", "0x7ffe"), [(("n1", "n2"), 1)]),
        (("5f2c.81aa", "5f2c.81aa"), ("0x11", "0x12"), [(("n1", "n2"), 2)]),
        (("5f2c.81aa", "6a01.77bc"), ("0x7ffe", "0x7ffe"), []),  # two racks
        (("0.0", "0.0"), ("0x0", "0x0"), []),  # HGX
    ],
)
def test_machines_of_one_domain_that_are_two_nodes(
    uuids: tuple[str, str], ids: tuple[str, str], found: list[tuple[tuple[str, ...], int]]
) -> None:
    assert [(one.machines, one.cliques) for one in divided_domains(_two_machines(uuids, ids))] == found


def test_a_domain_in_use_is_not_divided() -> None:
    assert divided_domains(_two_machines(("5f2c.81aa", "5f2c.81aa"), mnnvl=1)) == ()


def test_ranks_that_disagree_on_nvlink_between_machines() -> None:
    processes, log = hosts(2)
    for rank, process in enumerate(processes):
        log += process.whole(f"a{rank}", rank, 2, "commId 0xaa", nnodes=2, local=1, mnnvl=1 - rank)
    assert [(one.without, one.beside) for one in mixed_flags(facts_of(log))] == [(("n2",), ("n1",))]


def test_the_size_of_a_domain_is_known_from_2_30() -> None:
    processes, log = hosts(1, 2)
    log += processes[0].say("MNNVL 1 cliqueId 7ffe cliqueSize 4 cliqueRank 0 nvlDomainSize 8")
    log += processes[1].say("MNNVL 1 cliqueId 7ffe cliqueSize 4 cliqueRank 1 ")
    assert [(one.size, one.domain) for one in cliques(facts_of(log))] == [(4, 8), (4, None)]


@pytest.mark.parametrize(
    ("where", "error", "behind", "found"),
    [
        ("transport/nvls.cc:301", "Cuda failure 801 'operation not supported'", "", True),
        ("include/alloc.h:215", "Cuda failure 1 'invalid argument'", "transport/nvls.cc:254 -> 1", True),
        ("include/alloc.h:215", "Cuda failure 1 'invalid argument'", "transport/p2p.cc:254 -> 1", False),
        ("transport/nvls.cc:301", "Cuda failure 2 'out of memory'", "", False),
        ("transport/p2p.cc:301", "Cuda failure 801 'operation not supported'", "", False),
    ],
)
def test_failures_of_nvls(where: str, error: str, behind: str, found: bool) -> None:
    processes, log = hosts(1)
    log.append(f"n1:100:800 [0] {where} NCCL WARN {error}")
    log += processes[0].say(*([behind] if behind else []))
    assert bool(nvls_failures(facts_of(log))) is found


@pytest.mark.parametrize(
    ("release", "number", "name"),
    [
        (20408, 2, "PHB"), (20507, 4, "SYS"), (20708, 5, "SYS"), (20804, 5, "PHB"), (21207, 5, "PXN"),
        (21805, 7, "SYS"), (22605, 8, "SYS"), (22703, 7, "P2C"), (22705, 6, "P2C"), (22907, 9, "SYS"), (22907, 99, ""),
        (None, 4, ""),
    ],
)  # fmt: skip
def test_path_types_by_release(release: int | None, number: int, name: str) -> None:
    assert path_type(release, number) == name


def test_a_machine_with_one_good_pair_is_not_far_everywhere() -> None:
    processes, log = hosts(2, 1, "2.20.5")
    log += processes[0].say("GPU Direct RDMA Enabled for GPU 1000 / HCA 0 (distance 3 <= 4), read 1")
    log += processes[0].say("GPU Direct RDMA Disabled for GPU 1000 / HCA 1 (distance 7 > 4)")
    log += processes[1].say("GPU Direct RDMA Disabled for GPU 1000 / HCA 1 (distance 7 > 4)")
    assert [(one.machines, one.everywhere) for one in too_far(facts_of(log))] == [(("n2",), True), (("n1",), False)]


def _dump(total: float, whole: bool = True) -> list[str]:
    lines = ["CPU/0 (1/1/2)", "+ PCI[48.0] - GPU/1B000 (0)"]
    lines += [f"              + NVL[{part:.1f}] - NVS/{at}" for at, part in enumerate((total - 100, 100.0))]
    pattern = "Pattern 4, crossNic 0, nChannels 2, bw 40.000000/40.000000, type NVL/PXB, sameChannels 1"
    return [*lines, "+ PCI[48.0] - NIC/1C000", "              + NET[50.0] - NET/0 (a08/1/50.000000)"] + [
        pattern
    ] * whole


def test_machines_by_what_their_dumps_add_up_to() -> None:
    processes, log = hosts(3)
    for rank, process in enumerate(processes):
        log += process.say(*_dump(370.8 - 41.2 * (rank == 1), whole=rank < 2))
        log += process.whole(f"a{rank}", rank, 3, "commId 0xaa", nnodes=3, local=1)
    found = inventories(facts_of(log))  # the third dump is cut
    assert [(one.machine, one.nvlinks, one.pci, one.nets) for one in found] == [
        ("n1", (("1B000", 370.8),), (48.0,), (50.0,)),
        ("n2", (("1B000", 329.6),), (48.0,), (50.0,)),
    ]


def test_the_usual_is_what_most_have_and_else_the_higher() -> None:
    assert usual([(1.0,), (2.0,), (1.0,)]) == (1.0,)
    assert usual([(1.0,), (2.0,)]) == (2.0,)
