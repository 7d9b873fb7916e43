"""Lines that NCCL is known to print, also those of no diagnostic use: their hashed shapes.

The grammar types the lines that tell of the state of a job. NCCL prints some two thousand others; `known_lines.tsv`
tells them from lines that were never seen, and says which releases print a form. It holds no text. A row:

- level, subsystem: as NCCL calls it (`NET`, `INIT|NET`; those of other releases after a comma; `-` for a WARN)
- first, last: codes of releases (21803)
- event: the grammar's, empty where it has none
- letters: how many of a text the form fixes
- form: the literal pieces of the shape (`grammar.mask`, slots included) with `*` between them for any text; a form may
  begin or end with a star. A piece is `length:hash`, from eight characters on `length:hash:head`, where `head` is the
  hash of the first eight.

A form of few letters fits too much to prove anything: by itself it makes no line known, but its releases count where
it fits beside another one. `tools/make_known_lines.py` writes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ncclcheck.readers.choices import SLOT

TABLE = Path(__file__).with_name("known_lines.tsv")
COLUMNS = ("level", "subsystem", "first", "last", "event", "letters", "form")
HEAD = 8

# Fewer letters make no line known: of a form without a star, of one with it.
_FEWEST, _FEWEST_WITH_STAR = 3, 8

# NCCL's own texts are shorter. The time of a search grows with the length.
_LONGEST = 2000
# What printf makes of a null pointer: the mask leaves it.
_NULL = "(nil)"


class Known(NamedTuple):
    """What is known of a line. first, last: the releases that print its form; None where those are the oldest or the
    newest of the table, so that others may as well. event: as of the grammar, None where it has none."""

    first: int | None
    last: int | None
    level: str
    subsystem: str
    event: str | None


@cache
def known_lines() -> KnownLines:
    """The table, loaded when somebody asks for it."""
    return KnownLines()


def table(path: Path = TABLE) -> list[Form]:
    """The rows of the table."""
    return [
        Form(level, subsystem, int(first), int(last), event, int(letters), form)
        for level, subsystem, first, last, event, letters, form in (
            line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]
        )
    ]


def hashed(text: str) -> str:
    """The hash of a piece."""
    return blake2b(text.encode(), digest_size=4).hexdigest()


class KnownLines:
    """The table, as it is searched: a form by the head of its first piece, or of its longest one in any place.

    Loading takes some milliseconds: it is for whoever has a line that no event matches, or no release.
    """

    def __init__(self, path: Path = TABLE) -> None:
        self._starting: dict[str, list[Form]] = {}
        self._inside: dict[str, list[Form]] = {}
        self.all = table(path)
        for form in self.all:
            pieces = form.pieces
            if pieces[0]:
                self._starting.setdefault(_head(pieces[0]), []).append(form)
            else:
                self._inside.setdefault(_head(max(pieces, key=_length)), []).append(form)
        self._oldest = min(form.first for form in self.all)
        self._newest = max(form.last for form in self.all)

    def forms(self, shape: str, level: str) -> list[Form]:
        """The forms that a shape of this level (INFO, WARN) fits, also those that prove nothing by themselves."""
        text = _Text(shape.replace(_NULL, SLOT))
        if len(text.text) > _LONGEST:
            return []
        return [form for form in self._candidates(text) if form.level == level and form.fits(text)]

    def find(self, shape: str, level: str) -> Known | None:
        """What is known of lines of this shape and level. The form that says most of the text tells what it is; the
        releases are those of all that fit: newer ones fill in a name that older ones spell out."""
        fitting = self.forms(shape, level)
        best = max(fitting, key=lambda form: (form.letters, form.length), default=None)
        if best is None or best.letters < (_FEWEST if len(best.pieces) == 1 else _FEWEST_WITH_STAR):
            return None
        first, last = min(form.first for form in fitting), max(form.last for form in fitting)
        return Known(
            None if first == self._oldest else first,
            None if last == self._newest else last,
            level,
            best.subsystem,
            best.event or None,
        )

    def _candidates(self, text: _Text) -> Iterator[Form]:
        for length in range(1, HEAD + 1):
            yield from self._starting.get(text.hash(0, length), ())
        for head in self._inside.keys() & text.places(HEAD).keys():
            yield from self._inside[head]


class Form(NamedTuple):
    """A row of the table."""

    level: str
    subsystem: str
    first: int
    last: int
    event: str
    letters: int
    form: str

    @property
    def pieces(self) -> list[str]:
        """An empty one at the beginning or the end stands for a star there."""
        return self.form.split("*")

    @property
    def length(self) -> int:
        """Characters of a text that the form fixes, slots included."""
        return sum(map(_length, self.pieces))

    def fits(self, text: _Text) -> bool:
        """The pieces in their order, the first and the last one at the ends."""
        start, *others = self.pieces
        if start and not text.stands(start, 0):
            return False
        position = _length(start)
        if not others:
            return position == len(text.text)
        *middle, end = others
        for piece in middle:
            found = text.find(piece, position)
            if found is None:
                return False
            position = found + _length(piece)
        last = len(text.text) - _length(end)
        return position <= last and (not end or text.stands(end, last))


class _Text:
    """A text whose parts are compared by hash, each hashed once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._hashes: dict[tuple[int, int], str] = {}
        self._places: dict[int, dict[str, list[int]]] = {}

    def hash(self, start: int, length: int) -> str:
        key = (start, length)
        if key not in self._hashes:
            self._hashes[key] = hashed(self.text[start : start + length])
        return self._hashes[key]

    def stands(self, piece: str, position: int) -> bool:
        """Does the piece stand there?"""
        return self.hash(position, _length(piece)) == piece.split(":")[1]

    def find(self, piece: str, start: int) -> int | None:
        """The first place of a piece, from `start` on."""
        places = self.places(min(_length(piece), HEAD)).get(_head(piece), ())
        return next((place for place in places if place >= start and self.stands(piece, place)), None)

    def places(self, length: int) -> dict[str, list[int]]:
        """All parts of that length: hash -> places."""
        if length not in self._places:
            found: dict[str, list[int]] = {}
            for start in range(len(self.text) - length + 1):
                found.setdefault(self.hash(start, length), []).append(start)
            self._places[length] = found
        return self._places[length]


def _length(piece: str) -> int:
    return int(piece.split(":")[0]) if piece else 0


def _head(piece: str) -> str:
    return piece.split(":")[-1]
