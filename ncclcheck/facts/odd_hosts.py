"""Is one machine, or one pair, slower than others that were measured in the same way?

nccl-tests is run on each machine of a cluster alone, or on each pair. Where at least three sets of machines of one GPU
model reached their busbw at the same size with the same collective and ranks, one that falls out of the others' spread
is odd. Where several sets are slow and one machine is in all of them, and in no other, it is that machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question

_FEWEST = 3
# A healthy machine comes within a few percent of its siblings; runs differ by a percent or two.
_ODD = 0.9
# So many times the spread of the others it must be off.
_CLEAR = 2.0
# Below this size latency decides, and latency varies.
_SMALLEST = 8 << 20


class Odd(NamedTuple):
    """hosts: the machine or the machines that are slow, in natural words. busbw: the middle of their measurements in
    GB/s; others, least, most: of the rest, which are `compared` measurements. size: bytes."""

    hosts: tuple[str, ...]
    collective: str
    ranks: int
    size: int
    busbw: float
    others: float
    least: float
    most: float
    compared: int
    evidence: tuple[Evidence, ...]

    @property
    def ratio(self) -> float:
        return self.busbw / self.others


class _Set(NamedTuple):
    hosts: tuple[str, ...]
    busbw: float
    at: tuple[int, int]


@question
def odd_hosts(facts: Printed) -> tuple[Odd, ...]:
    """The largest size that a collective was measured at on all sets counts."""
    found = []
    for (collective, ranks, _, _, size), sets in _comparable(facts).items():
        slow = _slow(sets)
        if slow:
            rest = [one for one in sets if one not in slow]
            rates = [one.busbw for one in rest]
            found.append(
                Odd(
                    _culprits(slow, rest), collective, ranks, size, median(one.busbw for one in slow), median(rates),
                    min(rates), max(rates), len(rest), tuple(facts.evidence(*one.at) for one in slow[:2]),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.ratio))


@question
def were_compared(facts: Printed) -> bool:
    """Were three sets of machines or more measured in the same way?"""
    return bool(_comparable(facts))


_Key = tuple[str, int, int, str, int]


@question
def _comparable(facts: Printed) -> dict[_Key, list[_Set]]:
    """Sets of machines by collective, ranks, nodes, GPU model and size: of the largest size of each."""
    look = ["collective", "ranks", "nodes", "gpu"]
    rows = facts["measurements"].filter(
        pl.col("refused").is_null()
        & (pl.col("busbw") > 0)
        & (pl.col("size") >= _SMALLEST)
        & (pl.col("wrong").fill_null(0) == 0)
        & (pl.col("hosts").list.len() > 0)
        & (pl.col("ranks") > 1)
    )
    if rows.height == 0:
        return {}
    rows = rows.drop_nulls(look).with_columns(pl.col("hosts").list.sort().list.join(","))
    each = rows.group_by(*look, "size", "hosts", maintain_order=True).agg(
        pl.col("busbw").median(), pl.col("source").first(), pl.col("line").first()
    )
    each = each.filter(pl.len().over(*look, "size") >= _FEWEST)
    each = each.filter(pl.col("size") == pl.col("size").max().over(look))
    found: dict[_Key, list[_Set]] = {}
    for collective, ranks, nodes, gpu, size, hosts, busbw, source, line in each.iter_rows():
        one = _Set(tuple(hosts.split(",")), busbw, (source, line))
        found.setdefault((collective, ranks, nodes, gpu, size), []).append(one)
    return found


def _slow(sets: Sequence[_Set]) -> list[_Set]:
    """Sets under the others and well out of their spread: a minority, slowest first."""
    ordered = sorted(sets, key=lambda one: one.busbw)
    gaps = [(after.busbw / before.busbw, at + 1) for at, (before, after) in enumerate(pairwise(ordered))]
    _, many = max(gaps)
    slow, rest = ordered[:many], ordered[many:]
    if len(slow) >= len(rest) or len(rest) < _FEWEST - 1:
        return []
    middle = median(one.busbw for one in rest)
    spread = (rest[-1].busbw - rest[0].busbw) / middle
    off = 1 - slow[-1].busbw / middle
    return slow if slow[-1].busbw < _ODD * middle and off > _CLEAR * spread else []


def _culprits(slow: Sequence[_Set], rest: Sequence[_Set]) -> tuple[str, ...]:
    """Machines that are in every slow set and in no other; all of the slow ones where no machine is."""
    well = {host for one in rest for host in one.hosts}
    in_all = set(slow[0].hosts).intersection(*(one.hosts for one in slow)) - well
    if in_all and len(slow) > 1:
        return tuple(sorted(in_all))
    suspects = {host for one in slow for host in one.hosts}
    return tuple(sorted(suspects - well or suspects))
