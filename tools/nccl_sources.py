"""The messages in NCCL's sources: every call of its logging macros that names its format.

A small scanner of C and C++, not a parser: comments go, strings beside each other are one, the macros of <inttypes.h>
are what they stand for, and any other name beside a string becomes `<NAME>`, text that only the build knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUFFIXES = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}

_CALL = re.compile(r'\b(?:(?P<info>INFO_LOC|INFO)\s*\((?P<flags>[^",;]+),|(?P<other>WARN|VERSION|printf)\s*\()')
_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\\n]|\\.)*)"|PRI(?P<width>[dioux])(?P<bits>\d+)|#?(?P<name>[A-Za-z_]\w*)|\\?\s+|(?P<mark>.)',
    re.S,
)
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')""", re.S)
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

# What INFO_LOC puts before its own text.
_LOCATION = "%s:%d (%s) "
# The only printf that is a message.
_BARE_VERSION = "NCCL version"


class Message(NamedTuple):
    """A call. level: INFO, WARN or VERSION. subsystem: the flags without `NCCL_`, "-" for a WARN."""

    level: str
    subsystem: str
    format: str
    file: str


def messages(checkout: Path) -> Iterator[Message]:
    """All calls below `src/` of a checkout, file by file."""
    for path in sorted(path for path in (checkout / "src").rglob("*") if path.suffix in SUFFIXES):
        yield from calls(path.read_text(encoding="utf-8", errors="replace"), path.relative_to(checkout).as_posix())


def calls(source: str, file: str) -> Iterator[Message]:
    """The calls of one file. Those whose format is no string (a variable, the macro's own definition) are left out."""
    source = _COMMENT.sub(lambda found: found[1] or " ", source)
    for call in _CALL.finditer(source):
        text = _format(source, call.end())
        if text is None:
            continue
        if call["info"]:
            flags = (flag.strip(" \t\n()").removeprefix("NCCL_") for flag in call["flags"].split("|"))
            yield Message("INFO", "|".join(flags), (_LOCATION if call["info"] == "INFO_LOC" else "") + text, file)
        elif call["other"] == "WARN":
            yield Message("WARN", "-", text, file)
        elif call["other"] == "VERSION" or text.startswith(_BARE_VERSION):
            yield Message("VERSION", "ALL", text, file)


def unescape(text: str) -> str:
    """What a string of C stands for."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)


def _format(source: str, position: int) -> str | None:
    """The format that an argument is: strings and names up to the comma or bracket that ends it; None if none."""
    text, is_string = "", False
    while token := _TOKEN.match(source, position):
        position = token.end()
        if token["string"] is not None:
            text += unescape(token["string"])
            is_string = True
        elif token["width"]:
            text += ("l" if token["bits"] == "64" else "") + token["width"]
        elif token["name"]:
            text += f"<{token['name'].upper()}>"
        elif token["mark"]:
            return text if is_string and token["mark"] in ",)" else None
    return None
