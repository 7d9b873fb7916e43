"""A configuration before and after a change, and what the model says of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.estimates import MEASURED
from ncclcheck.estimate.model import Plateau, call_seconds
from ncclcheck.estimate.ranges import Range, exactly, spread


@dataclass(frozen=True, slots=True)
class Pair:
    """healthy, actual: bus bandwidth before and after. ranks: of the job, whose nodes may not be alike."""

    before: Config
    after: Config
    healthy: Plateau
    actual: Plateau
    ranks: int

    @property
    def no_effect(self) -> bool:
        if self.actual.algorithm == MEASURED:  # as fast as the model has it healthy: the cost does not show
            return self.actual.busbw.expected >= self.healthy.busbw.expected
        return self.healthy.busbw == self.actual.busbw and self.healthy.limit == self.actual.limit

    def ratio(self) -> Range:
        """healthy / actual: the smallest pairs a slow healthy job with a fast actual one, the largest the reverse."""
        if self.no_effect:
            return exactly(1.0)
        h, a = self.healthy.busbw, self.actual.busbw
        return Range(h.low / a.high, h.expected / a.expected, h.high / a.low)

    def slowdown(self) -> Range:
        """`ratio`, no lower than 1: of what only takes away a gain is no slowdown."""
        return Range(*(max(1.0, one) for one in self.ratio()))

    def seconds(self, busbw: Range, nbytes: float) -> Range:
        """One all_reduce of so many bytes at a bus bandwidth in GB/s."""
        return call_seconds(busbw, nbytes, "all_reduce", self.ranks)

    def extra_seconds(self, nbytes: float) -> Range:
        """That it takes longer than on the healthy job."""
        if self.no_effect:
            return exactly(0.0)
        h, a = self.seconds(self.healthy.busbw, nbytes), self.seconds(self.actual.busbw, nbytes)
        return Range(*(max(0.0, one) for one in (a.low - h.high, a.expected - h.expected, a.high - h.low)))


def busbw(plateaus: Sequence[Plateau]) -> Range:
    """Over all configurations that fit."""
    return spread([one.busbw for one in plateaus])


def middle(pairs: Sequence[Pair]) -> Pair:
    """The one nearest to what is expected of all, before and after: its arithmetic is shown."""
    before = busbw([pair.healthy for pair in pairs]).expected
    after = busbw([pair.actual for pair in pairs]).expected
    return min(
        pairs,
        key=lambda pair: abs(log(pair.healthy.busbw.expected / before)) + abs(log(pair.actual.busbw.expected / after)),
    )


def most_common(names: Iterable[str]) -> str:
    """Limits or algorithms of all configurations, most common first, three at most."""
    return " or ".join(name for name, _ in Counter(names).most_common(3))


def one_of(count: int) -> str:
    """Behind a formula that is that of one configuration of several."""
    return f" [one of {count} configurations that fit; the number is their geometric mean]" if count > 1 else ""
