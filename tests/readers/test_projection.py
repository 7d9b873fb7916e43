"""The projection gives what Lark, line by line, gives; and no line of a block takes another with it."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from line_samples import SAMPLES, Source
from message_strategies import damaged, messages

from ncclcheck.readers.choices import SLOT
from ncclcheck.readers.events import read_events
from ncclcheck.readers.finding import Piece, find_records
from ncclcheck.readers.grammar import DirectParser, field_types
from ncclcheck.readers.projection import KNOWN, Block, Projection

Reading = tuple[str, dict[str, str]] | None

# The same examples everywhere, so that a change is to blame and not the dice; a failure shows the one message of many.
steady = settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

PROJECTION = Projection()
NUMBER = re.compile(r"[-0-9A-Fa-f.]+")


def project(block: bytes, first_line: int = 1) -> dict[tuple[int, int], Reading]:
    """Event and fields by line and record; None where no event matches."""
    found = PROJECTION.read([Piece(0, block, first_line)])
    readings: dict[tuple[int, int], Reading] = {}
    for event, table in found.events.items():
        for row in table.joined().iter_rows(named=True):
            fields = {name: value for name, value in row.items() if name[0] != "_" and value is not None}
            readings[row["_line"], row["_record"]] = (event, fields) if event != KNOWN else None
    if found.unrecognised is not None:
        readings |= dict.fromkeys(found.unrecognised.rows.select("_line", "_record").iter_rows())
    return dict(sorted(readings.items()))


def informed(*texts: str) -> bytes:
    return "".join(f"n1:1:1 [0] NCCL INFO {text}\n" for text in texts).encode()


def compare(direct: DirectParser, texts: list[str]) -> list[tuple[str, Reading, Reading]]:
    """Messages that Lark and the projection read differently. Blanks and edges behind a message do not count."""
    texts = [text.rstrip(" \t\x00│|`") for text in texts if not re.search("NCCL (INFO|WARN) ", text)]
    readings = project(informed(*texts), 0)
    both = ((text, direct.parse(text), readings[line, 0]) for line, text in enumerate(texts))
    return [(text, lark, projected) for text, lark, projected in both if lark != projected]


def lacks_a_number(fields: dict[str, str]) -> bool:
    """Does something else stand in a number's place?"""
    kinds = {name: field_types().get(name) for name in fields}
    return any(kinds[name] in ("INT", "FLOAT") and not NUMBER.fullmatch(text) for name, text in fields.items())


# ----------------------------------------------------------------------------------------- the same as line by line


def test_the_lines_of_all_events_are_read_as_lark_reads_them(direct: DirectParser) -> None:
    assert compare(direct, [sample.message for sample in SAMPLES]) == []


@steady
@given(texts=st.lists(messages(), min_size=60, max_size=120))
def test_other_values_are_read_as_lark_reads_them(direct: DirectParser, texts: list[str]) -> None:
    assert compare(direct, texts) == []


@steady
@given(texts=st.lists(damaged(), min_size=60, max_size=120))
def test_damaged_messages_are_never_read_as_something_else(direct: DirectParser, texts: list[str]) -> None:
    """One of the two may see nothing, now and then: a slot swallowed the text beside it, or stands for a number (and
    that number is null then)."""
    differences = compare(direct, texts)
    assert [found for found in differences if found[1] and found[2] and not lacks_a_number(found[2][1])] == []
    assert len(differences) <= len(texts) // 10


CASES = Path(__file__).parents[2].parent / "shared" / "cases"


@pytest.mark.skipif(not CASES.is_dir(), reason="no collection of logs beside the repository")
def test_real_logs_are_read_as_lark_reads_them(direct: DirectParser) -> None:
    for path in sorted(path for path in CASES.rglob("*") if path.is_file()):
        block = path.read_bytes()
        readings = project(block)
        found = find_records([Piece(0, block, 1)], (), PROJECTION._knows, PROJECTION._repeated)
        messages = found.messages.spread(found.messages.values)
        for (line, record), message in zip(found.rows.select("_line", "_record").iter_rows(), messages, strict=True):
            assert readings[line + 1, record] == direct.parse(message), f"{path}:{line + 1}"


# ------------------------------------------------------------------------------------------------------------ blocks

TEXT = "".join(
    ("" if index % 3 else "\n") + sample.line + ("" if index % 5 else "\r") + "\n"
    for index, sample in enumerate(SAMPLES)
).encode()
LINE_ENDS = [position + 1 for position, byte in enumerate(TEXT) if byte == ord("\n")]


@settings(steady, max_examples=8)
@given(cuts=st.sets(st.sampled_from(LINE_ENDS), min_size=1, max_size=6))
def test_cutting_an_input_at_line_ends_changes_nothing(cuts: set[int]) -> None:
    readings: dict[tuple[int, int], Reading] = {}
    for block, first_line in Source(TEXT, sorted(cuts)).blocks():
        readings |= project(block, first_line)
    assert readings == project(TEXT)


@pytest.mark.parametrize("block", [b"", b"\n", b"\n\n\n", b"step 1\nstep 2", b"NCCL is not in here\n", b"\x00" * 50])
def test_a_block_without_records_has_none(block: bytes) -> None:
    found = PROJECTION.read([Piece(0, block, 1)])
    assert (found.levels, found.events, found.unrecognised) == ([], {}, None)
    assert found.lines == [(0, block.count(b"\n") + (not block.endswith(b"\n") and block != b""))]


