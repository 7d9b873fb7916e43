"""Every event in every form of lines.jsonl is read with the event and the fields that stand beside it."""

from __future__ import annotations

import json
from functools import cache

import pytest
from line_samples import SAMPLES, Sample, lines_of

from ncclcheck.readers import grammar
from ncclcheck.readers.automaton import TABLES
from ncclcheck.readers.records import parse_records


@cache
def _read_release(release: str) -> dict[str, dict]:
    """All samples of a release, by line: as one input that says its release at the top."""
    source = lines_of(f"NCCL version {release}+cuda12.4", *(s.line for s in SAMPLES if s.release == release))
    records = list(parse_records(source))
    texts = source.text.decode().splitlines()
    return {texts[record["line"] - 1]: record for record in records}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.event}-{sample.release}")
def test_a_line_is_read_as_its_release_means_it(sample: Sample) -> None:
    record = _read_release(sample.release)[sample.line]
    shown = {name: record["fields"].get(name) for name in sample.fields}
    assert (record["event"], shown) == (sample.event, sample.fields)


def test_every_event_has_a_line() -> None:
    assert {sample.event for sample in SAMPLES} == set(grammar.events())


def test_every_field_is_shown_by_a_line(direct: grammar.DirectParser) -> None:
    shown = {name for sample in SAMPLES for name in (direct.parse(sample.message) or ("", {}))[1]}
    assert shown == {name.lower() for name in json.loads(TABLES.read_text())["fields"]}


def test_lines_of_all_releases_can_stand_in_one_input() -> None:
    records = parse_records(lines_of(*(sample.line for sample in SAMPLES)))
    assert [record["event"] for record in records] == [sample.event for sample in SAMPLES]


BRACKETS = "n1:7:7 [0] NCCL INFO Channel 00/0 : 3[{}] -> 4[{}] via P2P/IPC"


@pytest.mark.parametrize(
    ("release", "source", "target", "fields"),
    [
        ("2.4.8", "3", "4", {"src_dev": 3, "dst_dev": 4}),
        ("2.12.12", "3", "4", {"src_bus_id": "0x3", "dst_bus_id": "0x4"}),
        ("2.18.1", "b7000", "1a000", {"src_bus_id": "0xb7000", "dst_bus_id": "0x1a000"}),
        ("2.18.3", "3", "4", {"src_dev": 3, "dst_dev": 4}),
        (None, "b7000", "1a000", {"src_bus_id": "0xb7000", "dst_bus_id": "0x1a000"}),
        (None, "3", "4", {"src_dev": 3, "dst_dev": 4}),
    ],
)
def test_brackets_of_a_channel_are_bus_ids_from_2_5_to_2_18_1(
    release: str | None, source: str, target: str, fields: dict
) -> None:
    version = f"NCCL version {release}+cuda12.2" if release else ""
    (record,) = [r for r in parse_records(lines_of(version, BRACKETS.format(source, target))) if r["line"] == 2]
    shown = {name: value for name, value in record["fields"].items() if name.endswith(("_dev", "_bus_id"))}
    assert shown == fields


def test_the_side_of_the_slashes_tells_the_direction_of_a_tree() -> None:
    old, new = "Trees [0] 6->5->4/9/-1", "Trees [0] 4/9/-1->5->6"
    records = parse_records(lines_of(*(f"n1:7:7 [0] NCCL INFO {text}" for text in (old, new))))
    trees = [record["fields"]["trees"] for record in records]
    assert trees == [[{"channel": 0, "rank": 5, "up": 6, "down": [4, 9, -1]}]] * 2


def test_a_value_that_does_not_fit_its_type_is_left_out() -> None:
    (record,) = parse_records(lines_of("n1:7:7 [0] NCCL INFO nranks 99999999999999999999"))
    assert (record["event"], record["fields"]) == ("nranks", {})
