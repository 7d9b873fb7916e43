"""The projection: one grammar at the speed of columns.

A block of bytes becomes, for every event in it, a table with a column per field (as text). Messages repeat from rank to
rank: each distinct one is masked once, Lark parses each distinct shape once, and the fields of all messages of an event
are gathered from their slots at a time.

That this gives what parsing every line would give is what `tests/readers/test_projection.py` holds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import Any

import polars as pl

from ncclcheck.facts.releases import release_text
from ncclcheck.readers import framing
from ncclcheck.readers.choices import SLOT
from ncclcheck.readers.distinct import Distinct
from ncclcheck.readers.finding import AROUND, LEVELS, LONGEST_MESSAGE, Piece, Records, find_records
from ncclcheck.readers.folding import fold
from ncclcheck.readers.gathering import fits, gather
from ncclcheck.readers.grammar import ShapeParser, ShapeReading, mask, mask_pattern
from ncclcheck.readers.heads import Heads
from ncclcheck.readers.known_lines import Known, known_lines
from ncclcheck.readers.last_errors import with_last_errors
from ncclcheck.readers.memory import Memory
from ncclcheck.readers.mending import SIGNS, TORN, Found

# Keep memory bounded when a hostile input makes every line a shape of its own.
_MAX_SHAPES = 200_000
# Lists of devices that may be cut are longer: NCCL's limit less a prefix.
_LONG_LIST = 700
# Unknown messages of a block that are looked at once more.
_MOST_CUT = 2_000

# Shapes without an event that are looked up in the table of known lines; NCCL has half as many.
_MOST_LOOKED_UP = 4_000
# The event of records that it knows: their text, subsystem, and the first and last release that prints their form.
KNOWN = "known"

# Lines of one width, the widest, by which one tells that something cut them all there.
_MANY_AS_WIDE = 3

# Most lines are of this event, and of few distinct messages.
_REMEMBERED = "channel_connect"

# Columns that every event's rows have beside its fields (which never begin with "_").
RECORD = {
    "_source": pl.UInt32,  # index of the input
    "_line": pl.UInt32,  # 1-based line of the input
    "_record": pl.UInt32,  # 0, or the number of the record within its line
    "_head": pl.UInt32,  # what stood before the level, as an index into Projection.heads
    "_time": pl.String,  # clock time as written, or null
    "_level": LEVELS,  # AROUND: a line that is not NCCL's
}

# Lines that are not as their writers wrote them. kind: of `mending`, or "cut" where a record ends too early.
DAMAGE = {"_source": pl.UInt32, "_line": pl.UInt32, "kind": pl.String}

_WHERE = ["_source", "_line"]


def joined(rows: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """A row per record with its fields. texts: all that the rows' `_text` name."""
    if not texts.get_column("_text").is_sorted():
        texts = texts.sort("_text")
    places = texts.get_column("_text").search_sorted(rows.get_column("_text"))
    return rows.drop("_text").hstack(texts.drop("_text")[places])


@dataclass
class EventTable:
    """rows: the columns of `RECORD` and `_text`. texts: `_text` and the fields of that message, as text.

    Where only some events are wanted, rows have no `_record`, no `_time` (but with lines that are not NCCL's), and what
    `folding` takes out of the messages.
    """

    rows: pl.DataFrame
    texts: pl.DataFrame

    def joined(self) -> pl.DataFrame:
        """A row per record with its fields."""
        return joined(self.rows, self.texts)

    def without(self, lines: pl.DataFrame) -> EventTable | None:
        """What is left when the records of some lines are taken out."""
        rows = self.rows.join(lines, on=_WHERE, how="anti", maintain_order="left")
        return EventTable(rows, self.texts) if rows.height else None


@dataclass
class Block:
    """What some pieces held: a table per event, and the records that no event matched (their field: `message`).

    lines: (input, lines) of each piece. levels: (input, level word, records). damage: the columns of `DAMAGE`.
    shapes: (input, shape) of whole records at INFO.
    other: some line beside the records may be another reader's.
    """

    lines: list[tuple[int, int]]
    levels: list[tuple[int, str, int]] = field(default_factory=list)
    events: dict[str, EventTable] = field(default_factory=dict)
    unrecognised: EventTable | None = None
    shapes: list[tuple[int, str]] = field(default_factory=list)
    damage: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DAMAGE))
    other: bool = False


