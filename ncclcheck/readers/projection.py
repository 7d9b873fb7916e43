"""The projection: one grammar at the speed of columns.

A block of bytes becomes, for every event in it, a table with a column per field (as text). Lark parses only the shapes:
each distinct one once. Fields are gathered from the slots of all lines of an event at a time.

That this gives what parsing every line would give is what `tests/readers/test_projection.py` holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import NamedTuple

import polars as pl

from ncclcheck.readers import framing
from ncclcheck.readers.choices import SLOT
from ncclcheck.readers.grammar import ShapeParser, ShapeReading, mask, mask_pattern, slot_kinds
from ncclcheck.readers.last_errors import with_last_errors
from ncclcheck.readers.mending import TORN, Found, Mender

# Keep memory bounded when a hostile input makes every line a shape of its own.
_MAX_SHAPES = 200_000
# Lists of devices that may be cut are longer: NCCL's limit less a prefix.
_LONG_LIST = 700
# Unknown messages of a block that are looked at once more.
_MOST_CUT = 2_000

# Lines of one width, the widest, by which one tells that something cut them all there.
_MANY_AS_WIDE = 3

# Columns that every event's table has beside its fields (which never begin with "_").
RECORD = {
    "_source": pl.UInt32,  # index of the input
    "_line": pl.UInt32,  # 1-based line of the input
    "_record": pl.UInt32,  # 0, or the number of the record within its line
    "_head": pl.UInt32,  # what stood before the level, as an index into Projection.heads
    "_time": pl.String,  # clock time as written, or null
    "_level": pl.String,  # INFO, WARN, TRACE, ABORT or VERSION; AROUND: a line that is not NCCL's
}

AROUND = "AROUND"


# Lines that are not as their writers wrote them. kind: of `mending`, or "cut" where a record ends too early.
DAMAGE = {"_source": pl.UInt32, "_line": pl.UInt32, "kind": pl.String}


class Piece(NamedTuple):
    """Whole lines of an input: index of the input, the lines, the number of the first."""

    source: int
    block: bytes
    first_line: int

    @property
    def lines(self) -> int:
        return self.block.count(b"\n") + (not self.block.endswith(b"\n") and len(self.block) > 0)


@dataclass
class Block:
    """What some pieces held: a table per event, and the records that no event matched.

    lines: (input, lines) of each piece. levels: (input, level word, records). damage: the columns of `DAMAGE`.
    """

    lines: list[tuple[int, int]]
    levels: list[tuple[int, str, int]] = field(default_factory=list)
    events: dict[str, pl.DataFrame] = field(default_factory=dict)
    unrecognised: pl.DataFrame | None = None
    damage: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DAMAGE))


class Projection:
    """Reads blocks. Shapes and heads are remembered from block to block; safe to use from several threads.

    wanted: events whose fields are gathered (None: all); the others are only counted.
    heads: per input, distinct texts before a level word, clock time split off, with their index.
    """

    def __init__(self, wanted: Collection[str] | None = None) -> None:
        self._wanted = wanted
        self.heads: dict[tuple[int, str], int] = {}
        self._parser = ShapeParser()
        self._around = frozenset(self._parser.marks) if wanted is None else frozenset(self._parser.marks) & set(wanted)
        self._marks = tuple(sorted({mark for event in self._around for mark in self._parser.marks[event]}))
        self._shapes: dict[str, ShapeReading | None] = {}
        self._lock = Lock()

    def read(self, pieces: Sequence[Piece]) -> Block:
        """Project pieces of inputs, in order: many small ones cost as much as one large."""
        result = Block([(piece.source, piece.lines) for piece in pieces])
        records, result.damage = _records(pieces, self._marks, self._knows, self._repeated)
        if records.height == 0:
            return result
        whole = records
        records = (
            records.lazy()
            .with_columns(
                shape=pl.col("message").str.replace_all(mask_pattern(), SLOT),
                slots=pl.col("message").str.extract_all(mask_pattern()),
            )
            .collect()
        )
        shapes = records.get_column("shape").unique()
        readings = {shape: self._reading(shape) for shape in shapes}
        known = [shape for shape, reading in readings.items() if reading]
        table = pl.DataFrame(
            {
                "shape": known,
                "shape_id": range(len(known)),
                "event": [readings[shape].event for shape in known],  # type: ignore[union-attr]
            },
            schema={"shape": pl.String, "shape_id": pl.Int32, "event": pl.String},
        )
        records = records.join(table, on="shape", how="left", maintain_order="left").drop("shape")
        # a line that is not NCCL's and only begins like one of those that tell something
        records = records.filter((pl.col("_level") != AROUND) | pl.col("event").is_in(list(self._around)))
        records = self._index_heads(records)
        levels = records.filter(pl.col("_level") != AROUND).group_by("_source", "_level").len()
        result.levels = list(levels.iter_rows())
        by_event = records.partition_by("event", as_dict=True, include_key=False, maintain_order=True)
        unknown = [rows for (event,), rows in by_event.items() if event is None]
        for (event,), rows in by_event.items():
            if event is None or not (self._wanted is None or event in self._wanted):
                continue
            used = rows.get_column("shape_id").unique().sort().to_list()
            frame = _gather(rows, {i: readings[known[i]].fields for i in used})  # type: ignore[union-attr]
            fits = _fits(frame)
            if fits is not None and not fits.all():
                unknown.append(rows.filter(~fits))
                frame = frame.filter(fits)
            if frame.height:
                result.events[event] = frame
        if unknown:
            result.unrecognised = pl.concat(rows.select(*RECORD, "message") for rows in unknown).sort(
                "_source", "_line", "_record"
            )
            cut = self._cut(result.unrecognised, result.damage)
            if cut.height:
                alone = whole.join(result.damage, on=["_source", "_line"], how="anti")
                self._leave_out(result, _as_wide(alone, cut), records)
            result.damage = pl.concat([result.damage, cut])
        return result

    def _leave_out(self, result: Block, lines: pl.DataFrame, records: pl.DataFrame) -> None:
        """Lines that something cut at a width hold less than they say, also where what is left has a known form."""
        where = ["_source", "_line"]
        lost = records.filter(pl.col("event").is_not_null()).join(lines, on=where, how="semi")
        if lost.height == 0 or result.unrecognised is None:
            return
        kept = {name: rows.join(lines, on=where, how="anti", maintain_order="left") for name, rows in
                result.events.items()}  # fmt: skip
        result.events = {name: rows for name, rows in kept.items() if rows.height}
        result.unrecognised = pl.concat([result.unrecognised, lost.select(*RECORD, "message")]).sort(
            "_source", "_line", "_record"
        )
        found = lost.select(*where, kind=pl.lit("cut")).join(result.damage, on=where, how="anti")
        result.damage = pl.concat([result.damage, found])

    def _cut(self, unrecognised: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """Records that begin like an event and end too early: another cut than those already known."""
        texts = unrecognised.filter(pl.col("_level") == "INFO").select("_source", "_line", "message")
        texts = texts.join(known.filter(pl.col("kind") == TORN), on=["_source", "_line"], how="anti")
        messages = texts.get_column("message").unique().head(_MOST_CUT)
        cut = [message for message in messages if self._parser.ends_early(mask(message))]
        rows = texts.filter(pl.col("message").is_in(cut)).sort("_source", "_line")
        return rows.select("_source", "_line", kind=pl.lit("cut"))

    def _index_heads(self, records: pl.DataFrame) -> pl.DataFrame:
        """Heads become indexes, and the clock times in them a column: looked at once per distinct head."""
        head = pl.col("_head")
        table = (
            records.select("_source", "_head")
            .unique()
            .with_columns(
                _time=head.str.extract(f"({framing.TIME})").str.strip_chars("[]"),
                bare=head.str.replace(rf"{framing.TIME} ?", ""),
            )
        )
        with self._lock:
            ids = [self.heads.setdefault(key, len(self.heads)) for key in table.select("_source", "bare").iter_rows()]
        table = table.select("_source", "_head", "_time", id=pl.Series(ids, dtype=pl.UInt32))
        joined = records.join(table, on=["_source", "_head"], how="left", maintain_order="left")
        return joined.with_columns(_head="id").drop("id")

    def _knows(self, message: str) -> bool:
        """Is it a record that some event matches?"""
        return self._event(message) is not None

    def _repeated(self, block: bytes) -> bytes:
        """The block, with what PyTorch repeats of NCCL marked as NCCL's."""
        return with_last_errors(block, self._event, self._parser.marks)

    def _event(self, message: str) -> str | None:
        """The event that the message is."""
        reading = self._reading(mask(message[:_LONGEST_MESSAGE]))
        return reading.event if reading else None

    def _reading(self, shape: str) -> ShapeReading | None:
        try:
            return self._shapes[shape]
        except KeyError:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            reading = self._shapes[shape] = self._parser.parse(shape)
            return reading


