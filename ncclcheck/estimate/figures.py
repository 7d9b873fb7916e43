"""Answers of `ncclcheck estimate`: numbers with the formula and the inputs that they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ncclcheck.estimate.ranges import Range

TABLE = "hardware table"
ASSUMED = "assumed"


class Given(NamedTuple):
    """An input as it entered: its name, its value with the unit, and where it came from.

    origin: a flag ("--nodes"), TABLE with its source, ASSUMED, or what of the input.
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


@dataclass(slots=True)
class Sheet:
    """An answer while it comes together: figures, inputs and remarks in the order in which they were found."""

    figures: list[Figure] = field(default_factory=list)
    givens: list[Given] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def figure(self, name: str, value: Range, unit: str, formula: str) -> None:
        self.figures.append(Figure(name, value, unit, formula))

    def given(self, name: str, value: str, origin: str) -> None:
        self.givens.append(Given(name, value, origin))

    def constant(self, name: str, value: str, source: str) -> None:
        """A value of the hardware table; its source is told once."""
        origin = f"{TABLE}: {source}"
        told = any(given.origin == origin for given in self.givens)
        self.givens.append(Given(name, value, f"{TABLE}, same source" if told else origin))

    def remark(self, sentence: str) -> None:
        self.remarks.append(sentence)

    def answer(self, title: str) -> Answer:
        return Answer(title, tuple(self.figures), tuple(self.givens), tuple(self.remarks), self.details)
