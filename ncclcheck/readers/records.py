"""Records one by one, as `ncclcheck parse` prints them: NCCL's, lines around them, and rows of nccl-tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclcheck.readers.decoding import lines_with
from ncclcheck.readers.events import Blocks, Events, read_events
from ncclcheck.readers.finding import AROUND, Piece
from ncclcheck.readers.hints import PERF_LINE

if TYPE_CHECKING:
    from ncclcheck.readers.perf import PerfTables


def parse_records(*sources: Blocks) -> Iterator[dict[str, Any]]:
    """One dict per NCCL record of the inputs, per line around them that tells how the job went, and per row of an
    nccl-tests table, in their order.

    Several small inputs together take hardly longer than one of them. As in a check, what only one of them says of its
    release holds for the others.

    Keys: path, line, kind ("nccl-log", "job-output" or "nccl-tests"), record (number within the line), event (None
    where unrecognised), level (None: not NCCL's line), host, pid, tid, cuda_dev, timestamp, fields. Rows of nccl-tests
    have path, line, kind, and as fields what is told of them in the fact table `measurements`.
    """
    perf = _Measured()
    events = read_events(sources, watch=perf.look)
    rows: list[_Row] = []
    for event in events.tables:
        frame = events.typed(event)
        assert frame is not None
        rows.extend(_rows(event, frame))
    if events.unrecognised is not None:
        for row in events.unrecognised.iter_rows(named=True):
            rows.append((_place(row), None, row, {"text": row["message"]}))
    rows += perf.rows()
    rows.sort(key=lambda row: row[0])
    heads = _heads(events)
    for (source, line, record), name, row, fields in rows:
        place = {"path": sources[source].name, "line": line}
        if name == PERF:
            yield {**place, "kind": PERF, "fields": fields}
            continue
        who = heads[row["_head"]]
        location = {key: who[key] for key in ("src_file", "src_line", "src_func") if who[key] is not None}
        around = row["_level"] == AROUND
        yield {
            **place,
            "kind": "job-output" if around else "nccl-log",
            "record": record,
            "event": name,
            "level": None if around else row["_level"],
            "host": who["host"],
            "pid": who["pid"],
            "tid": who["tid"],
            "cuda_dev": who["device"],
            "timestamp": row["_time"],
            "fields": {**location, **fields},
        }


PERF = "nccl-tests"
_PLACE = ("source", "line")

# (input, line, record), event, the record's own columns, fields
_Row = tuple[tuple[int, int, int], str | None, dict[str, Any], dict[str, Any]]


@dataclass
class _Measured:
    """nccl-tests tables, found while the log reader works on their blocks."""

    _tables: PerfTables | None = None

    def look(self, piece: Piece, other: bool) -> None:
        if not other and not (self._tables is not None and self._tables.is_waiting):
            return
        lines = lines_with(piece.block, PERF_LINE)
        if self._tables is None and lines.height:
            from ncclcheck.readers.perf import PerfTables

            self._tables = PerfTables()
        if self._tables is not None:
            self._tables.look(piece, lines)

    def rows(self) -> Iterator[_Row]:
        if self._tables is None:
            return
        self._tables.finish()
        for row in self._tables.rows:
            fields = {name: value for name, value in row.items() if name not in _PLACE and value not in (None, [])}
            yield (row["source"], row["line"], 0), PERF, row, fields


def _rows(event: str, frame: pl.DataFrame) -> Iterator[_Row]:
    for row in frame.iter_rows(named=True):
        fields = {name: _plain(value) for name, value in row.items() if not name.startswith("_") and value is not None}
        yield _place(row), event, row, fields


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["_source"], row["_line"], row["_record"]


def _plain(value: Any) -> Any:
    """Lists of structs without their nulls."""
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, dict):
        members = {name: _plain(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, {})}
    return value


def _heads(events: Events) -> dict[int, dict[str, Any]]:
    return {row["_head"]: row for row in events.processes.iter_rows(named=True)}
