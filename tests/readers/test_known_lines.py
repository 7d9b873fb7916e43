"""Lines that are known by their hashed shape, and what the table says of them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from nccl_formats import LIST, formats

from ncclcheck.readers.grammar import DirectParser, events, mask
from ncclcheck.readers.known_lines import COLUMNS, TABLE, KnownLines

sys.path.insert(0, str(Path(__file__).parents[2]))
tool = importlib.import_module("tools.make_known_lines")

PIECE = r"\d+:[0-9a-f]{8}(?::[0-9a-f]{8})?"
ROW = re.compile(
    rf"(?:INFO|WARN|VERSION)\t[A-Z0-9_a-z|,\[\]-]+\t\d{{5}}\t\d{{5}}\t\w*\t\d+\t\*?{PIECE}(?:\*{PIECE})*\*?"
)

# Formats that fix no letters, or so few that a line could be anybody's.
UNKNOWN_FORMATS = 15


@pytest.fixture(scope="module")
def known() -> KnownLines:
    return KnownLines()


def test_the_table_holds_hashes_and_no_text() -> None:
    head, *rows = TABLE.read_text(encoding="utf-8").splitlines()
    assert head == "\t".join(COLUMNS)
    assert [row for row in rows if not ROW.fullmatch(row)] == []


def test_the_table_is_in_order_and_names_a_form_once_per_level() -> None:
    rows = tool.table()
    keys = [(row.form, row.level) for row in rows]
    assert keys == sorted(set(keys))
    assert all(row.first <= row.last for row in rows)
    assert {row.event for row in rows} - {""} <= set(events())


def test_the_table_is_written_as_it_was_read() -> None:
    assert tool.text_of(tool.joined(tool.table())) == TABLE.read_text(encoding="utf-8")


def test_a_form_that_begins_with_any_text_has_a_piece_that_can_be_searched() -> None:
    open_forms = [row.form for row in tool.table() if row.form.startswith("*")]
    assert open_forms
    for form in open_forms:
        assert max(form.strip("*").split("*"), key=lambda piece: int(piece.split(":")[0])).count(":") == 2


# ---------------------------------------------------------------------------------------- a table of forms of our own

OWN = (
    # level, format, first, last
    ("INFO", "Pump %d of %s primed at %lx, valve %p", 20402, 21803),
    ("INFO", "Pump %d of %s primed at %lx, valve %p", 21901, 22107),
    ("WARN", "Pump %d of %s primed at %lx, valve %p", 22203, 22501),
    ("INFO", "Pump %d of line primed at %lx, valve %p", 22703, 22903),
    ("INFO", "%s opened the sluice gate %d/%d", 22105, 23007),
    ("INFO", "%s let the water through: %s", 22203, 23007),
    ("INFO", "water level %d", 20402, 23007),
    ("INFO", "%s: %s", 21203, 21803),
    ("INFO", "Sluice%s", 20402, 20402),
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> KnownLines:
    maker = tool.Maker()
    rows = [maker.row(level, "PUMP", text, first, last) for level, text, first, last in OWN]
    path = tmp_path_factory.mktemp("known") / "known_lines.tsv"
    path.write_text(tool.text_of(tool.joined(row for row in rows if row)), encoding="utf-8")
    return KnownLines(path)


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("Pump 3 of eth7 primed at 9f, valve 0x7f00", (None, 22107)),
        ("Pump 3 of the old mill primed at ab, valve (nil)", (None, 22107)),
        ("Pump 3 of line primed at 9f, valve 0x7f00", (None, 22903)),  # both forms may have printed it
        ("keeper opened the sluice gate 3/4", (22105, None)),
        ("keeper 7 let the water through: 12 m", (22203, None)),
        ("water level 12", (None, None)),
    ],
)
def test_a_line_is_known_by_its_form(own: KnownLines, message: str, window: tuple[int | None, int | None]) -> None:
    found = own.find(mask(message), "INFO")
    assert found is not None
    assert (found.first, found.last) == window
    assert (found.level, found.subsystem, found.event) == ("INFO", "PUMP", None)


@pytest.mark.parametrize(
    "message",
    [
        "Pump 3 of eth7 primed at 9f, valve 0x7f00, leaking",
        "The Pump 3 of eth7 primed at 9f, valve 0x7f00",
        "Pump 3 of eth7 at 9f, valve 0x7f00",
        "Pump of eth7 primed at 9f, valve 0x7f00",
        "keeper opened the sluice gate 3/4 wide",
        "keeper let the water",
        "water levels 12",
        "keeper: all is well",  # `%s: %s` has no letters
        "Sluice shut",  # six letters could be anybody's
        "",
    ],
)
def test_a_line_of_another_form_is_not(own: KnownLines, message: str) -> None:
    assert own.find(mask(message), "INFO") is None


def test_a_form_is_known_at_the_level_that_prints_it(own: KnownLines) -> None:
    shape = mask("Pump 3 of eth7 primed at 9f, valve 0x7f00")
    found = own.find(shape, "WARN")
    assert found is not None
    assert (found.first, found.last) == (22203, 22501)
    assert own.find(shape, "TRACE") is None


@pytest.mark.parametrize(
    "text", ["NET/IB: " * 600, "\ue000" * 4000, "a" * 5000, " (" * 900, "\ue001*:8", "Pump " * 400]
)
def test_texts_of_strangers_are_not_known(known: KnownLines, own: KnownLines, text: str) -> None:
    assert known.find(text, "INFO") is None
    assert own.find(text, "INFO") is None


def test_a_release_that_is_added_extends_what_it_still_prints() -> None:
    maker = tool.Maker()
    old = [maker.row("INFO", "PUMP", text, 20402, 23007) for text in ("water level %d", "Pump %d is primed")]
    new = [maker.row("INFO", "PUMP|NET", text, 23100, 23100) for text in ("water level %ld", "Pump %d has run dry")]
    rows = tool.joined(row for row in (*old, *new) if row)
    assert sorted((row.first, row.last, row.subsystem) for row in rows) == [
        (20402, 23007, "PUMP"),
        (20402, 23100, "PUMP|NET"),
        (23100, 23100, "PUMP|NET"),
    ]


# ------------------------------------------------------------------------------------------------ all lines of NCCL


@pytest.mark.skipif(not LIST.is_file(), reason="no list of NCCL's formats beside the repository")
def test_every_line_that_nccl_prints_is_typed_or_known(known: KnownLines, direct: DirectParser) -> None:
    """A WARN of any wording is the event `warn`. Each format is filled in with other texts than the tool has."""
    unknown, several, differing = [], [], []
    for one in formats():
        for line in one.lines(4):
            read = [event for event, _ in direct.parses(line)]
            found = known.find(mask(line), one.level)
            if len(read) > 1:
                several.append((read, line))
            if found is None and not read:
                unknown.append((one.level, one.text))
            if found and read and found.event != read[0]:
                differing.append((found.event, read[0], line))
            if found:
                assert (found.first or 0) <= one.first and one.last <= (found.last or 99999), line
    unseen = sorted(set(unknown))
    assert len(unseen) <= UNKNOWN_FORMATS, unseen
    assert several == []
    # two formats of one form
    assert {events[:2] for events in differing} <= {("bootstrap_using", "bootstrap_oob_using")}
