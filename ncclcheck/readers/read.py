"""One way in: sources to fact tables, whatever kinds of evidence they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from ncclcheck.facts.schema import conform
from ncclcheck.readers.events import Blocks, read_events
from ncclcheck.readers.nccl_log import WANTED, log_tables

if TYPE_CHECKING:  # loaded when a block looks like theirs: most logs hold neither
    from ncclcheck.readers.device_names import DeviceName
    from ncclcheck.readers.topo_matrix import Matrix

# Blocks that may hold a matrix (`GPU0`) or device names; the readers themselves make sure.
_MATRIX = re.compile(rb"GPU[0-9]")
_DEVICE_NAMES = re.compile(rb"#\s+Rank\s+\d|GPU \d+: ")


class InputReading(NamedTuple):
    """What one input held: kinds of evidence, all lines, NCCL records with and without a known form."""

    kinds: tuple[str, ...]
    lines: int
    recognised: int
    unrecognised: int


class Reading(NamedTuple):
    """tables: the fact tables that have rows. inputs: one per source, in order."""

    tables: Mapping[str, pl.DataFrame]
    inputs: tuple[InputReading, ...]


def read_sources(sources: Sequence[Blocks]) -> Reading:
    """Read every source once; readers of all kinds look at the same blocks."""
    other = _OtherKinds()
    events = read_events(sources, WANTED, other.look)
    tables = {**log_tables(events), **other.tables()}
    inputs = []
    for index, count in enumerate(events.counts):
        kinds = ["nccl-log"] if count.recognised or count.unrecognised else []
        kinds += sorted(other.kinds.get(index, ()))
        inputs.append(InputReading(tuple(kinds), count.lines, count.recognised, count.unrecognised))
    return Reading(tables, tuple(inputs))


@dataclass
class _OtherKinds:
    """Matrices and device names, found while the log reader works on the same blocks."""

    kinds: dict[int, set[str]] = field(default_factory=dict)
    _matrices: list[tuple[int, Matrix]] = field(default_factory=list)
    _names: list[tuple[int, DeviceName]] = field(default_factory=list)

    def look(self, source: int, block: bytes, first_line: int) -> None:
        if _MATRIX.search(block):
            from ncclcheck.readers.topo_matrix import may_hold_matrix, read_matrices

            found = read_matrices(_lines(block, first_line)) if may_hold_matrix(block) else []
            self._matrices.extend((source, one) for one in found)
            if found:
                self.kinds.setdefault(source, set()).add("topo-matrix")
        if _DEVICE_NAMES.search(block):
            from ncclcheck.readers.device_names import find_device_names

            named = find_device_names(_lines(block, first_line))
            self._names.extend((source, one) for one in named)
            if named:
                self.kinds.setdefault(source, set()).add("device-names")

    def tables(self) -> dict[str, pl.DataFrame]:
        tables = {}
        if self._names:
            rows = [
                {"source": source, "line": n.line, "host": n.host, "pid": n.pid, "rank": n.rank,
                 "device": None if n.device is None else str(n.device), "name": n.name}
                for source, n in self._names
            ]  # fmt: skip
            tables["gpu_names"] = conform("gpu_names", pl.DataFrame(rows, infer_schema_length=None))
        if self._matrices:
            tables |= _matrix_tables(self._matrices)
        return tables


def _lines(block: bytes, first_line: int) -> list[tuple[int, str]]:
    return list(enumerate(block.decode("utf-8", "backslashreplace").split("\n"), first_line))


def _matrix_tables(found: Sequence[tuple[int, Matrix]]) -> dict[str, pl.DataFrame]:
    matrices, devices, cells = [], [], []
    for block, (source, matrix) in enumerate(found):
        matrices.append(
            {"block": block, "source": source, "line": matrix.first_line, "kind": matrix.kind,
             "complete": matrix.complete, "nvlink_hidden": matrix.nvlink_hidden}
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
