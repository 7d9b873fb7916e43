"""The lexer of the log grammar: what the parser can take next, literal phrases first.

Lark's own contextual lexer compiles one regular expression per parser state, some two thousand of them, most for a
single phrase. Here a phrase is compared as text (the longest that fits wins), and a pattern is compiled once however
many states take it. Patterns, and slots in a shape, come after phrases: by priority, then the longest match.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedInput
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState

# A private-use character: what a slot becomes in a shape. Never "#" or "%d": NCCL and its users print those.
SLOT = "\ue000"


class NoTokenError(UnexpectedInput):
    """Nothing that the parser could take next stands here."""


class PhraseLexer(Lexer):
    """Takes the place of Lark's ContextualLexer: same arguments, same call."""

    def __init__(self, conf: LexerConf, states: Mapping[Any, Collection[str]], always_accept: Collection[str] = ()) -> None:
        self._terminals = conf.terminals_by_name
        self._states = states
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._choices: dict[Any, _Choices] = {}

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        text = lexer_state.text.text
        position, end = lexer_state.text.start, lexer_state.text.end
        while position < end:
            state = parser_state.position
            choices = self._choices.get(state)
            if choices is None:
                choices = self._choices[state] = self._choices_of(state)
            name, value = choices.take(text, position)
            yield Token(name, value, position)
            position += len(value)

    def _choices_of(self, state: Any) -> _Choices:
        phrases: list[tuple[str, str]] = []
        patterns: dict[int, list[tuple[str, re.Pattern[str]]]] = {}
        for name in sorted(self._states[state]):
            terminal = self._terminals.get(name)
            if terminal is None:
                continue  # a rule, or the end
            if terminal.pattern.type == "str" and terminal.pattern.value != SLOT:
                phrases.append((terminal.pattern.value, name))
            else:
                patterns.setdefault(-terminal.priority, []).append((name, self._compiled(name)))
        phrases.sort(key=lambda item: -len(item[0]))
        return _Choices(phrases, [patterns[priority] for priority in sorted(patterns)])

    def _compiled(self, name: str) -> re.Pattern[str]:
        if name not in self._patterns:
            self._patterns[name] = re.compile(self._terminals[name].pattern.to_regexp())
        return self._patterns[name]


@dataclass(frozen=True, slots=True)
class _Choices:
    """What one parser state can take: phrases, longest first, and patterns by priority."""

    phrases: list[tuple[str, str]]
    patterns: list[list[tuple[str, re.Pattern[str]]]]

    def take(self, text: str, position: int) -> tuple[str, str]:
        """Name and text of the terminal that stands at `position`."""
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
        raise NoTokenError
