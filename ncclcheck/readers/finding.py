"""NCCL's records, and the lines around them that tell something, as they stand in a block: head, level and message."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import polars as pl

from ncclcheck.readers import decoding, framing, hints
from ncclcheck.readers.distinct import Distinct
from ncclcheck.readers.folding import Channels, without_channels
from ncclcheck.readers.heads import without_leading_time
from ncclcheck.readers.last_errors import LAST_ERROR
from ncclcheck.readers.mending import Found, Mender, suspicious

AROUND = "AROUND"
LEVELS = pl.Enum(["INFO", "WARN", "TRACE", "ABORT", "CALL", "VERSION", AROUND])


class Piece(NamedTuple):
    """Whole lines of an input: index of the input, the lines, the number of the first."""

    source: int
    block: bytes
    first_line: int

    @property
    def lines(self) -> int:
        return self.block.count(b"\n") + (not self.block.endswith(b"\n") and len(self.block) > 0)


class Records(NamedTuple):
    """What some pieces hold. lines: number of lines per piece. rows: `_line` (counted from 0 over all pieces),
    `_record` and `_level`, in order; heads, messages, channels: of those rows. damage: where several writers met.
    other: some line beside the records may be another reader's."""

    lines: list[int]
    rows: pl.DataFrame
    heads: Distinct
    messages: Distinct
    channels: Channels | None
    damage: list[Found]
    other: bool


def find_records(
    pieces: Sequence[Piece],
    around: Sequence[str],
    knows: Callable[[str], bool],
    repeated: Callable[[bytes], bytes],
    brief: bool = False,
) -> Records:
    """All NCCL records of some pieces, and the lines that hold one of the phrases `around`.

    knows: whether a message is a known record. repeated: marks what PyTorch repeats of NCCL as NCCL's.
    brief: whether clock times may be left out, and channels stand beside their messages (see `folding`).
    """
    block = decoding.plain(_joined([piece.block for piece in pieces]))
    counts = [piece.lines for piece in pieces]
    text = pl.col("text")
    wanted, plain = text.str.contains(_marks(tuple(around))), text.str.contains("NCCL INFO ", literal=True)
    lines = decoding.text_lines(block, wanted)
    if lines.select((text.str.contains(LAST_ERROR, literal=True) & ~plain).any()).item():
        block = repeated(block)
        lines = decoding.text_lines(block, wanted)
    parts = text.str.splitn("NCCL INFO ", 2).struct.rename_fields(["_head", "message"])
    records = (
        lines.lazy()
        .filter(plain)
        .select("_line", parts.alias("parts"))
        .unnest("parts")
        .with_columns(_level=pl.lit("INFO", LEVELS), _record=pl.lit(0, pl.UInt32))
        .collect()
    )
    other = False
    if records.height < lines.height:
        rest = lines.filter(~plain)
        other = bool(rest.select(text.str.contains(hints.OTHER_KINDS).any()).item())
        records = pl.concat([records, _framed(rest, around).select(records.columns)]).sort("_line", "_record")
    damage: list[Found] = []
    heads, messages, channels = _distinct(records, brief)
    if heads.values.str.contains(_OTHER_LEVEL).any():
        records = _with_first(records)
        heads, messages, channels = _distinct(records, brief)
    if suspicious(heads.values, messages.values):
        starts = list(accumulate(counts))
        records, damage = Mender(block, starts, knows).mend(records)
        records = records.sort("_line", "_record")
        heads, messages, channels = _distinct(records, brief)
    folded = messages.values.str.contains(hints.FOLDED, literal=True).any()
    messages = Distinct(messages.codes, _trimmed(messages.values, folded))
    return Records(counts, records.drop("_head", "message"), heads, messages, channels, damage, other or folded)


def _distinct(records: pl.DataFrame, brief: bool) -> tuple[Distinct, Distinct, Channels | None]:
    heads, message = records.get_column("_head"), records.get_column("message")
    if not brief:
        return Distinct.of(heads), Distinct.of(message), None
    heads = without_leading_time(heads, records.get_column("_level"))
    return Distinct.of(heads), *without_channels(message)


# What stands before "NCCL INFO " in a line, if a record of another level does.
_OTHER_LEVEL = r"NCCL WARN |[NR]CCL version \d"


def _with_first(records: pl.DataFrame) -> pl.DataFrame:
    """Records of INFO that a record of another level stands before in their line, as that one with all that follows."""
    several = records.get_column("_head").str.contains(_OTHER_LEVEL)
    text = pl.concat_str("_head", pl.lit("NCCL INFO "), "message").alias("text")
    first = _framed(records.filter(several).select("_line", text), ())
    return pl.concat([records.filter(~several), first.select(records.columns)]).sort("_line", "_record")


@cache
def _marks(around: tuple[str, ...]) -> str:
    """What a line must hold to be looked at. One expression: it is faster than a list of words."""
    return "|".join([*map(re.escape, (*framing.MARKS, LAST_ERROR, *around)), hints.OTHER_KINDS])


def _joined(blocks: Sequence[bytes]) -> bytes:
    """Blocks one after the other; the last line of a file may lack its end."""
    if len(blocks) == 1:
        return blocks[0]
    return b"".join(block if block.endswith(b"\n") or not block else block + b"\n" for block in blocks)


# What may stand behind a message: blanks, the edge of a box, a back-tick; a progress bar; Ray's note on lines left out.
_EDGE = " \t\r\n\x00│|`"
_BEHIND = r"(?:\r| \[repeated \d+x across cluster\]).*$"
# NCCL's longest messages have two thousand characters. The time that the mask takes grows with the square.
LONGEST_MESSAGE = 4096


def _trimmed(messages: pl.Series, folded: bool) -> pl.Series:
    if folded or messages.str.contains("\r", literal=True).any():
        messages = messages.str.replace(_BEHIND, "")
    return messages.str.head(LONGEST_MESSAGE).str.strip_chars_end(_EDGE)


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
        (framing.CALL, ["_head", "_level", "message"], ""),
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
    if around:
        version = pl.col("_line").is_in(records.filter(pl.col("_level") == "VERSION").get_column("_line").implode())
        taken = pl.col("_line").is_in(records.get_column("_line").implode())
        phrase = f"^(.*?)((?:{'|'.join(map(re.escape, around))}).*)$"
        parts = text.str.extract_groups(phrase).struct.rename_fields(["_head", "message"])
        beside = lines.filter(~taken | version).select(
            "_line", version.cast(pl.UInt32).alias("_record"), parts.alias("parts")
        )
        beside = beside.unnest("parts").drop_nulls("message").with_columns(_level=pl.lit(AROUND))
        records = pl.concat([records, beside.select(records.columns)])
    return records.with_columns(pl.col("_level").cast(LEVELS))
