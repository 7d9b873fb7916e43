"""The page of what is read by release follows the lines of the tests and the table of known lines."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from ncclcheck.readers.grammar import mask
from ncclcheck.readers.known_lines import KnownLines

sys.path.insert(0, str(Path(__file__).parents[1]))
tool = importlib.import_module("tools.make_coverage")

OLDEST = 20402  # of the table


def test_the_page_is_up_to_date() -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(tool.rows()), "run python tools/make_coverage.py"


def test_every_event_of_nccl_is_on_the_page_and_read_in_some_release() -> None:
    assert [row.event for row in tool.rows() if not row.forms and not row.releases] == []


def test_a_line_of_the_tests_is_of_a_release_that_prints_it() -> None:
    known = KnownLines()
    for line in tool.lines():
        found = known.find(mask(line.message), line.level)
        if found and found.event == line.event and line.level != "VERSION" and (line.release or 0) >= OLDEST:
            assert (found.first or 0) <= line.release <= (found.last or 99999), line


@pytest.mark.parametrize(
    ("comment", "about"),
    [
        ("", ""),
        ("// 2.29.2+\n", "2.29.2+"),
        ("// ----------- channels\n// one line\n// and more | of it\n", "one line and more \\| of it"),
    ],
)
def test_an_event_is_described_by_the_comment_above_it(comment: str, about: str) -> None:
    assert tool._about(comment) == about
