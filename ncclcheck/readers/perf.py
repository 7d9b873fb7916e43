"""Everything that nccl-tests left in the inputs, as text or as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from ncclcheck.readers.decoding import numbered_lines
from ncclcheck.readers.finding import Piece
from ncclcheck.readers.hints import PERF_JSON
from ncclcheck.readers.nccl_tests import PerfReader, PerfTable
from ncclcheck.readers.nccl_tests_json import JsonReader
from ncclcheck.readers.nccl_tests_rows import measurement_rows

_JSON = re.compile(PERF_JSON)


class PerfTables:
    """Both readers on the blocks of all inputs, one input after the other.

    rows: of the fact table `measurements`. names: of the fact table `gpu_names`, what JSON says of devices (in a text
    their lines are found without a table, too). notes: by input, sentences about what could not be used.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.names: list[dict[str, Any]] = []
        self.notes: dict[int, list[str]] = {}
        self._source = -1
        self._tables = 0
        self._text, self._json = PerfReader(), JsonReader()

    @property
    def sources(self) -> set[int]:
        """Inputs that hold anything of nccl-tests."""
        return {row["source"] for row in self.rows} | self.notes.keys()

    @property
    def is_waiting(self) -> bool:
        """The next lines must be seen whatever they look like."""
        return self._json.is_waiting

    def look(self, piece: Piece, lines: pl.DataFrame) -> None:
        """Pieces of an input come in order. lines: those that matter, by `hints.PERF_LINE`."""
        source, block, first_line = piece
        if source != self._source:
            self.finish()
            self._source = source
        texts = [(first_line + number, text) for number, text in lines.iter_rows()]
        self._text.read(texts)
        if self.is_waiting or any(_JSON.search(text) for _, text in texts):
            self._json.read(numbered_lines(block, first_line))

    def finish(self) -> None:
        """The input has ended."""
        documents = self._json.finish()
        tables = sorted([*self._text.finish(), *documents], key=lambda table: table.line)
        self._text, self._json = PerfReader(), JsonReader()
        rows = list(measurement_rows(self._source, tables, self._tables))
        self._tables += len(tables)
        self.rows += rows
        self.names += [
            {"source": self._source, "line": table.line, "host": device.host, "rank": device.rank, "name": device.model}
            for table in documents
            for device in table.devices
            if device.model
        ]
        if notes := [*_cut(tables), *_refused(rows)]:
            self.notes[self._source] = notes


def _cut(tables: Sequence[PerfTable]) -> list[str]:
    return [
        f"line {table.line}: the JSON of nccl-tests ends in the middle; the rows before that are read"
        if table.rows
        else f"line {table.line}: the JSON of nccl-tests ends before its first row"
        for table in tables
        if table.cut
    ]


def _refused(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence per reason."""
    lines: dict[str, list[int]] = {}
    for row in rows:
        if row["refused"]:
            lines.setdefault(row["refused"], []).append(row["line"])
    return [
        f"line {at[0]}{f' and {len(at) - 1} more' if len(at) > 1 else ''} of an nccl-tests table not used: {reason}"
        for reason, at in lines.items()
    ]
