"""Dumps of the flight recorder are told by content, and never unpickled."""

from __future__ import annotations

import pickle

import pytest
from telemetry_samples import FIXTURES, read

DUMP = {"version": "2.9", "pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}}, "entries": []}


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was opened",)


def test_a_dump_as_json_says_that_it_is_not_read() -> None:
    outputs = read((FIXTURES / "flight-recorder" / "dump.json").read_bytes())
    assert outputs.rows == [] and outputs.kinds == {0: {"flight-recorder"}}
    assert len(outputs.notes[0]) == 1 and "not read" in outputs.notes[0][0]


def test_a_pickle_is_told_and_stays_closed() -> None:
    outputs = read(pickle.dumps({**DUMP, "more": Hostile()}, protocol=2))
    assert outputs.kinds == {0: {"flight-recorder"}} and len(outputs.notes[0]) == 1
