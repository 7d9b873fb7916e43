"""Finding NCCL records in lines: where a record begins, who printed it, and what stands around it.

A record is `[label][time] host:pid:tid [device] [file:line [(function)]] NCCL LEVEL message`. What stands before the
message repeats from line to line, so heads are parsed once each (`parse_head`). Forms: host cut or empty, no head at
all, the bare version line, `INFO` without the word NCCL (release 2.2), RCCL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ncclcheck.readers.labels import Label, parse_label

# Words of which one stands in every line that holds a record. Everything else passes by at the speed of this search.
MARKS = ("NCCL", "RCCL version", "] INFO ", " WARN ")

# Clock times in a head: they make heads unique, so they are split off first. NCCL's own are of any form that the user
# asks for (NCCL_DEBUG_TIMESTAMP_FORMAT): dates with names of months, with slashes, a clock in brackets.
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?"
_DAY = r"[A-Z][a-z]{2} [ \d]?\d|\d\d[ -][A-Z][a-z]{2}[ -]\d{4}|\d\d/\d\d/\d{2,4}|\d{4}/\d\d/\d\d"
_NAMED_DAY = rf"(?:[A-Z][a-z]{{2}},? )?(?:{_DAY})"
TIME = (
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
    rf"|\[?{_NAMED_DAY}[T ]{_CLOCK}(?: \d{{4}})?(?:(?: [A-Z]{{3,5}})?(?: \d{{4}})?\])?"
    rf"|\[{_CLOCK}\])"
)

# `INFO` or `WARN` of release 2.2, which has no word NCCL; the device in brackets makes sure.
OLD_LEVEL = r"^(.*:\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?)(INFO|WARN) (.*)$"
LEVEL = r"^(.*?)NCCL (WARN|TRACE|ABORT)\b ?(.*)$"
# 2.13.4 and newer at level TRACE: the program's calls, without a device
CALL = r"^(.*:\d+:\d+ )NCCL (CALL) (.*)$"
VERSION = r"^(.*?)((?:NCCL|RCCL) version \d.*)$"

# A second record inside the text of a first one: its level, and what has to stand before that.
_INNER_LEVEL = re.compile(r"NCCL (INFO|WARN) ")
# The bare version line behind a record; with a blank before it, it is a word of the message.
_INNER_VERSION = re.compile(r"(?<=\S)NCCL version \d[\w.+-]{0,64}\s*$")
_INNER_HEAD = re.compile(r"\S{0,255}:\d{1,9}:\d{1,9} \[-?\d{1,20}\] (?:\S{1,255}:\d{1,9} (?:\(\w{1,64}\) )?)?$")

# Plugins name the function in place of the file, in C++ with its signature.
# A host that was blanked out before the log was shared stands in angle brackets.
_ORIGIN = re.compile(
    r"(?P<host><(?!stdout>|stderr>)[\w.-]{1,64}>|[A-Za-z0-9._-]{0,255})"
    r":(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) (?:\[(?P<device>-?\d+)\] )?"
    r"(?:<\d+> |\d+\.\d+ )?"  # TRACE: milliseconds
    r"(?:(?P<file>[^\s:]+|[A-Za-z_][^\[\]]{0,300}\)):(?P<line>\d+) (?:\((?P<function>[^)]*)\) )?)?$"
)
_DEVICE_ONLY = re.compile(r"\[(?P<device>-?\d{1,9})\] (?:(?P<file>[^\s:]{1,255}):(?P<line>\d{1,9}) )?$")
_TIME = re.compile(TIME)
_HALF_CLOCK = re.compile(r"\d\d:\d\d:$")
_SECONDS = re.compile(r"^\d\d(?:[.,]\d+)?(?=[A-Za-z])")
# Colours as text: the control character itself is gone from a block by now.
_COLOUR = re.compile(r"(?:\x1b|ESC|\\(?:u001b|x1b|033))\[[0-9;]{0,16}m")
_LONGEST_HEAD = 1000
_LONGEST_VERSION = 100
_LIMIT = 1023


class Head(NamedTuple):
    """Who printed a record. host None: the record has no prefix. device: CUDA device of the printing thread."""

    label: Label
    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    src_file: str | None = None
    src_line: int | None = None
    src_func: str | None = None


class Inner(NamedTuple):
    """A record within a message: where it begins, its head and level, and where its own message begins."""

    start: int
    head: str
    level: str
    message: int


def inner_records(message: str) -> Iterator[Inner]:
    """The records that begin inside of a message."""
    last = 0
    for level in _INNER_LEVEL.finditer(message):
        head = _INNER_HEAD.search(message, max(last, level.start() - _LONGEST_HEAD), level.start())
        if head:
            last = level.end()
            yield Inner(head.start(), head[0], level[1], last)
    version = _INNER_VERSION.search(message, max(last, len(message) - _LONGEST_VERSION))
    if version:
        yield Inner(version.start(), "", "VERSION", version.start())


@lru_cache(maxsize=200_000)
def parse_head(text: str) -> Head:
    """Parse what stands before the level word, times already split off or not."""
    text = _COLOUR.sub("", _TIME.sub("", text[-_LONGEST_HEAD:]))
    found = _ORIGIN.search(text)
    if found is None:
        device = _DEVICE_ONLY.search(text)
        if device is None:
            return Head(parse_label(text))
        return Head(
            parse_label(text[: device.start()]),
            device=int(device["device"]),
            src_file=device["file"],
            src_line=_small(device["line"]),
        )
    before, host = text[: found.start()], found["host"]
    if _HALF_CLOCK.search(before):  # a clock without a blank behind it: the seconds stand before the host
        host = _SECONDS.sub("", host)
    return Head(
        label=parse_label(before),
        host=host,
        pid=int(found["pid"]),
        tid=int(found["tid"]),
        device=_small(found["device"]),
        src_file=found["file"],
        src_line=_small(found["line"]),
        src_func=found["function"],
    )


def at_limit(head: str, message: str) -> bool:
    """Has the record the longest form that NCCL until 2.28.9 writes: prefix and text in 1024 bytes with the last 0?"""
    found = _ORIGIN.search(_TIME.sub("", head))
    return found is not None and abs(len(found[0]) + len("NCCL INFO ") + len(message) - _LIMIT) <= 1


def _small(digits: str | None) -> int | None:
    """Old releases print whatever was on the stack; keep what fits a device or line number."""
    return int(digits) if digits is not None and len(digits) < 10 else None
