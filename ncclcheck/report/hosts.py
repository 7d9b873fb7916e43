"""Many host names in little room: `gpu-[001-064]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_FOLDABLE = re.compile(r"(?=.*[0-9])(?!.*[0-9]{19})[A-Za-z0-9._-]{1,255}\Z")
"""Brackets, commas, `@`, `!`, `^`, `%` and spaces are operators of node sets; no host name has them."""

_LAST_NUMBER = re.compile(r"(?P<before>.*?)(?P<number>[0-9]+)(?P<after>[^0-9]*)\Z")

_MANY = 100
"""Folding over several numbers of a name at once (`r[1-2]-n[0-7]`) takes seconds for a thousand scattered names."""


def fold(names: Iterable[str]) -> str:
    """The names, each once, sorted and folded. One that could mean something else to a node set stands as it is."""
    return _fold(frozenset(names))


@lru_cache(maxsize=64)  # findings and the picture of a job speak of the same few sets of hosts
def _fold(names: frozenset[str]) -> str:
    unique = sorted(name for name in names if name)
    foldable = [name for name in unique if _FOLDABLE.match(name)]
    plain = [name for name in unique if not _FOLDABLE.match(name)]
    if len(foldable) < 2:
        return ",".join(unique)
    folded = _by_last_number(foldable)
    if len(folded) > 1 and len(foldable) <= _MANY:
        folded = _by_all_numbers(foldable)
    return ",".join([*folded, *plain])


def _by_all_numbers(names: list[str]) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    nodes = NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP)
    return [str(nodes)] if len(nodes) == len(names) else names  # else it took two names for one


def _by_last_number(names: list[str]) -> list[str]:
    from ClusterShell.RangeSet import RangeSet

    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        match = _LAST_NUMBER.match(name)
        assert match is not None  # foldable names have a number
        groups.setdefault((match["before"], match["after"]), []).append(match["number"])
    folded = []
    for (before, after), numbers in groups.items():
        ranges = str(RangeSet.fromlist(numbers)) if len(numbers) > 1 else numbers[0]
        folded.append(f"{before}[{ranges}]{after}" if len(numbers) > 1 else f"{before}{ranges}{after}")
    return folded
