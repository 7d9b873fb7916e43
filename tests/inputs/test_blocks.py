"""Blocks end where lines end, lose nothing, and stay bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclcheck.inputs.blocks import cut_blocks
from ncclcheck.inputs.errors import UnreadableInputError


def cut(chunks: list[bytes], block: int, kept: int = 2) -> tuple[list[tuple[bytes, int]], list[int]]:
    long_lines: list[int] = []
    return list(cut_blocks(iter(chunks), long_lines.append, block, kept)), long_lines


@given(
    st.lists(st.text("ab\n\r", max_size=12).map(str.encode), max_size=12),
    st.integers(min_value=4, max_value=20),
)
def test_no_byte_is_lost_but_the_rest_of_long_lines(chunks: list[bytes], block: int) -> None:
    blocks, long_lines = cut(chunks, block)
    data = b"".join(chunks)
    lines = data.split(b"\n")
    too_long = [number for number, line in enumerate(lines, 1) if len(line) >= block]
    assert long_lines == too_long
    kept = [line[:2] if number in too_long else line for number, line in enumerate(lines, 1)]
    out = b"".join(block for block, _ in blocks)
    assert out.removesuffix(b"\n") == b"\n".join(kept).removesuffix(b"\n")
    assert all(len(text) <= block for text, _ in blocks)
    assert all(text.endswith(b"\n") for text, _ in blocks[:-1])


@given(st.lists(st.text("ab\n", max_size=9).map(str.encode), max_size=12), st.integers(min_value=4, max_value=9))
def test_the_number_of_a_blocks_first_line(chunks: list[bytes], block: int) -> None:
    line = 1
    for text, first in cut(chunks, block)[0]:
        assert first == line
        line += text.count(b"\n")


def test_a_long_line_stays_one_line() -> None:
    blocks, long_lines = cut([b"one\n", b"x" * 50, b"x" * 50 + b"\nthree\n"], block=10, kept=4)
    assert blocks == [(b"one\n", 1), (b"xxxx\n", 2), (b"three\n", 3)]
    assert long_lines == [2]


def test_carriage_returns_end_no_line() -> None:
    assert cut([b"a\rb\r\nc"], block=10)[0] == [(b"a\rb\r\nc", 1)]


def test_a_failure_comes_after_what_preceded_it() -> None:
    def failing() -> Iterator[bytes]:
        yield b"one\ntw"
        raise UnreadableInputError("torn")

    blocks = cut_blocks(failing(), lambda _: None)
    assert next(blocks) == (b"one\ntw", 1)
    with pytest.raises(UnreadableInputError, match="torn"):
        next(blocks)
