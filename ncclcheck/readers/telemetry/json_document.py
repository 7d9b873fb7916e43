"""JSON that knows its lines, read line by line: what came before a cut or damage is kept."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from ncclcheck.readers.telemetry.reader import Reader

_TOKEN = re.compile(
    r'\s*(?:([{}\[\],:])|"([^"\\]*(?:\\.[^"\\]*)*)"|(-?\d[\d.eE+-]{0,40}(?=[\s,\]}]|$)|true|false|null))', re.ASCII
)
# Halves of characters, which no text may hold alone.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 40
_MOST_VALUES = 2_000_000


class Object(dict[str, Any]):
    """line: where it begins. lines: of its keys. whole: its end was read."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.whole = False

    def object(self, key: str) -> Object:
        """The object under a key, an empty one where it is none."""
        found = self.get(key)
        return found if isinstance(found, Object) else Object(self.line)

    def objects(self, key: str) -> list[Object]:
        """The objects of the list under a key; what is none is passed over."""
        found = self.get(key)
        return [one for one in found if isinstance(one, Object)] if isinstance(found, list) else []

    def text(self, key: str) -> str:
        """A string or number as text, "" where there is none."""
        found = self.get(key)
        return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else ""

    def count(self, key: str) -> int | None:
        found = self.get(key)
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    def number(self, key: str) -> float | None:
        found = self.get(key)
        if not isinstance(found, int | float) or isinstance(found, bool):
            return None
        return float(found) if abs(found) < 1e300 else None


class Document:
    """One object on its way in. root: the object. ended: its end was read. broken: it went on as no JSON does."""

    def __init__(self) -> None:
        self.root: Object | None = None
        self.ended = self.broken = False
        self._open: list[Object | list[Any]] = []
        self._keys: list[str | None] = []
        self._values = 0

    def feed(self, number: int, text: str, start: int = 0) -> int:
        """Take a line from `start` on. Gives where the object ended in it, else the line's length."""
        position = start
        while not self.ended and not self.broken:
            found = _TOKEN.match(text, position)
            if found is None:
                self.broken = bool(text[position:].strip())
                return len(text)
            position = found.end()
            self._token(number, found)
        return position

    def _token(self, number: int, found: re.Match[str]) -> None:
        mark, string, word = found.groups()
        if mark in ("}", "]"):
            self._end(Object if mark == "}" else list)
        elif mark in ("{", "["):
            self._value(number, Object(number) if mark == "{" else [], opens=True)
        elif string is not None and self._wants_key():
            self._keys[-1] = _decoded(string)
        elif string is not None:
            self._value(number, _decoded(string))
        elif word is not None:
            self._value(number, _WORDS[word] if word in _WORDS else _number(word))

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], Object) and self._keys[-1] is None

    def _value(self, number: int, value: object, opens: bool = False) -> None:
        self._values += 1
        if self._open:
            parent, key = self._open[-1], self._keys[-1]
            if isinstance(parent, list):
                parent.append(value)
            elif key is None:
                self.broken = True
            else:
                parent[key], parent.lines[key], self._keys[-1] = value, number, None
        elif isinstance(value, Object):
            self.root = value
        else:
            self.broken = True
        if opens and isinstance(value, Object | list):
            self._open.append(value)
            self._keys.append(None)
        self.broken = self.broken or len(self._open) > _DEEPEST or self._values > _MOST_VALUES

    def _end(self, kind: type) -> None:
        if not self._open or not isinstance(self._open[-1], kind):
            self.broken = True
            return
        done = self._open.pop()
        self._keys.pop()
        if isinstance(done, Object):
            done.whole = True
        self.ended = not self._open


def _whole(number: int, text: str) -> Object | None:
    """A document that stands on one line, by the quicker parser."""
    if not text.rstrip().endswith("}") or _SURROGATE.search(text):
        return None

    def found(pairs: list[tuple[str, Any]]) -> Object:
        one = Object(number)
        one.update(pairs)
        one.lines = dict.fromkeys(one, number)
        one.whole = True
        return one

    try:
        whole = json.loads(text, object_pairs_hook=found, parse_constant=lambda word: None)
    except (ValueError, RecursionError):
        return None
    return whole if isinstance(whole, Object) else None


def _decoded(string: str) -> str:
    if "\\" not in string:
        return string
    try:
        return str(json.loads(f'"{string}"', strict=False)).encode("utf-8", "backslashreplace").decode()
    except ValueError:
        return string


def _number(text: str) -> int | float | None:
    try:
        number = int(text) if len(text) < 20 and text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


class JsonReader(Reader):
    """Reads documents that follow one another in one output; each goes to `take`."""

    def __init__(self) -> None:
        super().__init__()
        self._document: Document | None = None
        self._begun = False

    def take(self, document: Object) -> None:
        """A document, whole or as far as it came."""
        raise NotImplementedError

    def goes_on(self, text: str) -> bool:
        """Does this line begin another document of the same output?"""
        return False

    def read(self, number: int, text: str) -> bool:
        position = 0
        if self._document is None:
            position = text.find("{")
            if position < 0 or (self._begun and not self.goes_on(text)):
                return False
            self._begun = True
            whole = _whole(number, text) if position == 0 else None
            if whole is not None:
                self.take(whole)
                return True
            self._document = Document()
        while self._document is not None:
            position = self._document.feed(number, text, position)
            if self._document.broken:
                self.close()
                return False
            if not self._document.ended:
                return True
            self.close()
            position = text.find("{", position)
            if position >= 0:
                self._document = Document()
        return True

    def close(self) -> None:
        document, self._document = self._document, None
        if document is not None and document.root is not None:
            self.take(document.root)
