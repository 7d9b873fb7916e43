"""Reads the tables of nccl-tests out of a text: settings, devices, column names, rows, closing lines.

A table may stand anywhere: alone, in a log with NCCL's lines between its own, behind a launcher's label, indented, in
Markdown, with comment signs before its rows, without its head. The grammar `nccl_tests.lark` reads one line; this
module decides which lines belong together. What the rows mean (which collective, how many ranks, which rows to believe)
is settled in `nccl_tests_rows`, for text and JSON alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from ncclcheck.readers.automaton import BLOCK_TABLES, Automaton, Field
from ncclcheck.readers.framing import TIME
from ncclcheck.readers.labels import parse_label


@dataclass(frozen=True, slots=True)
class Half:
    """One way a row was measured, as printed: time in us, algbw and busbw in GB/s, wrong values (None: not checked).

    relative: the column is the old `error`, the largest relative error, in place of a count.
    """

    time: str
    algbw: str
    busbw: str
    wrong: str | None
    relative: bool = False


@dataclass(frozen=True, slots=True)
class PerfRow:
    """A row. redop, root: None where the cell or the column is missing. damage: why it has no numbers, or ""."""

    line: int
    size: int
    count: int
    type: str
    redop: str | None = None
    root: int | None = None
    out_of_place: Half | None = None
    in_place: Half | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True)
class PerfDevice:
    rank: int
    group: int
    host: str
    model: str | None


@dataclass(slots=True)
class PerfTable:
    """One run of a test. program: as printed ("all_reduce_perf"); mentioned: by a line before it, which need not be
    its own. settings: of the head, by the grammar's names. ranks_each: ranks of a process whose devices are listed by
    the first alone. cut: its end is missing (JSON)."""

    line: int
    program: str = ""
    mentioned: str = ""
    release: str = ""
    settings: dict[str, int] = field(default_factory=dict)
    devices: list[PerfDevice] = field(default_factory=list)
    ranks_each: int = 1
    columns: tuple[str, ...] | None = None
    rows: list[PerfRow] = field(default_factory=list)
    redops_shown: bool = True
    cpu_time: bool = False
    average: float | None = None
    wrong_values: int | None = None
    concluded: bool = False
    cut: bool = False


_LONGEST_LINE = 1000
# A command may be this far above its table.
_COMMAND_REACH = 2000
# Blanks in place of the out-of-place half, where a test measures in place alone: replays of traces.
_EMPTY_HALF = re.compile(r"[A-Za-z] +-?[0-9]+ {24,}[0-9.]|[a-z] {30,}[0-9.]")
_MARKUP = str.maketrans({"|": " ", "│": " ", "\r": " ", "\0": " ", "\xa0": " ", "\t": " "})
# compose, stern: `pod-0 | `
_POD = re.compile(r"\s*([\w.-]+)\s*\|")
_RECORD = re.compile(r"NCCL (?:INFO|WARN|TRACE|ABORT) ")
_TIME = re.compile(TIME)
_HALF = ("time", "algbw", "busbw", "#wrong")


@cache
def _language() -> tuple[Automaton, re.Pattern[str]]:
    """The grammar, and what finds the place in a line where its language begins."""
    automaton = Automaton(BLOCK_TABLES["nccl_tests"])
    size, count, kind = (f"(?:{automaton.terminals[name].text})" for name in ("SIZE", "COUNT", "TYPE"))
    blank = r"[\s|│]+"  # or the border of a cell
    phrases = [blank.join(map(re.escape, phrase.split())) for phrase in automaton.first_phrases()]
    program = automaton.terminals["PROGRAM"].text
    row = rf"(?<![\w.+-]){size}{blank}{count}{blank}{kind}(?=\s)"
    return automaton, re.compile(rf"{row}|{'|'.join(phrases)}|(?<![a-z0-9_]){program}\b", re.ASCII)


class PerfReader:
    """Takes the lines of one input in order, in as many calls as one likes; one open table per launcher label."""

    def __init__(self) -> None:
        self._open: dict[tuple[str | None, str | None], PerfTable] = {}
        self._done: list[PerfTable] = []
        self._command: tuple[int, str] = (0, "")

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        _, begins = _language()
        for number, text in lines:
            if _RECORD.search(text):
                continue
            found = begins.search(text, 0, _LONGEST_LINE)
            if found:
                self._read(number, text[: found.start()], text[found.start() : _LONGEST_LINE])

    def finish(self) -> list[PerfTable]:
        """The input ends: all tables that have rows, in order."""
        for label in list(self._open):
            self._close(label)
        return sorted(self._done, key=lambda table: table.line)

    def _read(self, number: int, before: str, text: str) -> None:
        text = text.translate(_MARKUP)
        parsed = _language()[0].parse(" ".join(text.split()))
        if parsed is None:
            self._read_torn(number, _label(before), text)
            return
        event, fields = parsed
        if event == "command":
            self._command = (number, fields[0].text)
            return
        if event == "device" and "#" not in before and all(one.name != "bus_id" for one in fields):
            return  # prose that talks of ranks
        label = _label(before)
        table = self._table(label, number, event)
        getattr(self, f"_take_{event}")(table, number, fields, text)

    def _read_torn(self, number: int, label: tuple[str | None, str | None], text: str) -> None:
        """A line that begins as a row of an open table does and is none."""
        table, words = self._open.get(label), text.split()
        if table is None or table.columns is None or len(words) < 3 or not words[0].isdecimal():
            return
        table.rows.append(PerfRow(number, int(words[0]), int(words[1]), words[2], damage="torn"))

    def _table(self, label: tuple[str | None, str | None], number: int, event: str) -> PerfTable:
        """The table that a line of this kind belongs to."""
        table = self._open.get(label)
        if table is not None and _begins_another(table, event):
            self._close(label)
            table = None
        if table is None:
            command_line, command = self._command
            mentioned = command if number - command_line <= _COMMAND_REACH else ""
            table = self._open[label] = PerfTable(number, mentioned=mentioned)
        return table

    def _close(self, label: tuple[str | None, str | None]) -> None:
        table = self._open.pop(label)
        if table.rows:
            self._done.append(table)

    # -- one line of a table: the grammar's fields, and the line itself where blanks tell something

    def _take_release(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.release = fields[0].text

    def _take_starting(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.program = fields[0].text

    def _take_concluded(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.program = table.program or fields[0].text
        table.concluded = True

    def _take_settings(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.settings = {one.name: int(one.text) for one in fields if one.name not in ("step_kind", "rest")}

    def _take_device(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        said = {one.name: one.text.strip() for one in fields}
        group = int(said.get("group", 0))
        table.devices.append(PerfDevice(int(said["rank"]), group, said["host"], said.get("model")))

    def _take_columns(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.columns = tuple(one.text for one in fields)
        table.redops_shown = "redop" in table.columns
        table.cpu_time = "cputime" in table.columns

    def _take_row(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        size, count, kind, *cells = fields
        row = _row(table.columns, cells, in_place_only=_EMPTY_HALF.search(text) is not None)
        if row is None:
            if table.columns is not None:
                table.rows.append(PerfRow(number, int(size.text), int(count.text), kind.text, damage="torn"))
            return
        redop, root, halves = row
        table.rows.append(PerfRow(number, int(size.text), int(count.text), kind.text, redop, root, *halves))

    def _take_out_of_bounds(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.wrong_values = int(fields[0].text)
        table.concluded = True

    def _take_average(self, table: PerfTable, number: int, fields: Sequence[Field], text: str) -> None:
        table.concluded = True
        try:
            table.average = float(fields[0].text)
        except ValueError:  # a placeholder
            table.average = None


def _begins_another(table: PerfTable, event: str) -> bool:
    """Does a line of this kind begin a new table while this one is open?"""
    if event in ("release", "starting", "settings"):  # in this order
        has_begun = {"release": bool(table.release or table.program), "starting": bool(table.program)}
        return bool(table.rows or table.columns or table.settings) or has_begun.get(event, False)
    if event == "device":
        return bool(table.rows or table.columns)
    if event == "columns":
        return bool(table.rows)
    return event == "row" and table.concluded


def _label(before: str) -> tuple[str | None, str | None]:
    """Who printed a line, by what stands before the table's part of it."""
    before = _TIME.sub("", before).rstrip(" \t#")
    label = parse_label(before + " ")
    pod = _POD.match(before)
    return (label.task, pod[1] if pod else label.host)


