"""Counts and large numbers as a reader wants them. Others: `estimate.quantities`."""

from __future__ import annotations

from ncclcheck.estimate.quantities import two_digits
from ncclcheck.estimate.ranges import Range


def counted(number: int, noun: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def thousands(value: float) -> str:
    """Two digits, the zeros in groups: 5617 -> 5,600."""
    text = two_digits(value)
    return f"{int(text):,}" if text.isdigit() else text


def large(value: Range, sign: str = "") -> str:
    """Large numbers: `5,600 (5,100-5,800)`, with the sign before each (`$14,000 ($13,000-$15,000)`)."""
    low, expected, high = (f"{sign}{thousands(number)}" for number in value)
    return expected if low == high else f"{expected} ({low}-{high})"
