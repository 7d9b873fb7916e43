"""Answers of `ncclcheck estimate`: numbers with the formula and the inputs that they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ncclcheck.estimate.types import Range

FLAG = "flag"
TABLE = "hardware table"
ASSUMED = "assumed"


class Given(NamedTuple):
    """An input as it entered: its name, its value with the unit, and where it came from.

    origin: a flag ("--nodes"), FLAG, TABLE, ASSUMED, or "path:line" of a log.
    """

    name: str
    value: str
    origin: str


class Figure(NamedTuple):
    """A result. unit: "GB/s", "s", "GB", "$ per day", ... ("" for a plain number).

    formula: the formula with the numbers in it, as `140 GB x 2 x 255/256 / 386 GB/s = 0.72 s`.
    """

    name: str
    value: Range
    unit: str
    formula: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to. title: the question in a line. remarks: sentences that the reader must not miss.

    details: more for the JSON report (plain values), by key.
    """

    title: str
    figures: tuple[Figure, ...]
    givens: tuple[Given, ...] = ()
    remarks: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


def exactly(value: float) -> Range:
    """A number without uncertainty."""
    return Range(value, value, value)
