"""Lines in which several writers met: records taken apart, halves put together again, and what stays broken.

Many processes write to one pipe. When a write is cut, another writer's record stands in the middle of a line, and the
end of the first record comes alone on a later line:

    n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUn2:9:9 [1] NCCL INFO Connected all trees
    MEM

Halves are joined only where both alone say nothing and together they are a known record. Rare, so done line by line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from ncclcheck.readers import framing

# What happened to a line: "joined": several whole records; "mended": halves put together; "torn": a part is lost.
JOINED, MENDED, TORN = "joined", "mended", "torn"

# What shows that another record begins in a message, or that a head is cut within its level.
SIGNS = ["NCCL INFO ", "NCCL WARN "]
_VERSION = "NCCL version "
_CUT_LEVEL = r":\d+ \[-?\d{1,20}\] (?:\S+:\d+ (?:\(\w+\) )?)?(?:N(?:C(?:C(?:L(?: [A-Z]{0,4})?)?)?)?)?\S*:\d+:\d+ "
# Where more records have no host and pid than this share, they never had them.
_MOST_HALF_HEADS = 0.1

# The end of a record comes soon or never.
_LINES_AHEAD = 3
# The end of a record behind another one in its line is shorter than this.
_LONGEST_END = 200
# In a line of more records nobody tore any: their line ends were lost.
_MOST_TORN = 3
# Two heads are shorter than this.
_LONGEST_HEAD = 2_000
# Tries in a block. A pipe of many writers has a torn line in some thousands; an input made to cost time has no more.
_MOST_TRIES = 4_000

# A head whose level was cut by the next record: `n1:7:7 [0] NCCL INFn2:9:9 [1] `.
_TORN_HEAD = re.compile(
    r"(?P<head>.*\[-?\d{1,20}\] (?:\S{1,255}:\d{1,9} (?:\(\w{1,64}\) )?)?)"
    r"(?P<cut>N(?:C(?:C(?:L(?: (?:INFO?|IN?|WARN?|WAR?|W)?)?)?)?)?)(?=\S{0,255}:\d{1,9}:\d{1,9} )"
)
_HEAD_INSIDE = re.compile(_CUT_LEVEL)
_LABEL = re.compile(r"(?:\[\d+,\d+\]<std(?:out|err)>: ?|\d{1,7}: |\[(?:default|rank)\d+\]:|\[pod/\S{1,128}\] )")
_LABEL_BEFORE = re.compile(r"(?:\[\d+,\d+\]<std(?:out|err)>: ?|\[(?:default|rank)\d+\]:)$")
_TASK = re.compile(r"\d{1,7}: $")
_POD = re.compile(r"\[pod/[^\s\[]{1,128}\] $")
_LONGEST_POD = 140
_GLUED = re.compile(r"(?P<word>[A-Za-z0-9._-]{1,255}):(?P<pid>\d{1,9}):\d{1,9} ")
_WHOLE = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,255}):(?P<pid>\d{1,9}):\d{1,9} \[-?\d{1,20}\] (?:\S{1,255}:\d{1,9} )?$")
_NO_GDR = re.compile(r" via NET/.{1,64}/\d+(?:\(\d+\))?(?:/G?D?R?D?M?)?$")


class Found(NamedTuple):
    """A line (counted from 0) and what happened to it."""

    line: int
    kind: str


@dataclass
class _Piece:
    """One record of a line, as it is put together."""

    head: str
    level: str  # where it is cut: what is left of the words `NCCL INFO`
    text: str
    cut: bool = False  # within the level word: the text is not here
    torn: bool = False
    mended: bool = False


class Mender:
    """block: the lines. starts: lines at which another input begins. knows: whether a message is a known record."""

    def __init__(self, block: bytes, starts: Sequence[int], knows: Callable[[str], bool]) -> None:
        self._block = block
        self._starts = starts
        self._is_record = knows
        self._tries = 0
        self._taken: set[int] = set()
        self._messages = pl.Series(dtype=pl.String)

    def mend(self, records: pl.DataFrame) -> tuple[pl.DataFrame, list[Found]]:
        """Records with `_line`, `_head`, `_level`, `_record` and `message`: each of its own, and what was found."""
        records, found = self._with_heads(records)
        several = _suspects(records)
        many = records.filter(several)
        if many.height == 0:
            return records, found
        whole = records.filter(~several)
        self._messages = whole.get_column("message")
        hosts = _Hosts(whole)
        rows: list[dict[str, Any]] = []
        for row in many.iter_rows(named=True):
            pieces = list(_pieces(row, hosts))
            self._mend_line(row["_line"], pieces)
            for piece in pieces:
                # a text that holds a record whose head is elsewhere; one of an open kind would take it in
                if any(sign in piece.text for sign in SIGNS):
                    piece.torn, piece.text = True, "" if self._is_record(piece.text) else piece.text
            kept = [piece for piece in pieces if piece.text or not piece.torn]
            rows += [
                {
                    **row,
                    "_head": piece.head,
                    "_level": piece.level,
                    "_record": row["_record"] + index,
                    "message": piece.text,
                }
                for index, piece in enumerate(kept)
            ]
            if len(pieces) > 1 or pieces[0].torn:
                found.append(Found(row["_line"], _kind(pieces)))
        return pl.concat([whole, pl.DataFrame(rows, schema=records.schema)]), found

    def _with_heads(self, records: pl.DataFrame) -> tuple[pl.DataFrame, list[Found]]:
        """Records whose head was cut, with the head whose beginning stands before another record: a line or some above.
        Nobody knows who printed the others."""
        half = records.filter(_half_headed(records))
        if half.height == 0 or half.height > _MOST_HALF_HEADS * records.height:
            return records, []
        near = {line - back for line in half.get_column("_line") for back in range(_LINES_AHEAD + 1) if line >= back}
        is_near = pl.col("_line").is_in(list(near))
        hosts = _Hosts(records.filter(~is_near))
        lines = {row["_line"]: row for row in records.filter(is_near).iter_rows(named=True)}
        found = []
        for line in half.get_column("_line"):
            above = next((at for at in self._above(line) if self._takes_head(lines.get(at), lines[line], hosts)), None)
            if above is None:
                del lines[line]
            found.append(Found(line, TORN) if above is None else Found(above, MENDED))
        return pl.concat([records.filter(~is_near), pl.DataFrame(list(lines.values()), schema=records.schema)]), found

    def _takes_head(self, above: dict[str, Any] | None, half: dict[str, Any], hosts: _Hosts) -> bool:
        """Move the beginning of the head from before another record to its own."""
        start = hosts.start(above["_head"]) if above else 0
        if above is None or not start or not hosts.is_whole(above["_head"][:start] + half["_head"]):
            return False
        half["_head"] = above["_head"][:start] + half["_head"]
        above["_head"] = above["_head"][start:]
        return True

    def _above(self, line: int) -> range:
        """The lines above, of the same input."""
        first = self._starts[bisect_right(self._starts, line) - 1] if self._starts and self._starts[0] <= line else 0
        return range(line - 1, max(first, line - _LINES_AHEAD) - 1, -1)

    def _knows(self, text: str) -> bool:
        """Is it a record? Asked of halves, of which there are few."""
        self._tries += 1
        return self._tries <= _MOST_TRIES and self._is_record(text)

    def _mend_line(self, line: int, pieces: list[_Piece]) -> None:
        *others, last = pieces
        several = [one.text.rstrip() for one in pieces]
        twice = frozenset(text for text in several if several.count(text) > 1)
        for piece in others:
            if piece.torn:
                continue
            whole = None if piece.cut else self._whole(piece.text)
            said = whole in self._said or whole in twice
            if whole is None:
                piece.torn = not (self._with_end_below(line, piece) or self._with_end_behind(piece, last))
                self._doubt(piece, last, twice)
            elif piece.level == "INFO" and not said and len(pieces) <= _MOST_TORN and self._is_open(whole):
                # a text of any kind can be the half of one; half a warning is better than none
                self._doubt(piece, last, twice)
                if not self._with_end_below(line, piece, said=True):
                    piece.torn, piece.text = True, ""
            elif not (self._with_end_below(line, piece) or self._with_end_behind(piece, last)):
                piece.text = whole
                self._doubt(piece, last, twice)
                if last.torn and not said:
                    piece.torn, piece.text = True, ""
                elif self._gdr and _NO_GDR.search(whole):
                    # whole in form, but its fellows end in /GDRDMA, and without it the edge would say the contrary
                    piece.torn, piece.text = True, ""

    def _whole(self, text: str) -> str | None:
        """The text without what stands between it and the next record, if it is a record."""
        texts = (text.rstrip(), _TASK.sub("", text))  # the next record's label is no part of it
        said = (one for one in texts if one in self._said)
        return next(said, None) or next((one for one in texts if self._is_record(one)), None)

    def _is_open(self, text: str) -> bool:
        """Does it end in a text of any kind?"""
        return self._knows(f"{text}~")

    def _doubt(self, piece: _Piece, last: _Piece, twice: Collection[str]) -> None:
        """A last record that ends in a text of any kind may hold the end of another one. Then it says nothing."""
        said = last.mended or last.text in self._said or last.text in twice
        if not said and not piece.mended and self._is_open(last.text) and self._cuts(piece, last):
            last.torn, last.text = True, ""

    @cached_property
    def _said(self) -> frozenset[str]:
        """The texts of records that stand alone in a line."""
        return frozenset(self._messages.str.strip_chars_end().unique())

    def _with_end_below(self, line: int, piece: _Piece, said: bool = False) -> bool:
        """The end of a record stands alone on one of the next lines. said: and somebody else says the same."""
        for below, text in self._orphans(line):
            for end in dict.fromkeys((text, _LABEL.sub("", text, count=1))):
                whole = self._ended(piece, end)
                if whole and (not said or whole[1] in self._said):
                    piece.level, piece.text = whole
                    piece.mended = True
                    self._taken.add(below)
                    return True
        return False

    def _ended(self, piece: _Piece, end: str) -> tuple[str, str] | None:
        """Level and text of a record with its end, if it is one."""
        if not piece.cut:
            return (piece.level, piece.text + end) if self._knows(piece.text + end) else None
        for level in ("INFO", "WARN"):
            word = f"NCCL {level} "
            text = (piece.level + end).removeprefix(word)
            if (piece.level + end).startswith(word) and self._knows(text):
                return level, text
        return None

    def _with_end_behind(self, piece: _Piece, last: _Piece) -> bool:
        """The end of a record stands behind the last record of its line, and there is one place only to cut."""
        if last.mended or self._is_record(last.text):
            return False
        cuts = self._cuts(piece, last)
        whole = self._ended(piece, last.text[cuts[0] :]) if len(cuts) == 1 else None
        if whole is None:
            return False
        (piece.level, piece.text), last.text = whole, last.text[: cuts[0]]
        piece.mended = last.mended = True
        return True

    def _cuts(self, piece: _Piece, last: _Piece) -> list[int]:
        """Where the last record of a line may end and the end of the other begin."""
        return [
            at
            for at in range(max(1, len(last.text) - _LONGEST_END), len(last.text))
            if self._ended(piece, last.text[at:]) and self._knows(last.text[:at].rstrip())
        ]

    def _orphans(self, line: int) -> Iterator[tuple[int, str]]:
        """The next lines of the same input that no record stands in."""
        end = bisect_right(self._starts, line)
        limit = self._starts[end] if end < len(self._starts) else len(self._lines)
        for below in range(line + 1, min(line + 1 + _LINES_AHEAD, limit)):
            text = self._lines[below].decode("utf-8", "replace").rstrip("\r\n\0")
            if below not in self._taken and text.strip() and not any(mark in text for mark in framing.MARKS):
                yield below, text

    @cached_property
    def _gdr(self) -> bool:
        """Do network edges of these lines tell of GPUDirect?"""
        return b"/GDRDMA" in self._block

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._block.split(b"\n")


def suspicious(heads: pl.Series, messages: pl.Series) -> bool:
    """Is there anything to mend among these? heads, messages: distinct ones."""
    return bool(_is_half(heads).any() or _is_torn(heads).any() or _holds_another(messages).any())


def _is_half(heads: pl.Series) -> pl.Series:
    """Host, pid and thread are parted by colons."""
    return heads.str.count_matches(":", literal=True) < 2


def _is_torn(heads: pl.Series) -> pl.Series:
    torn = heads.str.count_matches("] ", literal=True) > 1
    return torn & heads.str.contains(_CUT_LEVEL) if torn.any() else torn


def _holds_another(messages: pl.Series) -> pl.Series:
    version = messages.str.contains(_VERSION, literal=True) & ~messages.str.starts_with(_VERSION)
    return messages.str.contains_any(SIGNS) | version


def _half_headed(records: pl.DataFrame) -> pl.Series:
    """Records whose head lacks its beginning."""
    return _is_half(records.get_column("_head")) & records.get_column("_level").is_in(["INFO", "WARN"])


def _suspects(records: pl.DataFrame) -> pl.Series:
    """Records that hold the sign of another one."""
    return _holds_another(records.get_column("message")) | _is_torn(records.get_column("_head"))


class _Hosts:
    """The hosts of whole records, by pid: they tell where a name begins that is glued to another word."""

    def __init__(self, records: pl.DataFrame) -> None:
        self._records = records

    @cached_property
    def _known(self) -> frozenset[tuple[str, str]]:
        words = (
            pl.col("_head")
            .unique()
            .str.extract_groups(r"([A-Za-z0-9._-]+):(\d+):\d+ ")
            .struct.rename_fields(["host", "pid"])
        )
        return frozenset(self._records.select(words.alias("who")).unnest("who").drop_nulls().iter_rows())

    def is_whole(self, head: str) -> bool:
        """Is it the head of a process that prints elsewhere?"""
        found = _WHOLE.search(head)
        return found is not None and (found["host"], found["pid"]) in self._known

    def start(self, head: str) -> int:
        """Where the record begins in what stands before its level: behind the end of another's text."""
        *_, found = None, *_GLUED.finditer(head)
        if found is None:
            return 0
        label = _LABEL_BEFORE.search(head, 0, found.start())
        if label:
            return label.start()
        word, pid = found["word"], found["pid"]
        return next((found.start() + at for at in range(len(word)) if (word[at:], pid) in self._known), 0)