def _row(
    columns: Sequence[str] | None, cells: Sequence[Field], in_place_only: bool
) -> tuple[str | None, int | None, tuple[Half | None, Half | None]] | None:
    """redop, root and the two halves of a row's cells (those behind the type). None: they do not fit the columns."""
    first, second, tail = _halves(columns)
    for halves in ((first, second), (first,)):
        names = [name for half in halves for name in half] + list(tail)
        split = len(cells) - len(names)
        if not 0 <= split <= 2:
            continue
        ids, values = _ids(cells[:split]), dict(enumerate(cells[split:]))
        found = [_half(half, values, index * len(first)) for index, half in enumerate(halves)]
        if ids is None or None in found:
            continue
        if len(found) == 1:
            found = [None, *found] if in_place_only else [*found, None]
        return (*ids, (found[0], found[1]))
    return None


def _halves(columns: Sequence[str] | None) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Names of the columns measured out of place, in place, and of what stands behind them."""
    if columns is None:
        return _HALF, _HALF, ()
    starts = [index for index, name in enumerate(columns) if name in ("time", "cputime")]
    if len(starts) < 2:
        return columns[starts[0] :] if starts else _HALF, (), ()
    length = starts[1] - starts[0]
    end = starts[1] + length
    return columns[starts[0] : starts[1]], columns[starts[1] : end], columns[end:]


def _ids(cells: Sequence[Field]) -> tuple[str | None, int | None] | None:
    redop, root = None, None
    for cell in cells:
        if cell.name in ("redop", "word") and redop is None and root is None:
            redop = cell.text
        elif cell.name == "number" and cell.text.lstrip("-").isdecimal() and len(cell.text) < 10 and root is None:
            root = int(cell.text)
        else:
            return None
    return redop, root


def _half(names: Sequence[str], values: dict[int, Field], start: int) -> Half | None:
    """The half whose columns begin at `start`. None: a number is none, or a word stands in its place."""
    told: dict[str, str | None] = {}
    for index, name in enumerate(names):
        cell = values[start + index]
        if name in ("time", "cputime", "algbw", "busbw") and cell.name not in ("number", "placeholder"):
            return None
        if name in ("#wrong", "error") and cell.name not in ("number", "placeholder", "unchecked"):
            return None
        told["time" if name == "cputime" else name] = None if cell.name == "unchecked" else cell.text
    time, algbw, busbw = told.get("time"), told.get("algbw"), told.get("busbw")
    if time is None or algbw is None or busbw is None:
        return None
    relative = "error" in told
    return Half(time, algbw, busbw, told["error"] if relative else told.get("#wrong"), relative)
