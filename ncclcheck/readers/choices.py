"""What can stand next in a message: literal phrases first, then patterns.

The longest phrase that fits wins. Patterns, and slots in a shape, come after phrases: by priority, then the longest
match. Phrases are compared as text and a pattern is compiled once, however many parser states take it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

# A private-use character: what a slot becomes in a shape. Never "#" or "%d": NCCL and its users print those.
SLOT = "\ue000"


# A choice of words as Lark writes it, with its blanks escaped: `(?:send|receive)`.
_CHOICE = re.compile(r"\(\?:((?:[\w|<>=-]|\\ )+)\)")


class Terminal(NamedTuple):
    """A terminal of the grammar. text: a phrase, or a regular expression where `is_pattern`."""

    name: str
    text: str
    is_pattern: bool
    priority: int


class NothingFitsError(Exception):
    """No terminal that the parser could take stands here."""


class Candidates:
    """Which events a text may be, by the terminals that can come first."""

    def __init__(self, first: Mapping[str, Iterable[Terminal]]) -> None:
        self._by_letter: dict[str, list[tuple[str, str]]] = {}
        self._by_pattern: list[tuple[re.Pattern[str], str]] = []
        for event, terminals in first.items():
            for terminal in terminals:
                if terminal.is_pattern:
                    self._by_pattern.append((re.compile(terminal.text), event))
                else:
                    self._by_letter.setdefault(terminal.text[0], []).append((terminal.text, event))

    def phrases(self, text: str) -> Iterator[str]:
        """The phrases that begin with the same letter."""
        return (phrase for phrase, _ in self._by_letter.get(text[:1], ()))

    def of(self, text: str) -> Iterator[str]:
        seen = set()
        for phrase, event in self._by_letter.get(text[:1], ()):
            if event not in seen and text.startswith(phrase):
                seen.add(event)
                yield event
        for pattern, event in self._by_pattern:
            if event not in seen and pattern.match(text):
                seen.add(event)
                yield event


class Choices:
    """The terminals that one parser state can take."""

    def __init__(self, terminals: Iterable[Terminal]) -> None:
        self.phrases: list[tuple[str, str]] = []
        groups: dict[int, list[tuple[str, re.Pattern[str]]]] = {}
        for terminal in sorted(terminals):
            if terminal.is_pattern or terminal.text == SLOT:
                groups.setdefault(-terminal.priority, []).append((terminal.name, re.compile(terminal.text)))
            else:
                self.phrases.append((terminal.text, terminal.name))
        self.phrases.sort(key=lambda item: -len(item[0]))
        self.patterns = [groups[priority] for priority in sorted(groups)]

    def take(self, text: str, position: int) -> tuple[str, str]:
        """Name and text of the terminal that stands at `position`. Raises NothingFitsError."""
        for phrase, name in self.phrases:
            if text.startswith(phrase, position):
                return name, phrase
        for group in self.patterns:
            best, value = "", ""
            for name, pattern in group:
                found = pattern.match(text, position)
                if found and len(found[0]) > len(value):
                    best, value = name, found[0]
            if best:
                return best, value
        raise NothingFitsError

    def begins(self, rest: str) -> bool:
        """Is it the beginning of a phrase or word that would fit?"""
        words = (_words(pattern.pattern) for group in self.patterns for _, pattern in group)
        return any(word.startswith(rest) for word in chain((phrase for phrase, _ in self.phrases), *words))


def _words(pattern: str) -> list[str]:
    """The words of a pattern that is a plain choice of some."""
    found = _CHOICE.fullmatch(pattern)
    return [word.replace("\\", "") for word in found[1].split("|")] if found else []
