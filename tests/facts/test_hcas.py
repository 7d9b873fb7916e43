"""Adapters as machines list them, and NCCL_IB_HCA as NCCL reads it."""

from __future__ import annotations

import pytest
from fact_samples import Process, facts_of

from ncclcheck.facts.filters import HcaFilter, hca_filters
from ncclcheck.facts.hcas import listings


@pytest.mark.parametrize(
    ("text", "taken", "refused"),
    [
        ("mlx5", ["mlx5_0", "mlx5_bond_0"], ["bnxt_re0"]),
        ("mlx5_1", ["mlx5_1", "mlx5_12"], ["mlx5_2"]),
        ("=mlx5_1", ["mlx5_1"], ["mlx5_12"]),
        ("^mlx5_1", ["mlx5_2"], ["mlx5_1", "mlx5_12"]),
        ("^=mlx5_1:1,mlx5_3", ["mlx5_12"], ["mlx5_1", "mlx5_3"]),
        ("=^mlx5_1", [], ["mlx5_1", "mlx5_2"]),  # a name with a caret
        ("", ["mlx5_0"], []),
    ],
)
def test_which_devices_a_filter_takes(text: str, taken: list[str], refused: list[str]) -> None:
    one = HcaFilter.parse(text)
    assert [name for name in taken + refused if one.takes(name)] == taken


def test_an_entry_matches_further_devices_by_their_number_only() -> None:
    one = HcaFilter.parse("mlx5_1,mlx5_11")
    assert {name: one.further(name) for name in ("mlx5_1", "mlx5_10", "mlx5_11")} == {
        "mlx5_1": None,
        "mlx5_10": "mlx5_1",
        "mlx5_11": None,
    }
    assert HcaFilter.parse("mlx5_").further("mlx5_1") is None
    assert HcaFilter.parse("=mlx5_1").further("mlx5_10") is None


def rank(host: str, number: int, local: int, of_machine: int, device: str, hca: str = "") -> list[str]:
    one = Process(host, 100 + number, local)
    lines = one.say(f"NCCL_IB_HCA set to {hca}") if hca else []
    lines += one.say(f"NET/IB : Using {device} [RO]; OOB eth0:10.0.0.{host[1:]}<0>")
    lines += one.init("START", "77", number, 2 * of_machine, "commId 0xabc")
    return lines + one.nodes("77", number, 2 * of_machine, 2, of_machine)


def test_lists_of_pinned_ranks_are_joined() -> None:
    log = [
        line for r in range(4) for line in rank(f"n{r // 2}", r, r % 2, 2, f"[0]mlx5_{r % 2}:1/IB", f"=mlx5_{r % 2}")
    ]
    found = listings(facts_of(log))
    assert [(one.machine, one.names, one.whole, one.pinned, one.ranks) for one in found] == [
        ("n0", ("mlx5_0", "mlx5_1"), True, True, 2),
        ("n1", ("mlx5_0", "mlx5_1"), True, True, 2),
    ]
    assert [len(one.filters) for one in hca_filters(facts_of(log))] == [2, 2]


def test_a_pinned_rank_alone_does_not_tell_what_its_machine_has() -> None:
    log = [
        line for r in range(3) for line in rank(f"n{r // 2}", r, r % 2, 2, f"[0]mlx5_{r % 2}:1/IB", f"=mlx5_{r % 2}")
    ]
    assert {one.machine: one.whole for one in listings(facts_of(log))} == {"n0": True, "n1": False}


def test_one_list_is_enough_where_nothing_is_pinned() -> None:
    log = rank("n0", 0, 0, 4, "[0]mlx5_0:1/IB [1]mlx5_1:1/IB") + rank("n1", 4, 0, 4, "[0]mlx5_0:1/IB")
    assert {one.machine: (one.whole, one.ranks) for one in listings(facts_of(log))} == {
        "n0": (True, 4),
        "n1": (True, 4),
    }


def test_ports_of_a_merged_device_are_not_listed_twice() -> None:
    one = Process("n0", 7)
    log = one.say(
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "NET/IB : Made virtual device [3] name=mlx5_0+mlx5_1 speed=400000 ndevs=2",
    )
    (found,) = listings(facts_of(log))
    assert found.names == ("mlx5_2", "mlx5_0+mlx5_1")
    assert found.devices[1].link == "IB"
