"""All that is no record of NCCL: matrices, topology files, tables of nccl-tests, outputs of tools, names, settings.

Readers of all these kinds look at the blocks that the log reader works on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclcheck.facts.schema import TABLES, conform
from ncclcheck.readers.decoding import lines_with, numbered_lines
from ncclcheck.readers.events import Count
from ncclcheck.readers.finding import Piece
from ncclcheck.readers.hints import ASSIGNS, FOLDED, PERF_LINE

if TYPE_CHECKING:  # loaded when a block looks like theirs: most logs hold neither
    from ncclcheck.readers.device_names import DeviceName
    from ncclcheck.readers.perf import PerfTables
    from ncclcheck.readers.telemetry.outputs import Outputs
    from ncclcheck.readers.topo_matrix import Matrix, MatrixReader
    from ncclcheck.readers.topo_xml import Document, XmlReader

# Blocks that may hold a matrix (`GPU0`) or device names; the readers themselves make sure.
_MATRIX = re.compile(rb"GPU[0-9]")
# Two patterns, each with a first byte to look for: together they take eight times as long.
_DEVICE_NAMES = (re.compile(rb"#\s+Rank\s+\d"), re.compile(rb"GPU \d+: "))
# What begins a topology file or a piece of one.
_XML = re.compile(rb"<(?:system|graphs|(?:cpu|pci|gpu|graph) )")
# A command this near the end of a block may print its table into the next one.
_END_BYTES = 8192
# What is told of the damage of one matrix.
_PROBLEMS_SAID = 3
# Lines kept of each setting that scripts repeat.
_LINES_KEPT = 4


@dataclass
class OtherKinds:
    """Matrices, topology files, device names and settings of scripts, found while the log reader works on their blocks.

    A table or a file may lie across the border of two blocks: its reader lives as long as the input.
    """

    kinds: dict[int, set[str]] = field(default_factory=dict)
    notes: dict[int, list[str]] = field(default_factory=dict)
    _source: int = -1
    _matrix_reader: MatrixReader | None = None
    _xml_reader: XmlReader | None = None
    _perf: PerfTables | None = None
    _outputs: Outputs | None = None
    _folded: set[int] = field(default_factory=set)
    _matrices: list[tuple[int, Matrix]] = field(default_factory=list)
    _documents: list[tuple[int, Document]] = field(default_factory=list)
    _names: list[tuple[int, DeviceName]] = field(default_factory=list)
    _assigned: dict[tuple[int, str, str], list[int]] = field(default_factory=dict)

    def look(self, piece: Piece, other: bool) -> None:
        """other: some line of the piece may be of a kind that is read here."""
        if piece.source != self._source:
            self._finish()
            self._source = piece.source
        if other and FOLDED.encode() in piece.block:
            self._folded.add(piece.source)
        if other or self._is_waiting:
            self._look_closer(piece)

    @property
    def _is_waiting(self) -> bool:
        """Does some reader want more lines?"""
        readers = (self._matrix_reader, self._xml_reader, self._perf, self._outputs)
        return any(reader is not None and reader.is_waiting for reader in readers)

    def _look_closer(self, piece: Piece) -> None:
        source, block, first_line = piece
        self._look_for_matrices(block, first_line)
        self._look_for_files(block, first_line)
        self._look_for_measurements(piece)
        self._look_for_outputs(piece)
        if any(pattern.search(block) for pattern in _DEVICE_NAMES):
            from ncclcheck.readers.device_names import find_device_names

            named = find_device_names(numbered_lines(block, first_line))
            self._names.extend((source, one) for one in named)
            if named:
                self._note("device-names")
        if any(assigns.search(block) for assigns in ASSIGNS):
            self._look_for_assignments(block, first_line)

    def _look_for_assignments(self, block: bytes, first_line: int) -> None:
        """The first lines of each variable and value: a dump of 10,000 ranks says the same 10,000 times."""
        from ncclcheck.readers.assignments import find_assignments

        for line, name, value in find_assignments(block, first_line):
            lines = self._assigned.setdefault((self._source, name, value), [])
            if len(lines) < _LINES_KEPT:
                lines.append(line)
            self._note("settings")

    def _look_for_matrices(self, block: bytes, first_line: int) -> None:
        waiting = self._matrix_reader is not None and self._matrix_reader.is_waiting
        commanded = b"nvidia-smi" in block[-_END_BYTES:]
        if not (waiting or commanded or _MATRIX.search(block)):
            return
        from ncclcheck.readers.topo_matrix import MatrixReader, may_hold_matrix

        if waiting or commanded or may_hold_matrix(block):
            self._matrix_reader = self._matrix_reader or MatrixReader()
            self._matrix_reader.read(numbered_lines(block, first_line))

    def _look_for_files(self, block: bytes, first_line: int) -> None:
        waiting = self._xml_reader is not None and self._xml_reader.is_waiting
        if waiting or _XML.search(block):
            from ncclcheck.readers.topo_xml import XmlReader

            self._xml_reader = self._xml_reader or XmlReader()
            self._xml_reader.read(numbered_lines(block, first_line))

    def _look_for_measurements(self, piece: Piece) -> None:
        lines = lines_with(piece.block, PERF_LINE)
        if self._perf is None and lines.height:
            from ncclcheck.readers.perf import PerfTables

            self._perf = PerfTables()
        if self._perf is not None:
            self._perf.look(piece, lines)

    def _look_for_outputs(self, piece: Piece) -> None:
        if self._outputs is None:
            from ncclcheck.readers.telemetry.outputs import Outputs

            self._outputs = Outputs()
        self._outputs.look(piece)

    def _finish(self) -> None:
        """The input has ended."""
        if self._outputs is not None:
            self._outputs.finish()
        if self._matrix_reader is not None:
            for matrix in self._matrix_reader.finish():
                self._matrices.append((self._source, matrix))
                self._note("topo-matrix")
                if matrix.problems:
                    self._say({self._source: _odd(matrix)})
        if self._xml_reader is not None:
            for document in self._xml_reader.finish():
                self._documents.append((self._source, document))
                self._note(document.kind)
        self._matrix_reader = self._xml_reader = None

    def _note(self, kind: str) -> None:
        self.kinds.setdefault(self._source, set()).add(kind)

    def _say(self, notes: Mapping[int, list[str]]) -> None:
        for source, said in notes.items():
            self.notes.setdefault(source, []).extend(said)

    def inputs(self, counts: Sequence[Count]) -> pl.DataFrame:
        rows = [
            {"source": source, "lines": count.lines, "folded": source in self._folded}
            for source, count in enumerate(counts)
        ]
        return conform("inputs", pl.DataFrame(rows, infer_schema_length=None))

    def tables(self) -> dict[str, pl.DataFrame]:
        """The input has ended, and was the last."""
        self._finish()
        tables: dict[str, pl.DataFrame] = {}
        rows: list[dict[str, object]] = [
            {"source": source, "line": n.line, "host": n.host, "pid": n.pid, "rank": n.rank,
             "device": None if n.device is None else str(n.device), "name": n.name}
            for source, n in self._names
        ]  # fmt: skip
        if self._documents:
            from ncclcheck.readers.topo_tables import gpu_names, topology_tables

            tables |= topology_tables(self._documents)
            rows += gpu_names(self._documents)
        if self._perf is not None:
            self._perf.finish()
            for source in self._perf.sources:
                self.kinds.setdefault(source, set()).add("nccl-tests")
            self._say(self._perf.notes)
            rows += self._perf.names
            if measured := self._perf.rows:
                tables["measurements"] = conform("measurements", pl.from_dicts(measured, infer_schema_length=None))
        if self._outputs is not None:
            self._say(self._outputs.notes)
            for source, kinds in self._outputs.kinds.items():
                self.kinds.setdefault(source, set()).update(kinds)
            for name, told in (("telemetry", self._outputs.rows), ("inspected", self._outputs.operations)):
                if told:
                    tables[name] = conform(name, pl.from_dicts(told, schema=dict(TABLES[name])))
        if rows:
            tables["gpu_names"] = conform("gpu_names", pl.from_dicts(rows, infer_schema_length=None))
        return tables | _settings_table(self._assigned) | _matrix_tables(self._matrices)


def _odd(matrix: Matrix) -> list[str]:
    """What is odd in a matrix, in one sentence."""
    said = "; ".join(matrix.problems[:_PROBLEMS_SAID])
    more = len(matrix.problems) - _PROBLEMS_SAID
    return [f"the matrix at line {matrix.first_line} is damaged: {said}{f'; and {more} more' if more > 0 else ''}"]


def _settings_table(assigned: Mapping[tuple[int, str, str], list[int]]) -> dict[str, pl.DataFrame]:
    """assigned: lines by input, variable and value."""
    rows = [
        {"source": source, "line": line, "name": name, "value": value, "origin": "script"}
        for (source, name, value), lines in assigned.items()
        for line in lines
    ]
    return {"settings": conform("settings", pl.DataFrame(rows, infer_schema_length=None))} if rows else {}


def _matrix_tables(found: Sequence[tuple[int, Matrix]]) -> dict[str, pl.DataFrame]:
    matrices, devices, cells = [], [], []
    for block, (source, matrix) in enumerate(found):
        matrices.append(
            {"block": block, "source": source, "line": matrix.first_line, "kind": matrix.kind,
             "complete": matrix.complete, "damaged": bool(matrix.problems), "nvlink_hidden": matrix.nvlink_hidden}
        )  # fmt: skip
        for device in matrix.devices:
            devices.append(
                {"block": block, "line": device.line, "name": device.name, "kind": device.kind,
                 "rdma_name": device.rdma_name, "cpu_affinity": matrix.cpu_affinity.get(device.name),
                 "numa_affinity": matrix.numa_affinity.get(device.name)}
            )  # fmt: skip
        for (a, b), cell in matrix.cells.items():
            cells.append({"block": block, "line": cell.line, "a": a, "b": b, "path": cell.text, "links": cell.links})
    parts = {"matrices": matrices, "matrix_devices": devices, "matrix_cells": cells}
    return {name: conform(name, pl.DataFrame(rows, infer_schema_length=None)) for name, rows in parts.items() if rows}