def test_pieces_of_many_inputs_are_read_as_each_alone() -> None:
    pieces = [
        Piece(0, informed("nranks 4", "hm"), 1),
        Piece(1, b"", 1),
        Piece(2, informed("nranks 8").rstrip(b"\n"), 1),  # a file whose last line has no end
        Piece(3, b"step 1\n" + informed("nranks 2"), 1),
        Piece(3, informed("nranks 1", "hm"), 7),
    ]

    def places(found: Block) -> list[tuple[object, ...]]:
        assert found.unrecognised is not None
        known = found.events["nranks"].joined().select("_source", "_line", "nranks").rows()
        return [*found.lines, *sorted(found.levels), *known, *found.unrecognised.rows.select("_source", "_line").rows()]

    assert places(Projection().read(pieces)) == [
        *((0, 2), (1, 0), (2, 1), (3, 2), (3, 2)),
        *((0, "INFO", 2), (2, "INFO", 1), (3, "INFO", 3)),
        *((0, 1, "4"), (2, 1, "8"), (3, 2, "2"), (3, 7, "1")),
        *((0, 2), (3, 8)),
    ]


def test_a_line_that_is_not_utf_8_takes_no_other_with_it() -> None:
    block = informed("nranks 4") + b"caf\xe9 \xff\xfe\n" + informed("nranks 5", "Using network caf\u00e9")
    block += b"n1:1:1 [0] NCCL INFO Using network \xff\n"
    assert list(project(block).values()) == [
        ("nranks", {"nranks": "4"}),
        ("nranks", {"nranks": "5"}),
        ("net_using", {"network_name": "caf\u00e9"}),
        ("net_using", {"network_name": "\\xff"}),
    ]


def test_the_character_of_the_mask_in_the_input_is_no_slot() -> None:
    block = informed(f"nranks {SLOT}", f"Using network {SLOT}", "nranks 4")
    network = ("net_using", {"network_name": "\ufffd"})
    assert list(project(block).values()) == [None, network, ("nranks", {"nranks": "4"})]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x00\n", "   \n", "\r 45%|####  | 9/20\n", "", " │\n", "`\n"])
def test_what_stands_behind_a_message_is_not_part_of_it(end: str) -> None:
    block = informed("Using network IB").removesuffix(b"\n") + end.encode()
    assert project(block) == {(1, 0): ("net_using", {"network_name": "IB"})}


def test_a_nul_inside_a_message_stays() -> None:
    assert project(informed("Using network A\x00B")) == {(1, 0): ("net_using", {"network_name": "A\x00B"})}


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("n1:1:1 [0] NCCL INFO nranks 4 n2:2:2 [1] NCCL INFO nranks 8", ["nranks", "nranks"]),
        ("n1:1:1 [0] NCCL INFO nranks 4n2:2:2 [1] init.cc:5 NCCL WARN Cuda failure 'oom'", [None, "cuda_failure"]),
        ("n1:1:1 [0] NCCL INFO Connected all rin2:2:2 [1] NCCL INFO nranks 8", [None, "nranks"]),
    ],
)
def test_records_of_one_line_are_all_read(text: str, events: list[str | None]) -> None:
    readings = project((text + "\n").encode(), 7)
    assert list(readings) == [(7, 0), (7, 1)]
    assert [reading and reading[0] for reading in readings.values()] == events


def test_a_slot_of_the_wrong_kind_is_not_taken_for_a_field() -> None:
    """A shape shows a slot, not which one."""
    assert set(project(informed("12", "12 34", "n1<0>", "Trees [0] 3", "[0] 12 (5)", "GPU/1 :12")).values()) == {None}


def test_unknown_warnings_are_an_event_and_other_unknown_records_are_counted() -> None:
    block = b"n1:1:1 [0] a.cc:1 NCCL WARN all is lost\n" + informed("hm", "nranks 4") + b"step 3\n"
    events = read_events([Source(block)])
    (count,) = events.counts
    assert (count.lines, count.recognised, count.unrecognised) == (4, 2, 1)
    assert dict(count.levels) == {"INFO": 2, "WARN": 1}
    assert events.tables["warn"].joined().get_column("message").to_list() == ["all is lost"]
    assert events.unrecognised is not None
    assert events.unrecognised.get_column("message").to_list() == ["hm"]


def test_a_line_of_no_diagnostic_use_is_known_and_not_unrecognised() -> None:
    texts = ["NCCL did not shutdown nvml properly", "init.cc:45 Cuda Alloc Size 2097152 pointer 0x7f00", "hm"]
    warning = b"n1:1:1 [0] a.cc:1 NCCL WARN NCCL did not shutdown nvml properly\n"
    events = read_events([Source(informed(*texts, "NCCL did not shutdown nvml prope") + warning)])
    (count,) = events.counts
    assert (count.recognised, count.unrecognised) == (3, 2)
    known = events.typed("known")
    assert known is not None
    assert known.drop(pl.selectors.starts_with("_")).rows() == [
        (texts[0], "INIT", None, "2.4.8"),
        (texts[1], "ALLOC", "2.10.3", "2.29.3"),
    ]
    assert events.tables["warn"].rows.height == 1


def test_who_wants_no_known_lines_has_them_counted() -> None:
    events = read_events([Source(informed("NCCL did not shutdown nvml properly"))], wanted=["nranks"])
    assert (events.counts[0].recognised, events.tables, events.unrecognised) == (1, {}, None)
