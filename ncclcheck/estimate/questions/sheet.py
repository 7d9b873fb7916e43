"""An answer while it comes together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ncclcheck.estimate.figures import TABLE, Answer, Figure, Given
from ncclcheck.estimate.types import Range


@dataclass(slots=True)
class Sheet:
    """Figures, inputs and remarks in the order in which they were found."""

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


def over(function: Callable[..., float], *ranges: Range) -> Range:
    """`function` at the low, at the expected and at the high values together: the second of the three, between the
    lowest and the highest."""
    three = [function(*values) for values in zip(*ranges, strict=True)]
    return Range(min(three), three[1], max(three))
