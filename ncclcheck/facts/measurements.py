"""What nccl-tests measured, and whether it is this job's.

The plateau is the busbw of the largest size: the average that the test prints counts its smallest messages, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclcheck.facts.measured import Measured
from ncclcheck.facts.question import question

if TYPE_CHECKING:
    from ncclcheck.facts.facts import Facts

# Sizes from which on latency no longer shows.
_ENOUGH_ON_A_NODE = 128 << 20
_ENOUGH = 1 << 30
# What a ring carries at one busbw: where the ring limits an all_reduce, these tell its plateau.
_OF_RINGS = ("all_gather", "reduce_scatter", "broadcast", "reduce")
_HOST = re.compile(r"[\w.-]+", re.ASCII)
_NO_HOST = "localhost"


@question
def plateaus(facts: Facts) -> tuple[Measured, ...]:
    """The plateau of every collective, world and input, all_reduce first. Runs of one rank measure no network, rows
    with wrong results nothing at all."""
    rows = facts["measurements"].filter(
        pl.col("refused").is_null()
        & pl.col("busbw").is_not_null()
        & (pl.col("size") > 0)
        & (pl.col("ranks").fill_null(2) > 1)
        & (pl.col("wrong").fill_null(0) == 0)
        & pl.col("collective").is_not_null()
    )
    if rows.height == 0:
        return ()
    key = ["source", "collective", "ranks", "nodes", "hosts"]
    rows = rows.with_columns(pl.col("hosts").list.join(","))
    rows = rows.with_columns(smallest=pl.col("size").min().over(key), largest=pl.col("size").max().over(key))
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows.filter(pl.col("size") == pl.col("largest")).sort("busbw").iter_rows(named=True):
        groups.setdefault(tuple(row[name] for name in key), []).append(row)
    found = [_plateau(facts, same) for same in groups.values()]
    return tuple(sorted(found, key=lambda one: (one.collective != "all_reduce", one.collective, one.evidence)))


@question
def of_this_job(facts: Facts) -> Measured | None:
    """The plateau that tells what this job's collectives reach: an all_reduce, or else a collective of rings, among as
    many ranks on as many nodes and on no other hosts. Several runs: one between the slowest and the fastest."""
    known = [one for one in plateaus(facts) if one.is_plateau and _is_of(facts, one)]
    for collective in ("all_reduce", *_OF_RINGS):
        same = sorted((one for one in known if one.collective == collective), key=lambda one: one.busbw)
        if same:
            middle = same[(len(same) - 1) // 2]
            return middle._replace(least=min(one.least for one in same), most=max(one.most for one in same))
    return None


def _plateau(facts: Facts, rows: Sequence[dict[str, Any]]) -> Measured:
    """rows: of the largest size, by busbw."""
    middle = rows[(len(rows) - 1) // 2]
    nodes, world = middle["nodes"], facts.world
    if nodes is None and world is not None and world.nranks == middle["ranks"]:
        nodes = world.nnodes
    hosts = tuple(middle["hosts"].split(",")) if middle["hosts"] else ()
    return Measured(
        collective=middle["collective"],
        busbw=middle["busbw"],
        least=rows[0]["busbw"],
        most=rows[-1]["busbw"],
        smallest=middle["smallest"],
        size=middle["size"],
        enough=middle["size"] >= (_ENOUGH_ON_A_NODE if nodes == 1 else _ENOUGH),
        checked=all(row["wrong"] is not None for row in rows),
        ranks=middle["ranks"],
        nodes=nodes,
        hosts=hosts,
        evidence=facts.evidence(middle["source"], middle["line"]),
    )


def _is_of(facts: Facts, measured: Measured) -> bool:
    world = facts.world
    if world is None or world.nranks is None:
        return measured.ranks is not None and len({(one.ranks, one.nodes) for one in plateaus(facts)}) == 1
    if measured.ranks is None:  # busbw and algbw have too few digits to tell: beside the only job there is
        return facts.jobs == 1 and measured.evidence.path in {line.path for line in world.evidence}
    if world.nranks != measured.ranks or not _agree(world.nnodes, measured.nodes):
        return False
    listed = {host.partition(".")[0] for host in measured.hosts}
    ours = {machine.partition(".")[0] for machine in facts.machines}
    comparable = all(_HOST.fullmatch(host) and host != _NO_HOST for host in listed)
    return not (listed and ours and comparable) or bool(listed & ours)


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
