"""The command line on a small world: a reader that knows `NCCL` lines, and three rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ncclcheck.engine import registry
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.picture import JobPicture
from ncclcheck.facts.shape import JobShape
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

PAGE = "What it finds\n  NCCL lines that say Socket."


class FakeFacts:
    def __init__(self, tables: list[tuple[str, int, str]], paths: Sequence[str]) -> None:
        self.lines = tables

    def picture(self) -> JobPicture:
        return JobPicture("NCCL", "2.21.5", "", "", 0, 0, None, (), (), (), ())

    jobs = 1
    measured = nearness = contradictions = strangers = ()

    def failures(self) -> tuple[()]:
        return ()

    def shape(self) -> JobShape:
        return JobShape()


def lines_of(source: Any) -> Iterator[tuple[int, str]]:
    for block, first in source.blocks():
        yield from enumerate(block.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n"), first)


def read_sources(sources: Sequence[Any]) -> SimpleNamespace:
    found: list[tuple[str, int, str]] = []
    rows = []
    for source in sources:
        lines = list(lines_of(source))
        ours = [(source.name, number, text) for number, text in lines if "NCCL" in text]
        found += ours
        kinds = ("nccl-log",) if ours else ()
        rows.append(SimpleNamespace(kinds=kinds, lines=len(lines), recognised=len(ours), unrecognised=0, notes=()))
    return SimpleNamespace(tables=found, inputs=tuple(rows))


def parse_records(*sources: Any) -> Iterator[dict[str, Any]]:
    for source in sources:
        for number, text in lines_of(source):
            if "NCCL" in text:
                yield {"path": source.name, "line": number, "event": None, "fields": {"text": text}}


def fires_on(word: str, code: str, severity: Severity) -> Rule:
    def check(facts: FakeFacts, estimator: object) -> Iterator[Finding | NotEvaluated]:
        for path, number, text in facts.lines:
            if "crash" in text:
                raise RuntimeError(text)
            if word in text:
                yield Finding(
                    code, f"name-{code.lower()}", severity, Confidence.HIGH, f"{word}: {text}", "do something",
                    evidence=(Evidence(path, number, text),), no_estimate_because="a fake",
                )  # fmt: skip

    return Rule(code, f"name-{code.lower()}", severity, f"Fires on {word}.", check, "0.1.0", ("IB001",))  # type: ignore[arg-type]


RULES = (
    fires_on("Device", "IB001", Severity.WARNING),
    fires_on("Version", "LOG001", Severity.INFO),
    fires_on("Socket", "NET001", Severity.ERROR),
)


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ModuleType("ncclcheck.readers.read")
    read.read_sources = read_sources  # type: ignore[attr-defined]
    records = ModuleType("ncclcheck.readers.records")
    records.parse_records = parse_records  # type: ignore[attr-defined]
    facts = ModuleType("ncclcheck.facts.facts")
    facts.Facts = FakeFacts  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ncclcheck.readers.read", read)
    monkeypatch.setitem(sys.modules, "ncclcheck.readers.records", records)
    monkeypatch.setitem(sys.modules, "ncclcheck.facts.facts", facts)
    entries = tuple(registry.Entry(rule, PAGE) for rule in RULES)
    monkeypatch.setattr(registry, "load_registry", lambda: registry.Registry(entries, ("entry point x: broken",)))
    for variable in ("NO_COLOR", "FORCE_COLOR", "NCCLCHECK_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
