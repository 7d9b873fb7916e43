"""Records one by one, as `ncclcheck parse` prints them: NCCL's, lines around them, and what other inputs tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from ncclcheck.facts.telemetry_keys import HIDDEN
from ncclcheck.readers.events import Blocks, Events, read_events
from ncclcheck.readers.finding import AROUND
from ncclcheck.readers.other_kinds import OtherKinds


def parse_records(*sources: Blocks) -> Iterator[dict[str, Any]]:
    """One dict per NCCL record of the inputs, per line around them that tells how the job went, and per row of the
    fact tables that other inputs fill, in their order.

    Several small inputs together take hardly longer than one of them. As in a check, what only one of them says of its
    release holds for the others.

    Keys: path, line, kind ("nccl-log" or "job-output"), record (number within the line), event (None where
    unrecognised), level (None: not NCCL's line), host, pid, tid, cuda_dev, timestamp, fields. What is no record has
    path, line, kind ("nccl-tests", "topo-matrix", "ibstat", ...), and as fields the columns of its fact table.
    """
    others = OtherKinds()
    events = read_events(sources, watch=others.look)
    rows: list[_Row] = []
    for event in events.tables:
        frame = events.typed(event)
        assert frame is not None
        rows.extend(_rows(event, frame))
    if events.unrecognised is not None:
        for row in events.unrecognised.iter_rows(named=True):
            rows.append((_place(row), None, row, {"text": row["message"]}))
    for kind, source, line, fields in _other_rows(others.tables()):
        rows.append(((source, line, 0), None, {"_other": kind}, fields))
    rows.sort(key=lambda row: row[0])
    heads = _heads(events)
    for (source, line, record), name, row, fields in rows:
        place = {"path": sources[source].name, "line": line}
        if "_other" in row:
            yield {**place, "kind": row["_other"], "fields": fields}
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


# (input, line, record), event, the record's own columns, fields
_Row = tuple[tuple[int, int, int], str | None, dict[str, Any], dict[str, Any]]

# Tables of other kinds, their kind where no column of theirs tells it, and columns that say where and not what.
_OTHERS = {
    "measurements": "nccl-tests", "telemetry": "", "inspected": "", "matrix_devices": "topo-matrix",
    "matrix_cells": "topo-matrix", "topo_nodes": "topo-xml", "graph_files": "graph-xml", "gpu_names": "device-names",
    "settings": "settings",
}  # fmt: skip
_PLACE = ("source", "line", "kind")


def _other_rows(tables: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """(kind, input, line, fields) of everything that is no record."""
    for name, kind in _OTHERS.items():
        if name not in tables:
            continue
        frame = tables[name]
        for part, key in (("matrices", "block"), ("topo_files", "file")):
            if key in frame.columns and part in tables:
                frame = frame.join(tables[part].select(key, "source"), on=key, how="left", maintain_order="left")
        if name == "telemetry":
            frame = frame.filter(~pl.col("key").is_in(list(HIDDEN)))
        for row in frame.iter_rows(named=True):
            fields = {name: value for name, value in row.items() if name not in _PLACE and value not in (None, [])}
            if kind and row.get("kind"):
                fields["kind"] = row["kind"]
            yield kind or row["kind"], row["source"], row["line"], fields


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
