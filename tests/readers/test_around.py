"""Lines that stand around NCCL's records: found by their first phrase, with the launcher's label before it."""

from __future__ import annotations

from line_samples import lines_of

from ncclcheck.readers.events import read_events
from ncclcheck.readers.records import parse_records


def test_a_line_around_has_its_label_and_no_level() -> None:
    source = lines_of(
        "[rank3]: Traceback (most recent call last):", "n7: Traceback (most recent call last):", "no news"
    )
    rows = [(row["line"], row["event"], row["level"], row["fields"]) for row in parse_records(source)]
    assert rows == [(1, "python_traceback", None, {}), (2, "python_traceback", None, {})]
    processes = read_events([source]).processes
    assert set(processes.select("task", "label_host").iter_rows()) == {("3", None), (None, "n7")}


def test_lines_around_are_no_records() -> None:
    events = read_events([lines_of("Traceback (most recent call last):", "n1:1:1 [0] NCCL INFO Bootstrap : who knows")])
    (count,) = events.counts
    assert (count.recognised, count.unrecognised, dict(count.levels)) == (0, 1, {"INFO": 1})


def test_a_line_that_only_begins_like_one_is_left_alone() -> None:
    events = read_events([lines_of("Traceback (most recent call last): as the manual says")])
    assert (events.tables, events.unrecognised) == ({}, None)


def test_lines_around_are_read_only_where_they_are_wanted() -> None:
    source = lines_of("Traceback (most recent call last):")
    assert read_events([source], wanted={"version"}).tables == {}
    assert set(read_events([source], wanted={"python_traceback"}).tables) == {"python_traceback"}


def test_an_error_that_names_the_version_is_both() -> None:
    line = "[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:7, NCCL version 2.21.5"
    assert [(row["record"], row["event"]) for row in parse_records(lines_of(line))] == [
        (0, "version"),
        (1, "python_error"),
    ]
