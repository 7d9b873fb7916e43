"""The log grammar: its slots, its mask, and its two parsers.

`grammars/slots.lark`, `grammars/nccl.lark` and `grammars/around.lark` (lines that stand around NCCL's records) are the
only description of the log language. From them come

- `mask_pattern()`: one regular expression that finds every slot of a message; with each match replaced by `SLOT` the
  message becomes its *shape*. NCCL prints from about 2,400 format strings, so a log of any size has few shapes.
- `ShapeParser`: Lark on a shape. It says which event the shape is and where each field of it comes from: the k-th slot,
  constant text, or text with slots inside. Same shape, same parse.
- `DirectParser`: Lark on a raw message. Slow and simple; the reference that the tests hold the projection to.

The shape parser follows tables that `tools/compile_grammar.py` writes (Lark builds them in a second, they load in
milliseconds); a test fails when they do not match the grammar files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ncclcheck.readers.automaton import Automaton
from ncclcheck.readers.choices import SLOT, Candidates
from ncclcheck.readers.grammar_files import grammar_text

if TYPE_CHECKING:
    from lark import Lark

_SLOT_DEFINITION = re.compile(r"^([A-Z_]+): /(.+)/$", re.M)
_DEFINITION = re.compile(r"^([A-Z][A-Z0-9_]*)(?:\.-?\d+)?: (.+)$", re.M)
_EVENT = re.compile(r"^([a-z]\w*):", re.M)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


@cache
def mask_pattern() -> str:
    """The regular expression that finds a slot, for Polars and for `re` alike."""
    return "|".join(f"(?:{body})" for body in _slot_definitions().values())


def mask(message: str) -> str:
    """The shape of one message."""
    return re.sub(mask_pattern(), SLOT, message)


@cache
def language() -> str:
    """The grammar of messages: NCCL's own, and what stands around them."""
    return grammar_text("nccl.lark") + grammar_text("around.lark")


@cache
def events() -> tuple[str, ...]:
    """Names of all events, in the order of the grammar files."""
    return _events_of(language())


def _events_of(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_EVENT.findall(text)))


@cache
def field_types() -> dict[str, str]:
    """For fields that are one slot (constant text around it does not count): the slot's name, by field name."""
    slots = {*_slot_definitions(), "INT", "HEX", "FLOAT"}
    types = {}
    for name, body in _DEFINITION.findall(language()):
        words = [word for word in _STRING.sub("", body).split() if word != "|"]
        if words and all(word in slots for word in words):
            types[name.lower()] = words[0]
    return types


@cache
def slot_kinds() -> dict[str, str]:
    """For fields that are one slot of any kind but a number: its regular expression. (Numbers are most of a log; where
    something else stands in a number's place the number is null.)"""
    definitions = _slot_definitions()
    return {name: definitions[kind] for name, kind in field_types().items() if kind in definitions and kind != "NUMBER"}


class ShapeReading(NamedTuple):
    """How to read a shape: its event, and for each field the pieces that make it up.

    A piece is an int (the k-th slot of the message) or a str (constant text).
    """

    event: str
    fields: dict[str, tuple[int | str, ...]]


