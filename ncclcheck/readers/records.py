"""Records one by one, as `ncclcheck parse` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from ncclcheck.readers.events import Blocks, Events, read_events
from ncclcheck.readers.finding import AROUND


def parse_records(*sources: Blocks) -> Iterator[dict[str, Any]]:
    """One dict per NCCL record of the inputs, and per line around them that tells how the job went, in their order.

    Several small inputs together take hardly longer than one of them. As in a check, what only one of them says of its
    release holds for the others.

    Keys: path, line, record (number within the line), event (None where unrecognised), level (None: not NCCL's line),
    host, pid, tid, cuda_dev, timestamp, fields.
    """
    events = read_events(sources)
    rows: list[_Row] = []
    for event in events.tables:
        frame = events.typed(event)
        assert frame is not None
        rows.extend(_rows(event, frame))
    if events.unrecognised is not None:
        for row in events.unrecognised.iter_rows(named=True):
            rows.append((_place(row), None, row, {"text": row["message"]}))
    rows.sort(key=lambda row: row[0])
    heads = _heads(events)
    for (source, line, record), name, row, fields in rows:
        who = heads[row["_head"]]
        location = {key: who[key] for key in ("src_file", "src_line", "src_func") if who[key] is not None}
        yield {
            "path": sources[source].name,
            "line": line,
            "record": record,
            "event": name,
            "level": None if row["_level"] == AROUND else row["_level"],
            "host": who["host"],
            "pid": who["pid"],
            "tid": who["tid"],
            "cuda_dev": who["device"],
            "timestamp": row["_time"],
            "fields": {**location, **fields},
        }


# (input, line, record), event, the record's own columns, fields
_Row = tuple[tuple[int, int, int], str | None, dict[str, Any], dict[str, Any]]


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