def _pieces(row: dict[str, Any], hosts: _Hosts) -> Iterator[_Piece]:
    """The records of a line, in their order."""
    head, message = row["_head"], row["message"]
    cut = _TORN_HEAD.match(head, max(0, len(head) - _LONGEST_HEAD))
    if cut:
        # of two heads that are cut in one line nobody knows whose an end is
        yield _Piece(cut["head"], cut["cut"], "", cut=True, torn=_HEAD_INSIDE.search(cut["head"]) is not None)
        head = head[cut.end() :]
        head = head[hosts.start(head) :]
    inner = list(framing.inner_records(message))
    starts = [*(_with_pod(message, one.start + hosts.start(one.head)) for one in inner), len(message)]
    yield _Piece(head, row["_level"], message[: starts[0]])
    for number, one in enumerate(inner):
        text = message[one.message : starts[number + 1]]
        yield _Piece(message[starts[number] : one.start + len(one.head)], one.level, text)


def _with_pod(message: str, start: int) -> int:
    """Where a record begins with the label that kubectl puts before it."""
    label = _POD.search(message[max(0, start - _LONGEST_POD) : start])
    return start - len(label[0]) if label else start


def _kind(pieces: Sequence[_Piece]) -> str:
    if any(piece.torn for piece in pieces):
        return TORN
    return MENDED if any(piece.mended for piece in pieces) else JOINED
