"""What holds for all kinds of outputs: each is told by content, documented, and survives what happens to texts."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from telemetry_samples import FIXTURES, read

from ncclcheck.facts.telemetry_keys import KEYS
from ncclcheck.readers.telemetry.kinds import KINDS, WORDS, find_start
from ncclcheck.readers.telemetry.outputs import Outputs
from ncclcheck.readers.telemetry.reader import LineReader

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT.parent / "shared" / "samples"
DOCS = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
GRAMMARS = ROOT / "grammars" / "telemetry"
FILES = sorted(file for file in FIXTURES.glob("*/*") if file.is_file())
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
# What launchers put before each line, and the host that they name by it: pdsh, mpirun, srun, kubectl, docker compose,
# scripts, Fabric.
LABELS = {
    "rack7-n12: ": "rack7-n12",
    "[1,0]<stdout>:": None,
    "3: ": None,
    "[pod/n-0/a] ": "n-0",
    "rack7-n12 | ": None,
    "rack7-n12| ": "rack7-n12",
    "[rack7-n12] ": "rack7-n12",
    "[rack7-n12] out: ": "rack7-n12",
}
NUMBERS = ("99999999999999999999999999", "-1", "1e999", "nan", "0x", "[N/A]", "")


def facts(outputs: Outputs) -> list[tuple[Any, ...]]:
    return sorted(
        (row["kind"], row["line"], row["thing"], row["name"], row["key"], row["text"], str(row["number"]))
        for row in outputs.rows
    )


def test_every_kind_has_a_fixture_and_a_place_in_the_docs() -> None:
    assert {file.parent.name for file in FILES} == {kind.name for kind in KINDS}
    assert [kind.name for kind in KINDS if f"`{kind.name}`" not in DOCS] == []


def test_every_event_of_a_grammar_is_taken_and_none_that_it_has_not() -> None:
    """A reader without a method for an event refuses its lines: a slip of the pen would do so silently."""
    readers = [reader for kind in KINDS if isinstance(reader := kind.open(), LineReader)]
    for name in {reader.grammar for reader in readers}:
        taken = {method for reader in readers if reader.grammar == name for method in dir(reader)}
        grammar = (GRAMMARS / f"{name}.lark").read_text(encoding="utf-8")
        events = {f"take_{event}" for event in re.findall(r"^([a-z]\w*)(?:\.-?\d+)?:", grammar, re.M)}
        assert {method for method in taken if method.startswith("take_")} == events, name


@EACH
def test_an_output_is_told_by_its_content_and_says_nothing_unknown(file: Path) -> None:
    outputs = read(file.read_bytes())
    assert file.parent.name in outputs.kinds.get(0, set())
    lines = file.read_bytes().count(b"\n") + 1
    for row in outputs.rows:
        assert row["thing"] == "counter" or row["key"] in KEYS[row["thing"]], row
        assert 1 <= row["line"] <= lines
        assert len(row["text"]) < 1000 and row["name"] == row["name"].strip()


@EACH
def test_line_ends_colours_and_borders_of_blocks_change_nothing(file: Path) -> None:
    data = file.read_bytes()
    plain = facts(read(data))
    assert facts(read(data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))) == plain
    assert facts(read(data, blocks=7)) == plain


@EACH
@pytest.mark.parametrize("label", LABELS)
def test_a_label_before_each_line_changes_nothing_but_the_host(file: Path, label: str) -> None:
    data = file.read_bytes().replace(b"\r\n", b"\n")
    if b"\n{" in b"\n" + data or b"\n[" in b"\n" + data or b"<?xml" in data:
        pytest.skip("documents are not printed line by line")
    outputs = read(b"".join(label.encode() + line for line in data.splitlines(keepends=True)))
    assert facts(outputs) == facts(read(data))
    named = {row["host"] for row in read(data).rows}
    if named == {None}:
        assert {row["host"] for row in outputs.rows} <= {LABELS[label]}


@EACH
def test_cut_anywhere_it_tells_no_more_than_the_whole(file: Path) -> None:
    """A line cut in the middle may lose its value or say a shorter one; lines before it say what they said, though sums
    and the busiest of several readings may stand in an earlier line."""
    data = file.read_bytes()
    whole = set(facts(read(data)))
    chance = random.Random(file.name)
    for _ in range(12):
        cut = chance.randrange(len(data))
        last = data.count(b"\n", 0, cut) + 1
        told = {fact for fact in facts(read(data[:cut])) if fact[1] < last}
        assert {fact[2:5] for fact in told - whole} <= {fact[2:5] for fact in whole}


@EACH
def test_damage_never_stops_the_reader(file: Path) -> None:
    data = file.read_bytes()
    chance = random.Random(file.name)
    words = sorted({word for word in data.split() if any(byte in b"0123456789" for byte in word)})
    for turn in range(24):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 12)):
            place = chance.randrange(len(damaged) or 1)
            match turn % 4:
                case 0:
                    damaged[place : place + 1] = bytes([chance.randrange(256)])
                case 1:
                    del damaged[place : place + chance.randrange(1, 40)]
                case 2:
                    damaged[place:place] = damaged[: chance.randrange(200)]
                case 3 if words:
                    number = chance.choice(NUMBERS).encode()
                    damaged = bytearray(bytes(damaged).replace(chance.choice(words), number, 1))
        outputs = read(bytes(damaged))
        for row in outputs.rows:
            number = row["number"]
            assert number is None or number == number, "nan is no value"


def test_every_start_holds_one_of_the_words() -> None:
    words = re.compile(WORDS)
    lines = [line for file in FILES for line in file.read_bytes().decode("utf-8", "replace").splitlines()]
    assert [line for line in lines if find_start(line) and not words.search(line)] == []


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the collected samples")
def test_every_start_of_the_samples_holds_one_of_the_words() -> None:
    words = re.compile(WORDS)
    files = [file for file in SAMPLES.rglob("*") if file.is_file() and "flight-recorder" not in str(file)]
    lines = [line for file in files for line in file.read_bytes().decode("utf-8", "replace").splitlines()]
    assert [line for line in lines if find_start(line[:2000]) and not words.search(line)] == []
