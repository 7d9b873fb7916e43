"""The shape parser at work: the LALR tables that Lark builds from the grammar, and the loop that follows them.

Loading Lark itself and its rules takes longer than reading a log of one node; following its tables takes a page.
`tools/compile_grammar.py` writes the tables, a test holds them to the grammar files, and another holds this parser to
Lark's own (`grammar.DirectParser`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ncclcheck.readers.choices import Candidates, Choices, NothingFitsError, Terminal

TABLES = Path(__file__).with_name("nccl_tables.json")
BLOCK_TABLES = {"nccl_tests": Path(__file__).with_name("nccl_tests_tables.json")}

_END = "$END"


class Field(NamedTuple):
    """A field of an event as it stands in a text."""

    name: str
    text: str
    start: int


class Automaton:
    """Parser states by number. A positive action shifts to that state, a negative one reduces by rule `-action - 1`.

    marks: the phrases by which each event of lines around NCCL's records begins. terminals: by name.
    """

    def __init__(self, file: Path = TABLES) -> None:
        tables: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        self.terminals = {row[0]: Terminal(*row) for row in tables["terminals"]}
        self._states: list[dict[str, int]] = tables["states"]
        self._rules: list[tuple[str, int]] = tables["rules"]  # the rule's name and how many symbols it takes
        self._events: dict[str, tuple[int, int]] = tables["events"]  # first and last state
        self._fields = frozenset(tables["fields"])
        self._choices: dict[int, Choices] = {}
        first = {event: self._of(state) for event, (state, _) in self._events.items()}
        self._candidates = Candidates(first)
        self.marks = {event: tuple(terminal.text for terminal in first[event]) for event in tables["around"]}

    def first_phrases(self) -> list[str]:
        """The phrases that events begin with."""
        states = (self._of(first) for first, _ in self._events.values())
        return sorted({one.text for terminals in states for one in terminals if not one.is_pattern}, key=len)[::-1]

    def _of(self, state: int) -> list[Terminal]:
        """The terminals that a state can take."""
        return [self.terminals[name] for name in self._states[state] if name in self.terminals]

    def parse(self, text: str) -> tuple[str, list[Field]] | None:
        """The event of a text and its fields, or None. Events are tried if their first terminal fits."""
        for event in self._candidates.of(text):
            fields = self._run(text, *self._events[event])
            if fields is not None:
                return event, fields
        return None

    def ends_early(self, text: str) -> bool:
        """Does the text stop where some event goes on?"""
        if any(phrase.startswith(text) for phrase in self._candidates.phrases(text)):
            return True
        return any(self._stops(text, self._events[event][0]) for event in self._candidates.of(text))

    def _stops(self, text: str, first: int) -> bool:
        """Does the parser want more at the end of the text?"""
        stack, position = [first], 0
        while position < len(text):
            state = stack[-1]
            if state not in self._choices:
                self._choices[state] = Choices(self._of(state))
            try:
                name, value = self._choices[state].take(text, position)
            except NothingFitsError:
                return self._choices[state].begins(text[position:])
            if not self._feed(stack, name):
                return False
            position += len(value)
        return True

    def _run(self, text: str, first: int, last: int) -> list[Field] | None:
        stack, fields, position = [first], [], 0
        while position < len(text):
            state = stack[-1]
            if state not in self._choices:
                self._choices[state] = Choices(self._of(state))
            try:
                name, value = self._choices[state].take(text, position)
            except NothingFitsError:
                return None
            if not self._feed(stack, name):
                return None
            if name in self._fields:
                fields.append(Field(name.lower(), value, position))
            position += len(value)
        while stack[-1] != last:
            action = self._states[stack[-1]].get(_END)
            if action is None or action >= 0:
                return None
            self._reduce(stack, action)
        return fields

    def _feed(self, stack: list[int], name: str) -> bool:
        """Reduce until the terminal can be shifted, and shift it."""
        while True:
            action = self._states[stack[-1]].get(name)
            if action is None:
                return False
            if action >= 0:
                stack.append(action)
                return True
            self._reduce(stack, action)

    def _reduce(self, stack: list[int], action: int) -> None:
        origin, size = self._rules[-action - 1]
        if size:
            del stack[-size:]
        stack.append(self._states[stack[-1]][origin])