class DirectParser:
    """Lark on raw messages."""

    def __init__(self) -> None:
        from ncclcheck.readers.lexer import plain

        self._lark = build(shapes=False)
        table: Any = self._lark.parser.parser._parse_table
        terminals = {terminal.name: plain(terminal) for terminal in self._lark.terminals}
        first = {
            event: [terminals[name] for name in table.states[table.start_states[event]] if name in terminals]
            for event in events()
        }
        self._candidates = Candidates(first)

    def parse(self, message: str) -> tuple[str, dict[str, str]] | None:
        """Event and fields as text, or None where no event matches."""
        return next(self.parses(message), None)

    def parses(self, message: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Every event that the message can be read as. One at most: a test sees to it."""
        from lark.exceptions import UnexpectedInput

        for event in self._candidates.of(message):
            try:
                tree = self._lark.parse(message, start=event)
            except UnexpectedInput:
                continue
            tokens = [(token.type.lower(), str(token)) for token in tree.scan_values(lambda _: True)]
            yield event, {name: _slot_in(text) if name in field_types() else text for name, text in tokens}


class ShapeParser:
    """The same grammar on shapes, by Lark's tables. marks: the phrases by which lines around NCCL's records begin, by
    event."""

    def __init__(self) -> None:
        self._automaton = Automaton()
        self.marks = self._automaton.marks

    def parse(self, shape: str) -> ShapeReading | None:
        found = self._automaton.parse(shape)
        if found is None:
            return None
        event, tokens = found
        fields = {}
        for name, text, start in tokens:
            pieces = _pieces(text, shape.count(SLOT, 0, start))
            fields[name] = tuple(piece for piece in pieces if name not in field_types() or isinstance(piece, int))
        return ShapeReading(event, fields)

    def ends_early(self, shape: str) -> bool:
        """Is it the beginning of some event, and no more?"""
        return self._automaton.ends_early(shape)


def build(shapes: bool, strict: bool = False) -> Lark:
    """Lark built from the grammar files, for shapes or for raw messages. Takes about a second."""
    return _lark(shape_grammar() if shapes else grammar_text("slots.lark") + language(), events(), strict)


def build_block(name: str, strict: bool = False) -> Lark:
    """Lark built from the grammar of a block format, for single lines in which every run of blanks has become one."""
    text = grammar_text(name)
    return _lark(text, _events_of(text), strict)


def _lark(text: str, start: Sequence[str], strict: bool) -> Lark:
    from lark import Lark

    from ncclcheck.readers.lexer import PhraseLexer

    return Lark(
        text,
        parser="lalr",
        lexer="contextual",
        start=list(start),
        maybe_placeholders=False,
        strict=strict,
        _plugins={} if strict else {"ContextualLexer": PhraseLexer},
    )


def shape_grammar() -> str:
    """The grammar with each slot become `SLOT`, in terminals and (through the mask) in literal phrases."""
    slots = _SLOT_DEFINITION.sub(lambda found: f'{found[1]}: "{SLOT}"', grammar_text("slots.lark"))
    lines = []
    for line in language().splitlines():
        is_pattern = _DEFINITION.match(line) and ": /" in line
        lines.append(line if is_pattern else _STRING.sub(lambda found: f'"{mask(found[1])}"', line))
    return slots + "\n".join(lines) + "\n"


def tables(lark: Lark, text: str | None = None) -> dict[str, Any]:
    """Lark's tables as `Automaton` reads them, states and rules numbered in the order of a walk: Lark's own numbers
    differ from run to run. text: the grammar, None: that of messages."""
    from lark.parsers.lalr_analysis import Shift

    from ncclcheck.readers.lexer import plain

    text = language() if text is None else text
    starts, around = _events_of(text), set(_events_of(grammar_text("around.lark")))
    table: Any = lark.parser.parser._parse_table
    order = [table.start_states[event] for event in starts]
    numbers = {state: number for number, state in enumerate(order)}
    rules: dict[tuple[str, int], int] = {}
    states = []
    for state in order:  # grows under way
        actions = {}
        for symbol, (action, argument) in sorted(table.states[state].items()):
            if action is Shift:
                if argument not in numbers:
                    numbers[argument] = len(order)
                    order.append(argument)
                actions[symbol] = numbers[argument]
            else:
                rule = (str(argument.origin.name), len(argument.expansion))
                actions[symbol] = -rules.setdefault(rule, len(rules)) - 1
        states.append(actions)
    return {
        "terminals": sorted(plain(terminal) for terminal in lark.terminals),
        "states": states,
        "rules": list(rules),
        "events": {event: (numbers[table.start_states[event]], numbers[table.end_states[event]]) for event in starts},
        "around": [event for event in starts if event in around],
        "fields": sorted(name for name, _ in _DEFINITION.findall(text)),
    }


def _slot_in(text: str) -> str:
    found = re.search(mask_pattern(), text)
    return found[0] if found else text


def _pieces(text: str, first_slot: int) -> Iterator[int | str]:
    """Constants and slot numbers of a field's text; `first_slot` slots stand before it in the shape."""
    for index, constant in enumerate(text.split(SLOT)):
        if index:
            yield first_slot + index - 1
        if constant:
            yield constant


@cache
def _slot_definitions() -> dict[str, str]:
    return dict(_SLOT_DEFINITION.findall(grammar_text("slots.lark")))
