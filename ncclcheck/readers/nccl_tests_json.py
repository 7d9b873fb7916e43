"""Reads what nccl-tests writes with `-J file`: one JSON object, on one line or laid out by somebody's tool.

It holds the whole environment of rank 0, of which nothing is kept. A run that was killed leaves the object without its
end: the rows that are whole are read all the same, and the table says that it is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ncclcheck.readers.nccl_tests import Half, PerfDevice, PerfRow, PerfTable

_BEGINS = re.compile(r'\{\s*"(?:version|start_time|args|config|results)"\s*:')
_ROW = re.compile(r'"size"\s*:')
# C prints an infinite number in a way that is not JSON.
_INFINITE = re.compile(r"(?<=[:,\[])\s*(-?inf)\b")
# Characters of one laid-out object: with the times of every iteration it may be long, but not this long.
_MOST_CHARACTERS = 32 << 20
_SETTINGS = {
    "nthreads": "threads", "ngpus": "gpus", "minimum_bytes": "min_bytes", "maximum_bytes": "max_bytes",
    "warmup_iters": "warmup", "iterations": "iters", "aggregated_iterations": "aggregated", "validation": "validation",
    "graph": "graph",
}  # fmt: skip
_DECODER = json.JSONDecoder(parse_float=str)


class JsonReader:
    """Takes the lines of one input in order, in as many calls as one likes."""

    def __init__(self) -> None:
        self._begun: list[str] = []  # lines of a laid-out object
        self._line = 0
        self._characters = 0
        self._done: list[PerfTable] = []

    @property
    def is_waiting(self) -> bool:
        """An object has begun and has not ended."""
        return bool(self._begun)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in lines:
            if self._begun:
                self._go_on(text)
            elif text.strip() == "{":
                self._begun, self._line, self._characters = [text], number, 1
            elif found := _BEGINS.search(text):
                self._take(text[found.start() :], number)

    def finish(self) -> list[PerfTable]:
        """The input ends: all tables, in order."""
        if self._begun:
            self._take("\n".join(self._begun), self._line)
            self._begun = []
        return self._done

    def _go_on(self, text: str) -> None:
        self._begun.append(text)
        self._characters += len(text)
        ends = text.startswith(self._begun[0].partition("{")[0] + "}")
        if ends or self._characters > _MOST_CHARACTERS:
            self._take("\n".join(self._begun), self._line)
            self._begun = []

    def _take(self, text: str, line: int) -> None:
        if '"config"' not in text and '"results"' not in text:
            return
        text = _INFINITE.sub(r'"\1"', text)
        try:
            document, cut = _DECODER.raw_decode(text.lstrip())[0], False
        except (ValueError, RecursionError):
            document, cut = _whole_parts(text), True
        if not _is_perf(document):
            return
        table = _table(document, line, [line + text.count("\n", 0, one.start()) for one in _ROW.finditer(text)])
        table.cut = cut
        self._done.append(table)


def _whole_parts(text: str) -> dict[str, Any]:
    """What of an object that ends too early can be read: whole values, and the whole rows of the results."""
    found: dict[str, Any] = {}
    for key in ("args", "nccl_version", "config"):
        begin = re.search(rf'"{key}"\s*:\s*', text)
        if begin:
            found[key], _ = _value(text, begin.end())
    begin = re.search(r'"results"\s*:\s*\[\s*', text)
    position = begin.end() if begin else len(text)
    rows = []
    while text.startswith("{", position):
        row, end = _value(text, position)
        if row is None:
            break
        rows.append(row)
        following = re.compile(r"\s*,\s*").match(text, end)
        if following is None:
            break
        position = following.end()
    found["results"] = rows
    return found


def _value(text: str, position: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, position


def _is_perf(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    config, results = document.get("config"), document.get("results")
    rows = results if isinstance(results, list) else []
    return (isinstance(config, dict) and "nthreads" in config) or any(
        isinstance(row, dict) and "out_of_place" in row for row in rows
    )


def _table(document: Mapping[str, Any], line: int, row_lines: list[int]) -> PerfTable:
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    table = PerfTable(line, program=_program(document.get("args")))
    table.settings = {name: config[key] for key, name in _SETTINGS.items() if _is_count(config.get(key))}
    listed = config.get("devices", document.get("devices"))
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and _is_count(one.get("rank")):
            group = one["group"] if _is_count(one.get("group")) else 0
            model = one.get("device_info")
            host = str(one.get("hostname", ""))[:255]
            table.devices.append(PerfDevice(one["rank"], group, host, model[:120] if isinstance(model, str) else None))
    # nccl-tests writes the first device of each process
    each = table.settings.get("threads", 1) * table.settings.get("gpus", 1)
    if each > 1 and all(device.rank % each == 0 for device in table.devices):
        table.ranks_each = each
    results = document.get("results")
    rows = [row for row in results if isinstance(row, dict)] if isinstance(results, list) else []
    lines = row_lines if len(row_lines) >= len(rows) else [line] * len(rows)
    for at, row in zip(lines, rows, strict=False):
        size, count = row.get("size"), row.get("count")
        if _is_count(size) and _is_count(count):
            table.rows.append(_row(row, at))
    table.cpu_time = any("cpu_time" in (row.get("out_of_place") or ()) for row in rows)
    average, wrong = document.get("average_bus_bandwidth"), document.get("out_of_bounds")
    if isinstance(average, dict) and isinstance(average.get("bandwidth"), str | int):
        table.average = _number(average["bandwidth"])
    if isinstance(wrong, dict) and _is_count(wrong.get("count")):
        table.wrong_values = wrong["count"]
    table.concluded = "end_time" in document or table.average is not None
    return table


def _row(row: Mapping[str, Any], line: int) -> PerfRow:
    root, redop = str(row.get("root", "")).strip(), row.get("redop")
    return PerfRow(
        line,
        row["size"],
        row["count"],
        str(row.get("type")),
        redop if isinstance(redop, str) else None,
        int(root) if root.lstrip("-").isdecimal() and len(root) < 10 else None,
        _half(row.get("out_of_place")),
        _half(row.get("in_place")),
    )


def _half(half: object) -> Half | None:
    if not isinstance(half, dict):
        return None
    wrong = half.get("nwrong")
    time, algbw, busbw = (half.get(key) for key in ("time", "alg_bw", "bus_bw"))
    time = half.get("cpu_time") if time is None else time
    if None in (time, algbw, busbw):
        return None
    return Half(str(time), str(algbw), str(busbw), None if wrong is None else str(wrong))


def _program(args: object) -> str:
    first = args[0] if isinstance(args, list) and args else ""
    return first.rpartition("/")[2][:64] if isinstance(first, str) else ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(text: str | int) -> float | None:
    try:
        return float(text)
    except (ValueError, OverflowError):
        return None
