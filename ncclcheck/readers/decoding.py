"""Bytes of a block to lines of text, without what terminals, container runtimes and pages put around it."""

from __future__ import annotations

import json
import re

import polars as pl

from ncclcheck.readers.choices import SLOT


def text_lines(block: bytes, wanted: pl.Expr) -> pl.DataFrame:
    """The lines for which `wanted`, an expression on `text`, is true: `_line` (counted from 0) and `text`.

    The block has gone through `plain`. What is not UTF-8 is written as \\xNN.
    """
    lines = pl.scan_lines(block, name="text", row_index_name="_line").filter(wanted)
    try:
        return lines.collect()
    except pl.exceptions.ComputeError:  # checking every block beforehand would cost more than this rare failure
        block = block.decode("utf-8", "backslashreplace").encode()
        return pl.scan_lines(block, name="text", row_index_name="_line").filter(wanted).collect()


def plain(block: bytes) -> bytes:
    """The block without colours, Docker's JSON, hard blanks and the mask's own character. Lines stay lines."""
    if block.find(b'{"log":"', 0, _DOCKER_BEGINS) >= 0:
        block = _DOCKER_LINE.sub(_docker_text, block)
    if not block.isascii():
        for strange, replacement in _CHARACTERS:
            if strange[:1] in block:  # one byte is found ten times faster than two
                block = block.replace(strange, replacement)
    return _CONTROL_SEQUENCE.sub(b"", block) if b"\x1b" in block else block


# Docker writes nothing but its entries: one stands near the beginning.
_DOCKER_BEGINS = 64 << 10

_CHARACTERS = ((SLOT.encode(), "\ufffd".encode()), ("\u00a0".encode(), b" "))
_CONTROL_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_DOCKER_LINE = re.compile(rb'^\{"log":".*\}\r?$', re.M)


def _docker_text(found: re.Match[bytes]) -> bytes:
    try:
        entry = json.loads(found[0])
        return f"{entry.get('time', '')} {entry['log']}".rstrip().replace("\n", " ").encode()
    except (ValueError, KeyError, RecursionError):
        return found[0]


def lines_with(block: bytes, pattern: str) -> pl.DataFrame:
    """The lines of a raw block that hold a pattern: `_line` (counted from 0) and `text`."""
    return text_lines(plain(block), pl.col("text").str.contains(pattern))


def numbered_lines(block: bytes, first_line: int) -> list[tuple[int, str]]:
    """All lines of a block as text, with their numbers."""
    return list(enumerate(block.decode("utf-8", "backslashreplace").split("\n"), first_line))
