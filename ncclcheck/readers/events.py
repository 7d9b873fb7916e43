"""All NCCL records of all inputs: a table per event, and the processes that printed them."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import polars as pl

from ncclcheck.readers import calls, meaning, release, windows
from ncclcheck.readers.finding import Piece
from ncclcheck.readers.framing import Head, parse_head
from ncclcheck.readers.projection import DAMAGE, Block, EventTable, Projection, joined

# Blocks under way at once. Polars works outside of Python's lock, so threads keep the cores busy.
_WORKERS = min(4, 2 * (os.cpu_count() or 1))

# Files of single processes are small, and Polars takes as long for ten lines as for a thousand: they are read together.
_BATCH_BYTES = 1 << 20

# Lines of unknown form that are kept as evidence, per input.
MOST_UNKNOWN = 4

# Takes a piece of an input, and whether some line of it may be of another kind than NCCL's records.
Watch = Callable[[Piece, bool], None]


class Blocks(Protocol):
    """What this package needs of an input: a name and blocks of whole lines with the number of their first line."""

    name: str

    def blocks(self) -> Iterator[tuple[bytes, int]]: ...


@dataclass
class Count:
    """Lines of one input; its NCCL records with and without an event, and by level word."""

    lines: int = 0
    recognised: int = 0
    unrecognised: int = 0
    levels: Counter[str] = field(default_factory=Counter)


class Parts(NamedTuple):
    """rows: the columns of `RECORD` and those of `key`. texts: typed fields by `key`."""

    rows: pl.DataFrame
    texts: pl.DataFrame
    key: list[str]

    def joined(self) -> pl.DataFrame:
        """A row per record, without the key."""
        if len(self.key) == 1:
            return joined(self.rows, self.texts)
        rows = self.rows.join(self.texts, on=self.key, how="left", nulls_equal=True, maintain_order="left")
        return rows.drop(self.key)


@dataclass
class Events:
    """counts: one per input, in order. heads: (input, what stood before the level word), in the order of `_head`.
    tables: per event the records of all inputs, fields as text. A WARN of a wording that no event has is the event
    "warn", with its `message`; a known line that tells nothing is the event "known". unrecognised: other records that
    no event matched, with `message`. damage: lines that are not as their writers wrote them (`projection.DAMAGE`).
    calls: collectives by message (`calls.CALLS`). shapes: per input, those of its records at INFO.

    A reader that wants only some events keeps the first unknown lines and the last calls, and says so nowhere else.
    """

    counts: list[Count]
    heads: list[tuple[int, str]]
    tables: dict[str, EventTable]
    unrecognised: pl.DataFrame | None
    damage: pl.DataFrame
    calls: pl.DataFrame
    shapes: list[set[str]]

    @cached_property
    def processes(self) -> pl.DataFrame:
        """One row per head, in the order of `_head`: who printed it. `proc` numbers distinct (input, label, host, pid).

        Columns: _source, _head, proc, task, label_host, host, pid, tid, device, src_file, src_line, src_func, release
        (code of the process's own version line, else of the input's or the whole reading's only one, else null),
        release_low, release_high (the same, else what the forms of the input's lines tell, null where they do not).
        """
        rows = []
        numbers: dict[tuple[object, ...], int] = {}
        heads = [(source, parse_head(text)) for source, text in self.heads]
        torn = _torn_hosts(heads)
        # in order of their text: the order of arrival is that of threads
        for index in sorted(range(len(self.heads)), key=self.heads.__getitem__):
            source, h = heads[index]
            host = torn.get((source, h.host, h.pid), h.host)
            identity = (source, h.label.task, h.label.host, host, h.pid)
            proc = numbers.setdefault(identity, len(numbers))
            rows.append((source, index, proc, *identity[1:], h.tid, h.device, h.src_file, h.src_line, h.src_func))
        schema = {name: kind for name, kind in _PROCESSES.items() if not name.startswith("release")}
        table = pl.DataFrame(rows, schema=schema, orient="row").sort("_head")
        table = table.with_columns(release=self._releases(table))
        unknown = table.filter(pl.col("release").is_null()).get_column("_source").unique().to_list()
        found = pl.DataFrame(
            [(source, *windows.window(self.shapes[source])) for source in unknown],
            schema={"_source": pl.UInt32, "low": pl.Int32, "high": pl.Int32},
            orient="row",
        )
        table = table.join(found, on="_source", how="left", maintain_order="left")
        ends = {f"release_{end}": pl.coalesce("release", end) for end in ("low", "high")}
        return table.with_columns(**ends).select(*_PROCESSES)

    def _releases(self, rows: pl.DataFrame) -> pl.Expr:
        """Own version line first; a bare version line speaks for its input; one release in all speaks for all."""
        versions = self.tables.get("version")
        if versions is None:
            return pl.lit(None, pl.Int32)
        seen = (
            versions.joined()
            .select("_source", "_head", release=release.code_of(pl.col("version_text")))
            .drop_nulls("release")
        )
        seen = seen.join(rows.select("_head", "proc", "host"), on="_head", how="left")
        own = dict(seen.filter(pl.col("host").is_not_null()).select("proc", "release").iter_rows())
        per_source = seen.group_by("_source").agg(pl.col("release").unique())
        single = {source: codes[0] for source, codes in per_source.iter_rows() if len(codes) == 1}
        everywhere = seen.get_column("release").unique().to_list()
        return pl.coalesce(
            pl.col("proc").replace_strict(own, default=None, return_dtype=pl.Int32),
            pl.col("_source").replace_strict(single, default=None, return_dtype=pl.Int32),
            pl.lit(everywhere[0] if len(everywhere) == 1 else None, pl.Int32),
        )

    def parts(self, event: str) -> Parts | None:
        """The records of one event and their messages with meaning, apart: many records say the same."""
        table = self.tables.get(event)
        if table is None:
            return None
        if event not in meaning.BY_RELEASE:
            return Parts(table.rows, meaning.typed(event, table.texts), ["_text"])
        ends = self.processes.select(_low="release_low", _high="release_high")
        if ends.n_unique() == 1:
            texts = table.texts.with_columns(pl.lit(ends.item(0, name), pl.Int32).alias(name) for name in ends.columns)
            return Parts(table.rows, meaning.typed(event, texts).drop(ends.columns), ["_text"])
        key = ["_text", *ends.columns]
        rows = table.rows.with_columns(ends[name].gather(table.rows.get_column("_head")) for name in ends.columns)
        texts = rows.select(key).unique(maintain_order=True).join(table.texts, on="_text", how="left")
        return Parts(rows, meaning.typed(event, texts), key)

    def typed(self, event: str) -> pl.DataFrame | None:
        """The records of one event: the columns of `RECORD`, `_proc`, `_tid` and typed fields."""
        parts = self.parts(event)
        if parts is None:
            return None
        rows = parts.joined()
        who = self.processes.select(_proc="proc", _tid="tid")
        return rows.hstack(who[rows.get_column("_head")])

    def at_end(self) -> pl.Expr:
        """Of rows with `source` and `line`: is it the last line of its input?"""
        ends = {source: count.lines for source, count in enumerate(self.counts)}
        return pl.col("line") == pl.col("source").replace_strict(ends, return_dtype=pl.UInt32)


def _torn_hosts(heads: Sequence[tuple[int, Head]]) -> dict[tuple[int, str | None, int | None], str]:
    """By input, host and pid: the host itself, where the end of another line is glued before it (`ringsnode1` for
    `node1`) or its beginning is cut (`de1`). The same pid under the other name, and more often, tells; `my-node1` is a
    name of its own."""
    seen = Counter((source, head.pid, head.host) for source, head in heads if head.host is not None)
    torn: dict[tuple[int, str | None, int | None], str] = {}
    for (source, pid, host), number in seen.items():
        for start in range(1, len(host) - 3):
            end = host[start:]
            if seen.get((source, pid, end), 0) > number and host[start - 1] not in "-._" and not end.isdigit():
                torn[source, host, pid] = end
        for start in range(1, len(host) + 1 if number > 1 else 0):
            if seen.get((source, pid, host[start:])) == 1:
                torn[source, host[start:], pid] = host
    return torn


_PROCESSES = {
    "_source": pl.UInt32,
    "_head": pl.UInt32,
    "proc": pl.UInt32,
    "task": pl.String,
    "label_host": pl.String,
    "host": pl.String,
    "pid": pl.UInt32,
    "tid": pl.UInt32,
    "device": pl.Int32,
    "src_file": pl.String,
    "src_line": pl.Int64,
    "src_func": pl.String,
    "release": pl.Int32,
    "release_low": pl.Int32,
    "release_high": pl.Int32,
}


def read_events(
    sources: Sequence[Blocks],
    wanted: Collection[str] | None = None,
    watch: Watch = lambda piece, other: None,
) -> Events:
    """Read all inputs. wanted: events whose rows are kept (None: all); others are only counted.

    watch: called with every piece of the inputs, in order, for readers of other kinds that look at the same stream.
    """
    projection = Projection(wanted)
    gathering = _Gathering(len(sources), watch, keep_all=wanted is None)
    with ThreadPoolExecutor(_WORKERS) as pool:
        pending: deque[tuple[list[Piece], Future[Block]]] = deque()
        for batch in _batches(sources):
            pending.append((batch, pool.submit(projection.read, batch)))
            if len(pending) > _WORKERS:
                gathering.add(*pending.popleft())
        while pending:
            gathering.add(*pending.popleft())
    return gathering.finish(projection.heads.texts())


def _batches(sources: Sequence[Blocks]) -> Iterator[list[Piece]]:
    """The blocks of all inputs, small ones together."""
    batch: list[Piece] = []
    size = 0
    for index, source in enumerate(sources):
        for block, first_line in source.blocks():
            if batch and size + len(block) > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(Piece(index, block, first_line))
            size += len(block)
    if batch:
        yield batch


class _Gathering:
    """keep_all: every unknown line and every call of a collective."""

    def __init__(self, sources: int, watch: Watch, keep_all: bool) -> None:
        self._watch = watch
        self._keep_all = keep_all
        self._counts = [Count() for _ in range(sources)]
        self._tables: dict[str, list[EventTable]] = {}
        self._unrecognised: list[pl.DataFrame] = []
        self._unknown_kept: Counter[int] = Counter()
        self._damage: list[pl.DataFrame] = []
        self._calls = calls.Calls()
        self._shapes: list[set[str]] = [set() for _ in range(sources)]

    def add(self, batch: Sequence[Piece], future: Future[Block]) -> None:
        block = future.result()
        for piece in batch:
            self._watch(piece, block.other)
        for source, lines in block.lines:
            self._counts[source].lines += lines
        for source, level, records in block.levels:
            self._counts[source].recognised += records
            self._counts[source].levels[level] += records
        self._damage.append(block.damage)
        for source, shape in block.shapes:
            if len(self._shapes[source]) < windows.MOST_SHAPES:
                self._shapes[source].add(shape)
        for event, table in block.events.items():
            if event == calls.EVENT and not self._keep_all:
                self._calls.add(table)
            else:
                self._tables.setdefault(event, []).append(table)
        if block.unrecognised is None:
            return
        rows, texts = block.unrecognised.rows, block.unrecognised.texts
        is_warning = pl.col("_level") == "WARN"
        unknown, warnings = rows.filter(~is_warning), rows.filter(is_warning)
        self._unrecognised.append(EventTable(self._first(unknown, block.damage), texts).joined())
        for source, records in unknown.group_by("_source").len().iter_rows():
            self._counts[source].recognised -= records
            self._counts[source].unrecognised += records
        if warnings.height:
            said = texts.join(warnings, on="_text", how="semi", maintain_order="left")
            self._tables.setdefault("warn", []).append(EventTable(warnings, said))

    def _first(self, unknown: pl.DataFrame, damage: pl.DataFrame) -> pl.DataFrame:
        """The first unknown lines of each input that are not damaged: enough for evidence. (All, if all are kept.)"""
        if self._keep_all:
            return unknown
        full = [source for source, kept in self._unknown_kept.items() if kept >= MOST_UNKNOWN]
        whole = unknown.filter(~pl.col("_source").is_in(full)).join(
            damage, on=["_source", "_line"], how="anti", maintain_order="left"
        )
        first = whole.group_by("_source", maintain_order=True).head(MOST_UNKNOWN)
        self._unknown_kept.update(first.get_column("_source"))
        return first

    def finish(self, heads: list[tuple[int, str]]) -> Events:
        tables = {}
        for event in list(self._tables):
            parts = self._tables.pop(event)
            rows = pl.concat([part.rows for part in parts], how="diagonal")
            texts = pl.concat([part.texts for part in parts], how="diagonal")
            # threads number them, and two may have read the same one
            tables[event] = EventTable(rows, texts.unique("_text").sort("_text"))
        called = pl.DataFrame(schema=calls.CALLS)
        if counted := self._calls.finish():
            tables[calls.EVENT], called = counted
        unknown = pl.concat(self._unrecognised) if self._unrecognised else None
        damage = pl.concat(self._damage) if self._damage else pl.DataFrame(schema=DAMAGE)
        return Events(self._counts, heads, tables, unknown, damage, called, self._shapes)
