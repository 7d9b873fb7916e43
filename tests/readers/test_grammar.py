"""The grammar files: compiled, without conflicts, and of one meaning to every engine that reads them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from line_samples import SAMPLES

from ncclcheck.readers import grammar
from ncclcheck.readers.choices import SLOT
from ncclcheck.readers.grammar_files import grammar_text

ROOT = Path(__file__).resolve().parents[2]

DEFINITION = re.compile(r"^([A-Z][A-Z0-9_]*)(?:\.-?\d+)?: (.+)$", re.M)
STRING_OR_PATTERN = re.compile(r'"(?:[^"\\]|\\.)*"|//.*|: /.+/$', re.M)
SLOTS = dict(re.findall(r"^([A-Z_]+): /(.+)/$", grammar_text("slots.lark"), re.M))

# Outputs of tools.
TELEMETRY = sorted(f"telemetry/{file.stem}" for file in (ROOT / "grammars" / "telemetry").glob("*.lark"))

# Events for what is left of a kind of message; those before them in the file come first.
CATCH_ALL = {"net_ofi_message"}


def _compile_tool():
    spec = importlib.util.spec_from_file_location("compile_grammar", ROOT / "tools" / "compile_grammar.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_compiled_tables_are_those_of_the_grammar_files() -> None:
    for file, tables in _compile_tool().compiled().items():
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert kept == json.loads(json.dumps(tables)), "run python tools/compile_grammar.py"


def test_the_grammar_has_no_conflict() -> None:
    """Strict: no shift/reduce or reduce/reduce conflict, no two patterns of equal priority that fit the same text in
    one state. For shapes alone: the mask can make two phrases one and so add a conflict, but never take one away, and
    the patterns are the same; the check of raw slots against all patterns takes twenty seconds and says no more."""
    grammar.build(shapes=True, strict=True)


def test_a_line_is_one_event(direct: grammar.DirectParser) -> None:
    for sample in SAMPLES:
        events = [event for event, _ in direct.parses(sample.message)]
        assert events[0] == sample.event
        assert set(events[1:]) <= CATCH_ALL, f"{events}: {sample.message}"


@pytest.mark.parametrize("name", ["nccl", "nccl_tests", *TELEMETRY])
def test_every_terminal_is_used_and_defined_once(name: str) -> None:
    text = grammar.language() if name == "nccl" else grammar_text(name)
    defined = Counter(name for name, _ in DEFINITION.findall(text))
    rules = STRING_OR_PATTERN.sub(" ", DEFINITION.sub("", text))
    assert set(re.findall(r"\b[A-Z][A-Z0-9_]*\b", rules)) == set(defined)
    assert max(defined.values()) == 1


def test_no_terminal_has_the_name_of_a_slot() -> None:
    """`field_types` and the projection take a slot's name for the slot."""
    names = {name for name, _ in DEFINITION.findall(grammar.language())}
    assert not names & {*SLOTS, "INT", "HEX", "FLOAT"}


@pytest.mark.parametrize("name", SLOTS)
def test_a_slot_means_the_same_to_python_and_to_polars(name: str) -> None:
    messages = [sample.message for sample in SAMPLES]
    found = [[match[0] for match in re.finditer(SLOTS[name], message)] for message in messages]
    assert any(found)
    assert pl.Series(messages).str.extract_all(SLOTS[name]).to_list() == found


def test_the_mask_means_the_same_to_python_and_to_polars() -> None:
    lines = [sample.line for sample in SAMPLES] + [sample.message for sample in SAMPLES]
    masked = pl.Series(lines).str.replace_all(grammar.mask_pattern(), SLOT).to_list()
    assert masked == [grammar.mask(line) for line in lines]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "Channel 15/1 : 127[b7000] -> 8[1a000] via P2P/IPC"),
        ("Trees [0] 1/-1/-1->0->-1", "Trees [0] 1/8/-1->0->-1 [1] -1/-1/-1->0->8"),
        ("NET/IB : Using [0]ib0:1/IB ; OOB a:1.2.3.4<0>", "NET/IB : Using [0]x:1/RoCE [1]y:2/RoCE ; OOB b:::1<7>"),
        ("Bcast: opCount a sendbuff 0x1", "Bcast: opCount 9 sendbuff 0xff"),
    ],
)
def test_values_and_lengths_of_lists_do_not_change_a_shape(one: str, other: str) -> None:
    assert grammar.mask(one) == grammar.mask(other)


def test_one_interface_and_a_list_are_different_shapes() -> None:
    assert grammar.mask("Using eth0:10.0.0.1<0>") != grammar.mask("Using [0]eth0:10.0.0.1<0>")


def test_shape_parser_and_lark_agree_on_shapes() -> None:
    """`Automaton` follows Lark's tables; Lark itself on the same shape gives the same tokens."""
    lark, parser = grammar.build(shapes=True), grammar.ShapeParser()
    for shape in {grammar.mask(sample.message) for sample in SAMPLES}:
        reading = parser.parse(shape)
        assert reading is not None, shape
        tokens = [token.type.lower() for token in lark.parse(shape, start=reading.event).scan_values(lambda _: True)]
        assert set(tokens) == set(reading.fields), shape
