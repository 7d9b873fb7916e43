"""Numbers with a range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from typing import NamedTuple


class Range(NamedTuple):
    """low <= expected <= high, all in one unit that the holder names."""

    low: float
    expected: float
    high: float

    @property
    def text(self) -> str:
        """`0.3 / 0.4 / 0.5`."""
        return " / ".join(f"{number:g}" for number in self)

    def scale(self, factor: float) -> Range:
        return Range(self.low * factor, self.expected * factor, self.high * factor)

    def times(self, other: Range) -> Range:
        """Product of two numbers that are both above 0."""
        return Range(self.low * other.low, self.expected * other.expected, self.high * other.high)


def spread(ranges: Sequence[Range]) -> Range:
    """Lowest low, highest high; the middle is the geometric mean of the expected values (plain mean if one is 0)."""
    middles = [one.expected for one in ranges]
    if min(middles) == max(middles):  # exactly that, not what logarithms make of it
        return Range(min(one.low for one in ranges), middles[0], max(one.high for one in ranges))
    middle = exp(sum(map(log, middles)) / len(middles)) if min(middles) > 0 else sum(middles) / len(middles)
    low, high = min(one.low for one in ranges), max(one.high for one in ranges)
    return Range(low, min(max(middle, low), high), high)


def least(ranges: Iterable[Range]) -> Range:
    """The lowest low, the lowest expected and the lowest high value: the minimum of numbers with a range."""
    return Range(*map(min, zip(*ranges, strict=True)))


def most(ranges: Iterable[Range]) -> Range:
    """Their maximum."""
    return Range(*map(max, zip(*ranges, strict=True)))


def exactly(value: float) -> Range:
    """A number without uncertainty."""
    return Range(value, value, value)


def total(ranges: Sequence[Range]) -> Range:
    """Their sum; 0 of none."""
    return Range(*(sum(values) for values in zip(*ranges, strict=True))) if ranges else exactly(0.0)


def over(function: Callable[..., float], *ranges: Range) -> Range:
    """`function` at the low, at the expected and at the high values together: the second of the three, between the
    lowest and the highest."""
    three = [function(*values) for values in zip(*ranges, strict=True)]
    return Range(min(three), three[1], max(three))
