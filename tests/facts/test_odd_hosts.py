"""Which machines were measured below the others."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.odd_hosts import odd_hosts, were_compared


def table(hosts: str, busbw: float, *, size: int = 1 << 30, gpu: str = "NVIDIA H100") -> list[str]:
    """Eight ranks; hosts: a letter each."""
    each = 8 // len(hosts)
    devices = [
        f"#  Rank {rank:2d} Group  0 Pid  100{rank} on {host} device {rank % each} [0000:1{rank % each}:00] {gpu}"
        for rank, host in enumerate(host for host in hosts for _ in range(each))
    ]
    algbw = busbw / 1.75
    half = f"{size / algbw / 1e3:.1f} {algbw:.2f} {busbw:.2f} 0"
    return [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 9 step: 2(factor) warmup iters: 5 iters: 20 validation: 1",
        *devices,
        "#   size   count   type  redop   root   time  algbw  busbw #wrong   time  algbw  busbw #wrong",
        f"  {size}  {size // 4}  float  sum  -1  {half}  {half}",
        "# Out of bounds values : 0 OK",
    ]


def told(*tables: list[str]) -> list[tuple[tuple[str, ...], int]]:
    return [(one.hosts, round(100 * one.ratio)) for one in odd_hosts(facts_of(*tables))]


def test_one_of_three_is_odd() -> None:
    assert told(table("a", 400), table("b", 404), table("c", 300)) == [(("c",), 75)]


@pytest.mark.parametrize("slow", [365, 399])
def test_within_a_tenth_or_within_the_spread_is_equal(slow: float) -> None:
    assert told(table("a", 400), table("b", 404), table("c", slow)) == []
    assert told(table("a", 400), table("b", 480), table("c", 340)) == []


def test_two_of_four_are_no_odd_ones() -> None:
    assert told(table("a", 400), table("b", 401), table("c", 200), table("d", 201)) == []


def test_pairs_name_the_machine_that_all_slow_ones_have() -> None:
    well = [table("ab", 300), table("de", 302), table("be", 303), table("ad", 299)]
    assert told(*well, table("ac", 150), table("bc", 152), table("cd", 151)) == [(("c",), 50)]


def test_a_slow_pair_whose_ends_are_well_with_others_is_named_as_a_pair() -> None:
    pairs = [table("ab", 300), table("bc", 301), table("cd", 302), table("ad", 150)]
    assert told(*pairs) == [(("a", "d"), 50)]


def test_what_differs_is_not_compared() -> None:
    assert not were_compared(facts_of(table("a", 400), table("b", 404), table("c", 200, gpu="NVIDIA L40S")))
    assert not were_compared(facts_of(table("a", 400), table("b", 404), table("c", 200, size=1 << 29)))
    assert not were_compared(facts_of(*(table(host, 1.5, size=1 << 16) for host in "abc")))


def test_runs_of_one_machine_count_once_with_their_middle() -> None:
    runs = [table("a", 400), table("b", 404), table("c", 180), table("c", 398), table("c", 401)]
    assert told(*runs) == []
