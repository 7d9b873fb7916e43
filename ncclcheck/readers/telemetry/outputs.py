"""Finds the outputs of tools in a text: alone, one after the other, in a log, behind labels of launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from ncclcheck.readers.decoding import numbered_lines, plain, text_lines
from ncclcheck.readers.finding import Piece
from ncclcheck.readers.labels import parse_label
from ncclcheck.readers.telemetry.kinds import STARTS, WORDS, find_start
from ncclcheck.readers.telemetry.machines import LABEL, SIGNS, find_sign, host_of_label
from ncclcheck.readers.telemetry.reader import Reader

# Lines of other text that may stand between two lines of one output.
_PATIENCE = 200
# Lines above the words that tell what an output is, as far as a brace that opens a document.
_REACH = 12
_RECORD = re.compile(r"NCCL (?:INFO|WARN|TRACE|ABORT) ")


@dataclass
class _Open:
    reader: Reader
    host: str | None
    silence: int = 0


class Outputs:
    """The outputs of all inputs, one input after the other.

    rows: of the fact table `telemetry`. operations: of the fact table `inspected`.
    kinds: by input, kinds of outputs. notes: by input, what could not be read.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.operations: list[dict[str, Any]] = []
        self.kinds: dict[int, set[str]] = {}
        self.notes: dict[int, list[str]] = {}
        self._source = -1
        self._outputs = 0
        self._open: dict[str, _Open] = {}
        self._next_line = 0
        self._announced: str | None = None
        self._brace: list[tuple[int, str]] = []

    @property
    def is_waiting(self) -> bool:
        """An output has begun, and may go on."""
        return bool(self._open)

    def look(self, piece: Piece) -> None:
        """Pieces of an input come in order."""
        if piece.source != self._source:
            self.finish()
            self._source = piece.source
        elif piece.first_line != self._next_line:
            self._announced = None  # another may be announced where nobody looked
        self._next_line = piece.first_line + piece.lines
        block = plain(piece.block)
        starts = _lines_with(block, WORDS, STARTS)
        if not (starts or self._open):
            self._announced = None
            return
        signs = _lines_with(block, SIGNS)
        lines = numbered_lines(block, piece.first_line)
        place = 0
        for stop in [*sorted(starts | signs), len(lines)]:
            while place < stop and self._open:
                self._read(*lines[place], begins=False)
                place += 1
            if stop - _REACH > place:
                place, self._brace = stop - _REACH, []
            for number, text in lines[place:stop]:
                self._remember(number, text)
            if stop in signs:
                self._heed(lines[stop][1], [text for _, text in lines[max(0, stop - 2) : stop]])
            if stop < len(lines):
                self._read(*lines[stop], begins=stop in starts)
            place = stop + 1

    def finish(self) -> None:
        """The input has ended."""
        for label in list(self._open):
            self._close(label)
        self._announced, self._brace = None, []

    def _read(self, number: int, text: str, *, begins: bool) -> None:
        """begins: an output may begin in the line."""
        text = text.rstrip("\r")
        for label in self._labels_of(text):
            current = self._open[label]
            if current.reader.read(number, text[len(label) :]):
                current.silence = 0
                return
        self._remember(number, text)
        begun = find_start(text) if begins else None
        if begun is not None and not _RECORD.search(text, 0, begun[1]):
            kind, start = begun
            label = self._label_before(text[:start])
            self._close(label)
            reader = kind.open()
            for earlier in self._brace[:-1] if kind.brace else ():
                reader.read(*earlier)
            self._brace = []
            if reader.read(number, text[len(label) :]):
                self._open[label] = _Open(reader, host_of_label(label) or self._announced)
                self.kinds.setdefault(self._source, set()).add(kind.name)
                return
        if self._open and text.strip():
            self._wait()

    def _labels_of(self, text: str) -> Iterator[str]:
        """Labels of open outputs that this line may belong to, the longest first."""
        label = self._label(text)
        if label and label in self._open:
            yield label
        if "" in self._open:
            yield ""

    def _label(self, text: str) -> str:
        """What a launcher may have put before the line. The blank behind it is the tool's own where outputs behind the
        same label have none."""
        found = LABEL.match(text)
        if found is None:
            return ""
        return found[0].rstrip() if found[0].rstrip() in self._open else found[0]

    def _label_before(self, before: str) -> str:
        """The label of an output that begins behind this text; "" where that is the output's own, or a word."""
        label = self._label(before)
        known = "|" in label or host_of_label(label) or parse_label(label.rstrip() + " ") != (None, None)
        return label if known or label.strip() == before.strip() else ""

    def _heed(self, text: str, above: list[str]) -> None:
        """A prompt or a heading names the machine of all that follows."""
        sign = find_sign(text, above)
        if sign is None:
            return
        self._announced = sign.host
        if sign.ends:
            self._close("")

    def _remember(self, number: int, text: str) -> None:
        """Braces that may open a document."""
        if text.strip() in ("{", "["):
            self._brace = [*self._brace, (number, text)] if len(self._brace) == 1 else [(number, text)]
        elif self._brace:
            self._brace.append((number, text))
            if len(self._brace) > _REACH:
                self._brace = []

    def _wait(self) -> None:
        for label, one in list(self._open.items()):
            one.silence += 1
            if one.silence > _PATIENCE:
                self._close(label)

    def _close(self, label: str) -> None:
        one = self._open.pop(label, None)
        if one is None:
            return
        one.reader.close()
        if one.reader.notes:
            self.notes.setdefault(self._source, []).extend(one.reader.notes)
        where = {"source": self._source, "kind": one.reader.kind}
        machine = one.reader.host or one.host
        numbers = {
            host: self._outputs + n for n, host in enumerate(dict.fromkeys(told.host for told in one.reader.told))
        }
        for told in one.reader.told:  # what it tells of several machines counts as an output of each
            row = {**where, **told._asdict(), "output": numbers[told.host], "host": told.host or machine}
            self.rows.append(row)
        numbered = {**where, "output": self._outputs}
        self.operations += [{**numbered, **operation} for operation in one.reader.operations]
        self._outputs += max(1, len(numbers))


def _lines_with(block: bytes, pattern: str, also: str = "") -> set[int]:
    """Lines that hold both. For all lines at once: one by one, the search takes a hundred times as long."""
    lines = text_lines(block, pl.col("text").str.contains(pattern))
    return set(lines.filter(pl.col("text").str.contains(also)).get_column("_line"))
