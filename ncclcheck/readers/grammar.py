"""The log grammar: its slots, its mask, and its two parsers.

`grammars/slots.lark` and `grammars/nccl.lark` are the only description of NCCL's log language. From them come

- `mask_pattern()`: one regular expression that finds every slot of a message; with each match replaced by `SLOT` the
  message becomes its *shape*. NCCL prints from about 2,400 format strings, so a log of any size has few shapes.
- `ShapeParser`: Lark on a shape. It says which event the shape is and where each field of it comes from: the k-th slot,
  constant text, or text with slots inside. Same shape, same parse.
- `DirectParser`: Lark on a raw message. Slow and simple; the reference that the tests hold the projection to.

The shape parser loads tables that `tools/compile_grammar.py` writes (Lark builds them in a second, they load in
milliseconds); a test fails when they do not match the grammar files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncclcheck.readers.grammar_files import grammar_text
from ncclcheck.readers.lexer import SLOT, PhraseLexer

if TYPE_CHECKING:
    from lark import Lark

# Lark's tables for shapes, written by tools/compile_grammar.py.
TABLES = Path(__file__).with_name("nccl_tables.json")

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
def events() -> tuple[str, ...]:
    """Names of all events, in the order of the grammar file."""
    return tuple(dict.fromkeys(_EVENT.findall(grammar_text("nccl.lark"))))


@cache
def field_types() -> dict[str, str]:
    """For fields that are one slot (constant text around it does not count): the slot's name, by field name."""
    slots = {*_slot_definitions(), "INT", "HEX", "FLOAT"}
    types = {}
    for name, body in _DEFINITION.findall(grammar_text("nccl.lark")):
        words = [word for word in _STRING.sub("", body).split() if word != "|"]
        if words and all(word in slots for word in words):
            types[name.lower()] = words[0]
    return types


@dataclass(frozen=True, slots=True)
class ShapeReading:
    """How to read a shape: its event, and for each field the pieces that make it up.

    A piece is an int (the k-th slot of the message) or a str (constant text).
    """

    event: str
    fields: dict[str, tuple[int | str, ...]]


class DirectParser:
    """Lark on raw messages."""

    def __init__(self) -> None:
        self._lark = build(shapes=False)
        self._candidates = _Candidates(self._lark)

    def parse(self, message: str) -> tuple[str, dict[str, str]] | None:
        """Event and fields as text, or None where no event matches."""
        for event, tokens in _parses(self._lark, self._candidates, message):
            return event, {name: _slot_in(text) if name in field_types() else text
                           for name, text in ((token.type.lower(), str(token)) for token in tokens)}
        return None


class ShapeParser:
    """Lark on shapes, from the compiled tables."""

    def __init__(self) -> None:
        self._lark = load_compiled()
        self._candidates = _Candidates(self._lark)

    def parse(self, shape: str) -> ShapeReading | None:
        for event, tokens in _parses(self._lark, self._candidates, shape):
            fields = {}
            for token in tokens:
                name = token.type.lower()
                pieces = _pieces(str(token), shape.count(SLOT, 0, token.start_pos))
                fields[name] = tuple(piece for piece in pieces if name not in field_types() or isinstance(piece, int))
            return ShapeReading(event, fields)
        return None


def build(shapes: bool, strict: bool = False) -> Lark:
    """Lark built from the grammar files, for shapes or for raw messages. Takes about a second."""
    from lark import Lark

    return Lark(
        shape_grammar() if shapes else grammar_text("slots.lark") + grammar_text("nccl.lark"),
        parser="lalr",
        lexer="contextual",
        start=list(events()),
        maybe_placeholders=False,
        strict=strict,
        _plugins={"ContextualLexer": PhraseLexer},
    )


def shape_grammar() -> str:
    """The grammar with each slot become `SLOT`, in terminals and (through the mask) in literal phrases."""
    slots = _SLOT_DEFINITION.sub(lambda found: f'{found[1]}: "{SLOT}"', grammar_text("slots.lark"))
    lines = []
    for line in grammar_text("nccl.lark").splitlines():
        is_pattern = _DEFINITION.match(line) and ": /" in line
        lines.append(line if is_pattern else _STRING.sub(lambda found: f'"{mask(found[1])}"', line))
    return slots + "\n".join(lines) + "\n"


def serialize(lark: Lark) -> dict[str, Any]:
    """Lark's tables as JSON can hold them."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    data, memo = lark.memo_serialize([TerminalDef, Rule])
    data.pop("grammar", None)
    data["options"].pop("_plugins", None)
    table = data["parser"]["parser"]
    # JSON has no integer keys: states and tokens go as lists of pairs
    table["tokens"] = list(table["tokens"].items())
    table["states"] = [(state, list(actions.items())) for state, actions in table["states"].items()]
    return {"data": data, "memo": list(memo.items())}


def load_compiled() -> Lark:
    from lark import Lark

    tables = json.loads(TABLES.read_text(encoding="utf-8"))
    table = tables["data"]["parser"]["parser"]
    table["tokens"] = dict(table["tokens"])
    table["states"] = {state: dict(actions) for state, actions in table["states"]}
    lark: Lark = Lark.__new__(Lark)
    lark._load(
        {"data": tables["data"], "memo": dict(tables["memo"])}, _plugins={"ContextualLexer": PhraseLexer}
    )
    return lark


class _Candidates:
    """Which events a text may be, by the terminals that can come first; found from Lark's own tables."""

    def __init__(self, lark: Lark) -> None:
        table: Any = lark.parser.parser._parse_table  # type: ignore[attr-defined]
        patterns = {terminal.name: terminal.pattern for terminal in lark.terminals}
        self._by_letter: dict[str, list[tuple[str, str]]] = {}  # first letter -> (phrase, event)
        self._by_pattern: list[tuple[re.Pattern[str], str]] = []
        for event in events():
            for name in table.states[table.start_states[event]]:
                pattern = patterns.get(name)
                if pattern is None:
                    continue  # a rule, not a terminal
                if pattern.type == "str":
                    self._by_letter.setdefault(pattern.value[0], []).append((pattern.value, event))
                else:
                    self._by_pattern.append((re.compile(pattern.to_regexp()), event))

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


def _parses(lark: Lark, candidates: _Candidates, text: str) -> Iterator[tuple[str, list[Any]]]:
    """Every event that `text` can be read as, with its field tokens. One at most: a test sees to it."""
    from lark.exceptions import UnexpectedInput

    for event in candidates.of(text):
        try:
            tree = lark.parse(text, start=event)
        except UnexpectedInput:
            continue
        yield event, [child for child in tree.scan_values(lambda _: True)]


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