def decode(block: bytes) -> bytes:
    """The block as UTF-8: what is not is written as \\xNN, and the mask's own character gives way.

    What terminals, container runtimes and pages put around the text goes: colours, Docker's JSON, hard blanks. Lines
    stay lines.
    """
    if b'{"log":"' in block:
        block = _DOCKER_LINE.sub(_docker_text, block)
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            block = block.decode("utf-8", "backslashreplace").encode()
        for strange, plain in _CHARACTERS:
            if strange[:1] in block:  # one byte is found ten times faster than two
                block = block.replace(strange, plain)
    return _CONTROL_SEQUENCE.sub(b"", block) if b"\x1b" in block else block


_CHARACTERS = ((SLOT.encode(), "\ufffd".encode()), ("\u00a0".encode(), b" "))
_CONTROL_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_DOCKER_LINE = re.compile(rb'^\{"log":".*\}\r?$', re.M)


def _docker_text(found: re.Match[bytes]) -> bytes:
    try:
        entry = json.loads(found[0])
        return f"{entry.get('time', '')} {entry['log']}".rstrip().replace("\n", " ").encode()
    except (ValueError, KeyError, RecursionError):
        return found[0]


# Records as they are found: heads still as text, with the clock times in them.
_BEFORE_HEADS = {
    **{name: kind for name, kind in RECORD.items() if name != "_time"},
    "_head": pl.String,
    "message": pl.String,
}


