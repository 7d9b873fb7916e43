"""Lark's lexer for the log grammar: `Choices`, one per parser state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lark import Token
from lark.common import LexerConf
from lark.exceptions import UnexpectedInput
from lark.lexer import Lexer, LexerState, TerminalDef

from ncclcheck.readers.choices import Choices, NothingFitsError, Terminal


class NoTokenError(UnexpectedInput):
    """Nothing that the parser could take next stands here."""


class PhraseLexer(Lexer):
    """Takes the place of Lark's ContextualLexer: same arguments, same call."""

    def __init__(
        self, conf: LexerConf, states: Mapping[Any, Collection[str]], always_accept: Collection[str] = ()
    ) -> None:
        self._terminals = {name: plain(terminal) for name, terminal in conf.terminals_by_name.items()}
        self._states = states
        self._choices: dict[Any, Choices] = {}

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        text = lexer_state.text.text
        position, end = lexer_state.text.start, lexer_state.text.end
        while position < end:
            state = parser_state.position
            if state not in self._choices:
                names = self._states[state]
                self._choices[state] = Choices(self._terminals[name] for name in names if name in self._terminals)
            try:
                name, value = self._choices[state].take(text, position)
            except NothingFitsError:
                raise NoTokenError from None
            yield Token(name, value, position)
            position += len(value)


def plain(terminal: TerminalDef) -> Terminal:
    is_pattern = terminal.pattern.type == "re"
    text = terminal.pattern.to_regexp() if is_pattern else terminal.pattern.value
    return Terminal(terminal.name, text, is_pattern, terminal.priority)
