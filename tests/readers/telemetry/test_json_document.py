"""JSON that knows its lines, and what is left of it where it is cut or damaged."""

from __future__ import annotations

import pytest

from ncclcheck.readers.telemetry.json_document import Document, JsonReader, Object


def document(text: str) -> Document:
    found = Document()
    for number, line in enumerate(text.splitlines(), 1):
        found.feed(number, line)
    return found


class Kept(JsonReader):
    """Keeps the documents."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Object] = []

    def take(self, document: Object) -> None:
        self.taken.append(document)


def test_objects_and_keys_know_their_lines() -> None:
    found = document('{\n "a": {"b": [1, -2.5e3, true, null, "x\\u00e9"]},\n "c":\n 7\n}')
    assert found.ended and found.root is not None and found.root.whole
    assert found.root == {"a": {"b": [1, -2500.0, True, None, "xé"]}, "c": 7}
    assert found.root.object("a").line == 2 and found.root.lines == {"a": 2, "c": 4}


def test_what_ends_too_early_is_kept_and_not_whole() -> None:
    found = document('{\n "a": [{"b": 1}, {"b": ')
    assert found.root is not None and not found.ended and not found.root.whole
    first, second = found.root.objects("a")
    assert first.whole and first.count("b") == 1
    assert not second.whole and second.count("b") is None


@pytest.mark.parametrize("text", ["{]", '{"a" "b" 1 2}', "{1}", '{"a": nan}', '{"a": bare}', "[" * 50])
def test_what_is_no_json_is_broken(text: str) -> None:
    assert document(text).broken


def test_numbers_that_are_none_are_null() -> None:
    found = document('{"a": 1e999, "b": 99999999999999999999999999, "c": -0}')
    assert found.root == {"a": None, "b": 1e26, "c": 0}


def test_values_of_the_wrong_kind_are_none() -> None:
    thing = Object(3)
    thing.update({"a": "7", "b": True, "c": [1, {}]})
    assert thing.count("a") is None and thing.count("b") is None and thing.text("b") == ""
    assert thing.objects("c") == [] and thing.object("a").line == 3


def test_nesting_is_bounded() -> None:
    assert document('{"a":' * 60).broken


@pytest.mark.parametrize("end", ["}", "\n}"])
def test_half_a_character_is_written_out(end: str) -> None:
    """No table of text can hold it. On one line or on several: two parsers read them."""
    reader = Kept()
    for number, line in enumerate(('{"a": "\\ud800b", "\\udc00": "\\ud83d\\ude00"' + end).splitlines(), 1):
        assert reader.read(number, line)
    assert reader.taken == [{"a": "\\ud800b", "\\udc00": "\N{GRINNING FACE}"}]


def test_a_text_without_end_breaks_the_document() -> None:
    assert document('{"a": "' + "b" * 1_000_000).broken
    assert document('{"a": "' + "\\" * 1_000_001).broken