def _records(
    pieces: Sequence[Piece],
    around: Sequence[str],
    knows: Callable[[str], bool],
    repeated: Callable[[bytes], bytes],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All NCCL records of some pieces, and the lines that hold one of the phrases `around`: the columns of
    `_BEFORE_HEADS`. And the lines in which several writers met: the columns of `DAMAGE`."""
    text = pl.col("text")
    block = repeated(decode(_joined([piece.block for piece in pieces])))
    lines = (
        pl.scan_lines(block, name="text", row_index_name="_line")
        .filter(text.str.contains_any([*framing.MARKS, *around]))
        .collect()
    )
    if lines.height == 0:
        return pl.DataFrame(schema=_BEFORE_HEADS), pl.DataFrame(schema=DAMAGE)
    plain = text.str.contains("NCCL INFO ", literal=True)
    informed = (
        lines.filter(plain)
        .select(
            "_line",
            text.str.splitn("NCCL INFO ", 2).struct.rename_fields(["_head", "message"]).alias("parts"),
        )
        .unnest("parts")
        .with_columns(_level=pl.lit("INFO"), _record=pl.lit(0, pl.UInt32))
    )
    others = _framed(lines.filter(~plain), around) if informed.height < lines.height else None
    records = informed if others is None else pl.concat([informed, others.select(informed.columns)])
    starts = list(accumulate(piece.lines for piece in pieces))
    records, found = Mender(block, starts, knows).mend(records)
    records = records.with_columns(_trimmed(pl.col("message"), block))
    found += _lists_at_limit(records)
    damage = pl.DataFrame(found, schema={"_line": lines.schema["_line"], "kind": pl.String}, orient="row")
    placed = _placed(records.sort("_line", "_record"), pieces).select(*_BEFORE_HEADS)
    return placed, _placed(damage, pieces).select(*DAMAGE)


def _as_wide(records: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """INFO lines as wide as the widest of their input, if one of those is known to be cut: by `cut -c`, a pager."""
    width = (pl.col("_head").str.len_bytes() + pl.col("message").str.len_bytes()).alias("width")
    lines = records.filter(pl.col("_level") == "INFO").select("_source", "_line", width)
    widest = lines.filter(pl.col("width") == pl.col("width").max().over("_source"))
    widest = widest.filter(pl.col("_line").n_unique().over("_source") >= _MANY_AS_WIDE)
    sources = widest.join(cut, on=["_source", "_line"], how="semi").get_column("_source")
    return widest.filter(pl.col("_source").is_in(sources.implode())).select("_source", "_line")


def _lists_at_limit(records: pl.DataFrame) -> list[Found]:
    """Lists of devices that are as long as a line may be: the last ones are missing. (Those of ranks always are.)"""
    message = pl.col("message")
    long = records.filter((message.str.len_bytes() > _LONG_LIST) & message.str.starts_with("NET/"))
    rows = long.select("_line", "_head", "message").iter_rows()
    return [Found(line, "cut") for line, head, text in rows if framing.at_limit(head, text)]


def _joined(blocks: Sequence[bytes]) -> bytes:
    """Blocks one after the other; the last line of a file may lack its end."""
    if len(blocks) == 1:
        return blocks[0]
    return b"".join(block if block.endswith(b"\n") or not block else block + b"\n" for block in blocks)


def _placed(records: pl.DataFrame, pieces: Sequence[Piece]) -> pl.DataFrame:
    """`_line`, counted from 0 over all pieces, becomes input and line."""
    if len(pieces) == 1:
        (piece,) = pieces
        return records.with_columns(pl.col("_line") + piece.first_line, _source=pl.lit(piece.source, pl.UInt32))
    starts = [0, *accumulate(piece.lines for piece in pieces)]
    # an empty piece would begin where the next one does
    rows = [
        (start, one.source, one.first_line - start) for start, one in zip(starts, pieces, strict=False) if one.block
    ]
    table = pl.DataFrame(rows, schema={"start": pl.UInt32, "_source": pl.UInt32, "offset": pl.Int64}, orient="row")
    placed = records.join_asof(table, left_on="_line", right_on="start", check_sortedness=False)
    return placed.with_columns(_line=(pl.col("_line").cast(pl.Int64) + pl.col("offset")).cast(pl.UInt32))


# What may stand behind a message: blanks, the edge of a box, a back-tick; a progress bar; Ray's note on lines left out.
_EDGE = " \t\r\n\x00│|`"
_BEHIND = r"(?:\r| \[repeated \d+x across cluster\]).*$"
# NCCL's longest messages have two thousand characters. The time that the mask takes grows with the square.
_LONGEST_MESSAGE = 4096


def _trimmed(message: pl.Expr, block: bytes) -> pl.Expr:
    if b"\r" in block or b"x across cluster]" in block:
        message = message.str.replace(_BEHIND, "")
    return message.str.head(_LONGEST_MESSAGE).str.strip_chars_end(_EDGE)


def _framed(lines: pl.DataFrame, around: Sequence[str]) -> pl.DataFrame:
    """Records of all other forms: WARN and the like, bare versions, release 2.2; then the lines around them.

    PyTorch ends what it says of an error of NCCL with the version: such a line is both.
    """
    text = pl.col("text")
    kinds = []
    rest = lines
    forms = [
        (framing.LEVEL, ["_head", "_level", "message"], ""),
        (framing.VERSION, ["_head", "message"], "VERSION"),
        (framing.OLD_LEVEL, ["_head", "_level", "message"], ""),
    ]
    for pattern, names, level in forms:
        if rest.height == 0:
            break
        found = rest.with_columns(parts=text.str.extract_groups(pattern).struct.rename_fields(names))
        matched = pl.col("parts").struct.field("message").is_not_null()
        part = found.filter(matched).drop("text").unnest("parts")
        kinds.append(part.with_columns(_level=pl.lit(level)) if level else part)
        rest = found.filter(~matched).drop("parts")
    columns = ["_line", "_head", "message", "_level"]
    records = pl.concat([kind.select(columns) for kind in kinds]).with_columns(_record=pl.lit(0, pl.UInt32))
    if not around:
        return records
    version = pl.col("_line").is_in(records.filter(pl.col("_level") == "VERSION").get_column("_line").implode())
    taken = pl.col("_line").is_in(records.get_column("_line").implode())
    phrase = f"^(.*?)((?:{'|'.join(map(re.escape, around))}).*)$"
    parts = text.str.extract_groups(phrase).struct.rename_fields(["_head", "message"])
    beside = lines.filter(~taken | version).select(
        "_line", version.cast(pl.UInt32).alias("_record"), parts.alias("parts")
    )
    beside = beside.unnest("parts").drop_nulls("message").with_columns(_level=pl.lit(AROUND))
    return pl.concat([records, beside.select(records.columns)])


def _gather(rows: pl.DataFrame, shapes: dict[int, dict[str, tuple[int | str, ...]]]) -> pl.DataFrame:
    """Columns of one event, all its shapes at once: `rows` has `slots` and `shape_id`."""
    names = list(dict.fromkeys(name for fields in shapes.values() for name in fields))
    simple = [name for name in names if all(len(fields.get(name, ())) < 2 for fields in shapes.values())]
    mixed = [name for name in names if name not in simple]
    slots = pl.col("slots")
    if len(shapes) == 1:
        (fields,) = shapes.values()
        columns = [_single(slots, fields[name]).alias(name) for name in simple]
        gathered = rows.with_columns(columns) if columns else rows
    else:
        where: dict[str, list[int | None]] = {}
        constant: dict[str, list[str | None]] = {}
        columns = []
        for name in simple:
            pieces = [fields.get(name, (None,))[0] for fields in shapes.values()]
            where[f"slot of {name}"] = [piece if isinstance(piece, int) else None for piece in pieces]
            constant[f"text of {name}"] = [piece if isinstance(piece, str) else None for piece in pieces]
            sources = []
            if any(piece is not None for piece in where[f"slot of {name}"]):
                sources.append(slots.list.get(pl.col(f"slot of {name}"), null_on_oob=True))
            if any(piece is not None for piece in constant[f"text of {name}"]):
                sources.append(pl.col(f"text of {name}"))
            columns.append(pl.coalesce(sources).alias(name))
        table = pl.DataFrame(
            {"shape_id": list(shapes), **where, **constant},
            schema={"shape_id": pl.Int32, **dict.fromkeys(where, pl.Int32), **dict.fromkeys(constant, pl.String)},
        )
        gathered = rows.join(table, on="shape_id", how="left", maintain_order="left").with_columns(columns)
    for name in mixed:
        gathered = gathered.with_columns(_mixed(rows, name, shapes).alias(name))
    return gathered.select(*RECORD, *names)


def _fits(rows: pl.DataFrame) -> pl.Series | None:
    """Whether each row's slots are of the kinds that its fields take: a shape shows a slot, not which one."""
    kinds = slot_kinds()
    checks = [pl.col(name).str.contains(f"^(?:{kinds[name]})$") for name in rows.columns if name in kinds]
    return rows.select(pl.all_horizontal(check.fill_null(True) for check in checks)).to_series() if checks else None


def _single(slots: pl.Expr, pieces: tuple[int | str, ...]) -> pl.Expr:
    (piece,) = pieces
    return slots.list.get(piece, null_on_oob=True) if isinstance(piece, int) else pl.lit(piece)


def _mixed(rows: pl.DataFrame, name: str, shapes: dict[int, dict[str, tuple[int | str, ...]]]) -> pl.Series:
    """A field of constants and slots mixed: explode its pieces, look each up, join them again."""
    order = [
        (shape_id, position, piece if isinstance(piece, int) else None, piece if isinstance(piece, str) else None)
        for shape_id, fields in shapes.items()
        for position, piece in enumerate(fields.get(name, ()))
    ]
    table = pl.DataFrame(
        order,
        schema={"shape_id": pl.Int32, "position": pl.Int32, "slot": pl.Int32, "constant": pl.String},
        orient="row",
    )
    return (
        rows.lazy()
        .select("slots", "shape_id")
        .with_row_index("row")
        .join(table.lazy(), on="shape_id", how="left")
        .with_columns(piece=pl.coalesce(pl.col("slots").list.get(pl.col("slot"), null_on_oob=True), "constant"))
        .sort("row", "position")
        .group_by("row", maintain_order=True)
        .agg(pl.col("piece").str.join(""), (pl.col("piece").is_not_null().any()).alias("present"))
        .select(pl.when("present").then("piece").alias("piece"))
        .collect()
        .get_column("piece")
    )
