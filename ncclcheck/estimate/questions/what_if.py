"""A job beside what changes make of it, at any message size.

Every number before and after a change comes from the model itself, configuration by configuration: limits hide each
other, so factors are never multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ncclcheck.estimate.comparison import Pair, busbw, middle, most_common
from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.model import Model, Plateau, call_seconds
from ncclcheck.estimate.questions.changes import Change, apply
from ncclcheck.estimate.ranges import Range, least, spread
from ncclcheck.facts.busbw import busbw_factor

LATENCY = "latency"  # the limit of a message that waits longer than its bytes need


class Point(NamedTuple):
    """One message size: seconds per call, GB/s, the limits that bind and the algorithms, most common first."""

    size: int
    seconds: Range
    algbw: Range
    busbw: Range
    limit: str
    algorithm: str


class Rung(NamedTuple):
    """One change of several: the job with it alone, and with all the others but it."""

    change: Change
    alone: Point
    mended: Point


class Compared:
    """Every configuration of a job beside what changes make of it."""

    def __init__(self, model: Model, configs: Iterable[Config], changes: Sequence[Change]) -> None:
        self.model = model
        self.pairs = [(config, after) for config in configs for after in apply(changes, config, model.table)]
        self.changes = changes
        self.loses = all(change.loses for change in changes)

    def sides(self, size: int) -> list[Pair]:
        """Raises NotModelledError if no configuration has a number; else those without one are left out."""
        sides, refusal = [], NotModelledError("no configuration fits")
        for before, after in self.pairs:
            try:
                healthy = self.model.at(before, size)
                actual = healthy if after == before else self.model.at(after, size)
            except NotModelledError as error:
                refusal = error
                continue
            if self.loses:
                actual = _no_better(healthy, actual)
            sides.append(Pair(before, after, healthy, actual, before.ranks))
        if not sides:
            raise refusal
        return sides

    def at(self, size: int) -> tuple[Point, Point]:
        """Before and after."""
        sides = self.sides(size)
        return (
            self._point([(side.before, side.healthy) for side in sides], size),
            self._point([(side.after, side.actual) for side in sides], size),
        )

    def slowdown(self, size: int) -> Range:
        """Before / after, configuration by configuration; below 1 is a gain."""
        return spread([side.slowdown() if self.loses else side.ratio() for side in self.sides(size)])

    def middle(self, size: int) -> Pair:
        return middle(self.sides(size))

    def _point(self, reached: Sequence[tuple[Config, Plateau]], size: int) -> Point:
        return Point(
            size,
            spread([call_seconds(one.busbw, size, config.collective, config.ranks) for config, one in reached]),
            spread([one.busbw.scale(1 / busbw_factor(config.collective, config.ranks)) for config, one in reached]),
            busbw([plateau for _, plateau in reached]),
            most_common(self._limit(config, plateau, size) for config, plateau in reached),
            most_common(plateau.algorithm for _, plateau in reached),
        )

    def _limit(self, config: Config, plateau: Plateau, size: int) -> str:
        half = self.model.plateau(config).busbw.expected / 2
        return LATENCY if plateau.busbw.expected < half else plateau.limit


def _no_better(healthy: Plateau, actual: Plateau) -> Plateau:
    """What only takes away makes nothing faster, whatever a site's constants say beside the package's."""
    if actual.busbw.expected >= healthy.busbw.expected:
        return healthy
    return replace(actual, busbw=least((actual.busbw, healthy.busbw)))


def rungs(whole: Compared, configs: Sequence[Config], size: int) -> Iterator[Rung]:
    """How much each of several changes weighs, at a message of `size` bytes. Mending what only takes away makes nothing
    slower: at the least it brings nothing."""
    model, (_, after) = whole.model, whole.at(size)
    for change in whole.changes:
        others = tuple(other for other in whole.changes if other is not change)
        _, alone = Compared(model, configs, (change,)).at(size)
        _, mended = Compared(model, configs, others).at(size)
        if change.loses and mended.busbw.expected < after.busbw.expected:
            mended = after
        yield Rung(change, alone, mended)
