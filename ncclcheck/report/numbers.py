"""Numbers as a reader wants them: two significant digits, and a range only where there is one."""

from __future__ import annotations

import math

from ncclcheck.estimate.ranges import Range


def counted(number: int, noun: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def two_digits(value: float) -> str:
    """48.31 -> 48, 2.46 -> 2.5, 487 -> 490, 0.0423 -> 0.042."""
    if not math.isfinite(value):
        return "unbounded" if math.isinf(value) else "unknown"
    rounded = float(f"{value:.1e}")
    if rounded == 0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{decimals}f}"


def thousands(value: float) -> str:
    """Two digits, the zeros in groups: 5617 -> 5,600."""
    text = two_digits(value)
    return f"{int(text):,}" if text.isdigit() else text


def between(value: Range, sign: str = "") -> str:
    """Large numbers: `5,600 (5,100-5,800)`, with the sign before each (`$14,000 ($13,000-$15,000)`)."""
    low, expected, high = (f"{sign}{thousands(number)}" for number in value)
    return expected if low == high else f"{expected} ({low}-{high})"


def with_range(value: Range, unit: str = "") -> str:
    """`2.5 (2.0-3.1)`, with the unit behind each number where it is a mere letter (`19x (15x-24x)`)."""
    low, expected, high = (two_digits(number) for number in (value.low, value.expected, value.high))
    return f"{expected}{unit}" if low == high else f"{expected}{unit} ({low}{unit}-{high}{unit})"


def byte_size(count: int) -> str:
    """Decimal, as bandwidths are: 10^9 bytes are a GB."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{two_digits(count / size).removesuffix('.0')} {unit}"
    return f"{count} B"