class Projection:
    """Reads blocks. Shapes and heads are remembered from block to block; safe to use from several threads.

    wanted: events whose fields are gathered (None: all, and all clock times); the others are only counted.
    """

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        self._wanted = wanted
        self.heads = Heads()
        self._parser = ShapeParser()
        self._around = frozenset(self._parser.marks) if wanted is None else frozenset(self._parser.marks) & set(wanted)
        self._marks = tuple(sorted({mark for event in self._around for mark in self._parser.marks[event]}))
        self._shapes: dict[str, ShapeReading | None] = {}
        self._known: dict[str, Known | None] = {}
        self._memory = Memory()
        self._texts = Memory.MOST  # numbers of messages that are not remembered come behind those of others
        self._lock = Lock()

    def read(self, pieces: Sequence[Piece]) -> Block:
        """Project pieces of inputs, in order: many small ones cost as much as one large."""
        found = find_records(pieces, self._marks, self._knows, self._repeated, brief=self._wanted is not None)
        lines = [(piece.source, count) for piece, count in zip(pieces, found.lines, strict=True)]
        result = Block(lines, other=found.other)
        if found.rows.height == 0:
            return result
        texts, shapes, readings = self._read_texts(found)
        rows = found.rows.with_columns(
            _text=found.messages.spread(texts.get_column("_text")),
            _channel=found.channels.numbers if found.channels else None,
            event=found.messages.spread(texts.get_column("event")),
            width=found.heads.spread(found.heads.values.str.len_bytes())
            + found.messages.spread(found.messages.values.str.len_bytes()),
        )
        rows = self.heads.index(_placed(rows, pieces, found.lines), found.heads)
        widths = rows.select(*_WHERE, "_level", "width")
        rows = rows.select(*RECORD, "_text", "_channel", "event")
        # a line that is not NCCL's and only begins like one of those that tell something
        if (rows.get_column("_level") == AROUND).any():
            rows = rows.filter((pl.col("_level") != AROUND) | pl.col("event").is_in(list(self._around)))
        levels = rows.group_by("_source", "_level").len().filter(pl.col("_level") != AROUND)
        result.levels = list(levels.iter_rows())
        damage = pl.DataFrame(
            [*found.damage, *_lists_at_limit(found)], schema={"_line": pl.UInt32, "kind": pl.String}, orient="row"
        )
        result.damage = _placed(damage, pieces, found.lines).select(*DAMAGE)
        self._collect(result, rows, texts, readings)
        if result.unrecognised is not None:
            self._mark_cuts(result, rows, texts, widths)
            self._tell_known(result, texts, shapes)
        result.shapes = _shapes_of(result, rows, texts)
        return result

    def _read_texts(self, found: Records) -> tuple[pl.DataFrame, pl.Series, list[ShapeReading | None]]:
        """The distinct messages, with numbers among all blocks: `_text`, `message`, `shape`, `slots`, `event` and
        `shape_id`, an index into the shapes and their readings. No slots and no index: read in an earlier block."""
        message = pl.col("message")
        texts = self._numbered(found).with_columns(message=found.messages.values)
        new = (
            texts.lazy()
            .filter(pl.col("shape").is_null())
            .with_columns(
                shape=message.str.replace_all(mask_pattern(), SLOT), slots=message.str.extract_all(mask_pattern())
            )
            .collect()
        )
        shapes = Distinct.of(new.get_column("shape"))
        readings = [self._reading(shape) for shape in shapes.values]
        events = pl.Series([reading.event if reading else None for reading in readings], dtype=pl.String)
        new = new.with_columns(event=shapes.spread(events), shape_id=shapes.codes.cast(pl.Int32))
        if new.height < texts.height:
            old = texts.drop_nulls("shape").with_columns(event=pl.lit(_REMEMBERED))
            new = pl.concat([new, old], how="diagonal").sort("place")
        return new.drop("place"), shapes.values, readings

    def _numbered(self, found: Records) -> pl.DataFrame:
        """The number of each distinct message, `_text`; its `shape`, if it was read in an earlier block; and `place`,
        their order."""
        messages = found.messages.values
        with self._lock:
            first, self._texts = self._texts, self._texts + len(messages)
        texts = pl.DataFrame({"place": pl.int_range(len(messages), dtype=pl.UInt32, eager=True)})
        texts = texts.with_columns(_text=pl.col("place") + first, shape=pl.lit(None, pl.String))
        if found.channels is None or self._memory.is_full:
            return texts
        numbered = found.channels.are_numbered
        numbers, shapes = self._memory.recall(messages.filter(numbered))
        known = texts.filter(numbered).select("place", _text=numbers, shape=shapes)
        return pl.concat([known, texts.filter(~numbered)]).sort("place")

    def _collect(self, result: Block, rows: pl.DataFrame, texts: pl.DataFrame, readings: Sequence[Any]) -> None:
        """A table per event, and one of the records that no event matches."""
        unknown = []
        by_event = texts.partition_by("event", as_dict=True, include_key=False)
        for (event,), own in rows.partition_by("event", as_dict=True, include_key=False, maintain_order=True).items():
            if event is None:
                unknown.append(own)
            elif self._wanted is None or event in self._wanted:
                said = by_event[event,].drop_nulls("shape_id")
                shapes = said.get_column("shape_id").unique().sort().to_list()
                fields = gather(said, {shape: readings[shape].fields for shape in shapes})
                fit = fits(fields)
                if fit is not None and not fit.all():
                    unfit = pl.col("_text").is_in(fields.filter(~fit).get_column("_text").implode())
                    unknown.append(own.filter(unfit))
                    own, fields = own.filter(~unfit), fields.filter(fit)
                if event == _REMEMBERED:
                    learnt = said.join(fields, on="_text", how="semi").filter(pl.col("_text") < Memory.MOST)
                    self._memory.learn(learnt.get_column("_text"), learnt.get_column("shape"))
                if own.height:
                    result.events[event] = self._kept(event, own, fields)
        if unknown:
            result.unrecognised = _with_messages(pl.concat(unknown).drop("_channel"), texts)

    def _kept(self, event: str, rows: pl.DataFrame, texts: pl.DataFrame) -> EventTable:
        """The table of an event; without what few facts need, where only some events are wanted."""
        if self._wanted is None:
            return EventTable(rows.drop("_channel", strict=False), texts)
        rows, texts = fold(event, rows.drop("_record"), texts)
        return EventTable(rows if event in self._around else rows.drop("_time"), texts)

    def _mark_cuts(self, result: Block, rows: pl.DataFrame, texts: pl.DataFrame, widths: pl.DataFrame) -> None:
        """Records that begin like an event and end too early. What something cut at a width holds less than it says
        also where what is left has a known form: such records are unrecognised, too. widths: of all rows."""
        assert result.unrecognised is not None
        cut = self._cut(result.unrecognised.joined(), result.damage)
        if cut.height == 0:
            return
        alone = widths.join(result.damage, on=_WHERE, how="anti")
        result.damage = pl.concat([result.damage, cut])
        lines = _as_wide(alone, cut)
        lost = rows.filter(pl.col("event").is_not_null()).join(lines, on=_WHERE, how="semi")
        if lost.height == 0:
            return
        result.events = {event: table for event, before in result.events.items() if (table := before.without(lines))}
        result.unrecognised = _with_messages(
            pl.concat([result.unrecognised.rows, lost.drop("event", "_channel")]), texts
        )
        found = lost.select(*_WHERE, kind=pl.lit("cut")).join(result.damage, on=_WHERE, how="anti")
        result.damage = pl.concat([result.damage, found])

    def _cut(self, unrecognised: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """Records that begin like an event and end too early: another cut than those already known."""
        texts = unrecognised.filter(pl.col("_level") == "INFO").select(*_WHERE, "message")
        texts = texts.join(known.filter(pl.col("kind") == TORN), on=_WHERE, how="anti")
        messages = texts.get_column("message").unique().head(_MOST_CUT)
        cut = [message for message in messages if self._parser.ends_early(mask(message))]
        rows = texts.filter(pl.col("message").is_in(cut)).sort(_WHERE)
        return rows.select(*_WHERE, kind=pl.lit("cut"))

    def _tell_known(self, result: Block, texts: pl.DataFrame, shapes: pl.Series) -> None:
        """Whole records of no event, but of a form that NCCL is known to print, are recognised."""
        assert result.unrecognised is not None
        rows = result.unrecognised.rows
        whole = rows.filter(pl.col("_level") == "INFO").join(result.damage, on=_WHERE, how="anti")
        said = texts.filter(pl.col("_text").is_in(whole.get_column("_text").implode()))
        said = said.filter(~pl.col("message").str.contains_any(SIGNS))  # the end of another record
        found = [
            (shape, line.subsystem, *(release_text(code) if code else None for code in (line.first, line.last)))
            for shape in said.get_column("shape_id").unique()
            if (line := self._known_line(shapes[shape]))
        ]
        names = {"shape_id": pl.Int32, **dict.fromkeys(("subsystem", "first_release", "last_release"), pl.String)}
        fields = said.select("_text", "message", "shape_id").join(
            pl.DataFrame(found, schema=names, orient="row"), on="shape_id", maintain_order="left"
        )
        known = whole.join(fields, on="_text", how="semi", maintain_order="left")
        if known.height == 0:
            return
        left = rows.join(known, on=[*_WHERE, "_record"], how="anti", maintain_order="left")
        result.unrecognised = EventTable(left, result.unrecognised.texts) if left.height else None
        if self._wanted is None or KNOWN in self._wanted:
            result.events[KNOWN] = self._kept(KNOWN, known, fields.drop("shape_id"))

    def _known_line(self, shape: str) -> Known | None:
        if shape not in self._known and len(self._known) < _MOST_LOOKED_UP:
            self._known[shape] = known_lines().find(shape, "INFO")
        return self._known.get(shape)

    def _knows(self, message: str) -> bool:
        """Is it a record that some event matches?"""
        return self._event(message) is not None

    def _repeated(self, block: bytes) -> bytes:
        """The block, with what PyTorch repeats of NCCL marked as NCCL's."""
        return with_last_errors(block, self._event, self._parser.marks)

    def _event(self, message: str) -> str | None:
        """The event that the message is."""
        reading = self._reading(mask(message[:LONGEST_MESSAGE]))
        return reading.event if reading else None

    def _reading(self, shape: str) -> ShapeReading | None:
        try:
            return self._shapes[shape]
        except KeyError:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            reading = self._shapes[shape] = self._parser.parse(shape)
            return reading


def _shapes_of(block: Block, rows: pl.DataFrame, texts: pl.DataFrame) -> list[tuple[int, str]]:
    """What `Block.shapes` holds: shapes that damaged records or other levels show as well are left out."""
    others = rows.filter(pl.col("_level") != "INFO").get_column("_text")
    if block.damage.height:
        others = others.append(rows.join(block.damage, on=_WHERE, how="semi").get_column("_text"))
    source = block.lines[0][0]
    if any(another != source for another, _ in block.lines):
        several = rows.join(texts, on="_text").select("_source", "shape").unique().rows()
    else:  # a large block: it has fewer messages than records
        several = [(source, shape) for shape in texts.get_column("shape").unique()]
    strange = set(texts.filter(pl.col("_text").is_in(others.implode())).get_column("shape"))
    return [(source, shape) for source, shape in several if shape not in strange]


def _with_messages(rows: pl.DataFrame, texts: pl.DataFrame) -> EventTable:
    said = texts.filter(pl.col("_text").is_in(rows.get_column("_text").implode()))
    return EventTable(rows.sort("_source", "_line", "_record"), said.select("_text", "message"))


def _as_wide(lines: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """INFO lines as wide as the widest of their input, if one of those is known to be cut: by `cut -c`, a pager."""
    lines = lines.filter(pl.col("_level") == "INFO")
    widest = lines.filter(pl.col("width") == pl.col("width").max().over("_source"))
    widest = widest.filter(pl.col("_line").n_unique().over("_source") >= _MANY_AS_WIDE)
    sources = widest.join(cut, on=_WHERE, how="semi").get_column("_source")
    return widest.filter(pl.col("_source").is_in(sources.implode())).select(_WHERE)


def _lists_at_limit(records: Records) -> list[Found]:
    """Lists of devices that are as long as a line may be: the last ones are missing. (Those of ranks always are.)"""
    heads, messages = records.heads, records.messages
    long = (messages.values.str.len_bytes() > _LONG_LIST) & messages.values.str.starts_with("NET/")
    if not long.any():
        return []
    rows = records.rows.select("_line", head=heads.spread(heads.values), message=messages.spread(messages.values))
    rows = rows.filter(messages.spread(long))
    return [Found(line, "cut") for line, head, text in rows.iter_rows() if framing.at_limit(head, text)]


def _placed(rows: pl.DataFrame, pieces: Sequence[Piece], counts: Sequence[int]) -> pl.DataFrame:
    """`_line`, counted from 0 over all pieces, becomes input and line. counts: lines of each piece."""
    if len(pieces) == 1:
        (piece,) = pieces
        return rows.with_columns(pl.col("_line") + piece.first_line, _source=pl.lit(piece.source, pl.UInt32))
    starts = [0, *accumulate(counts)]
    # an empty piece would begin where the next one does
    table = pl.DataFrame(
        [(start, one.source, one.first_line - start) for start, one in zip(starts, pieces, strict=False) if one.block],
        schema={"start": pl.UInt32, "_source": pl.UInt32, "offset": pl.Int64},
        orient="row",
    )
    placed = rows.join_asof(table, left_on="_line", right_on="start", check_sortedness=False)
    return placed.with_columns(_line=(pl.col("_line").cast(pl.Int64) + pl.col("offset")).cast(pl.UInt32))
