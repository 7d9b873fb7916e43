"""What a reader of a tool's output is."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ncclcheck.readers.automaton import Automaton

TABLES = Path(__file__).with_name("tables")

# Distinct lines whose reading is kept: outputs of many GPUs say the same things over and over.
_MOST_KEPT = 50_000
_LONGEST_LINE = 4_000


class Told(NamedTuple):
    """One value: a row of the fact table `telemetry`. host: where one output tells of several machines."""

    line: int
    thing: str
    name: str
    key: str
    text: str
    number: float | None = None
    host: str | None = None


class Reader:
    """Reads one output of one tool. The engine makes a new one for each output, and offers it every line that may be
    its own, without the label of a launcher. told: what it found. operations: rows of the fact table `inspected`.
    notes: what it could not read, as sentences."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.operations: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.host: str | None = None  # named by the output itself
        self._told_of: set[tuple[str, str]] = set()

    def read(self, number: int, text: str) -> bool:
        """Take a line. False: it is none of this output, which may go on behind it."""
        raise NotImplementedError

    def close(self) -> None:
        """The output has ended."""

    def tell(
        self,
        line: int,
        thing: str,
        name: str,
        key: str,
        text: str,
        number: float | None = None,
        host: str | None = None,
    ) -> None:
        self.told.append(Told(line, thing, name, key, text, number, host))
        self._told_of.add((key, name))

    def has_told(self, key: str, name: str = "") -> bool:
        """Of the thing of that name: told again, it is mostly another machine's."""
        return (key, name) in self._told_of


Fields = dict[str, str]


class LineReader(Reader):
    """Reads line by line through the grammar `grammars/telemetry/<grammar>.lark`: an event `x` goes to `take_x`.

    A `take_x(line, fields)` that returns False refuses the line, and so does a reader without one: tools that print
    alike share a grammar. The grammar sees lines in which every run of blanks has become one; `indent` is the number of
    columns before the first character.
    """

    grammar: ClassVar[str]
    indent = 0

    def read(self, number: int, text: str) -> bool:
        parsed = language(self.grammar).parse(text)
        if parsed is None:
            return False
        self.indent = parsed.indent
        take = getattr(self, f"take_{parsed.event}", None)
        return take is not None and take(number, parsed.fields) is not False


class Parsed(NamedTuple):
    """A line: its event, the fields as printed, columns before its first character."""

    event: str
    fields: Fields
    indent: int


class Language:
    """A grammar at work. What a line says is kept for the next one like it."""

    def __init__(self, name: str) -> None:
        self._automaton = Automaton(TABLES / f"{name}.json")
        self._kept: dict[str, Parsed | None] = {}

    def parse(self, line: str) -> Parsed | None:
        """What a line says; None: it is not of this language."""
        try:
            return self._kept[line]
        except KeyError:
            parsed = self._parse(line)
        if len(self._kept) < _MOST_KEPT:
            self._kept[line] = parsed
        return parsed

    def _parse(self, line: str) -> Parsed | None:
        text = " ".join(line[:_LONGEST_LINE].split())
        parsed = self._automaton.parse(text) if text else None
        if parsed is None:
            return None
        event, fields = parsed
        indent = len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())
        return Parsed(event, {field.name: field.text for field in fields}, indent)


@cache
def language(name: str) -> Language:
    return Language(name)
