"""Write docs/coverage.md: which events of the grammar which releases of NCCL print, in a form that is read.

What counts is what the tests read: the lines of tests/readers/lines.jsonl. Each stands for the forms of
ncclcheck/readers/known_lines.tsv that fit it, and for the releases that print those. A line that NCCL joins from pieces
has no form of its own; it stands for its own release.

`python tools/make_coverage.py` writes the page and lists the forms of events that no line stands for. A test compares.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.readers import release  # noqa: E402
from ncclcheck.readers.grammar import mask  # noqa: E402
from ncclcheck.readers.grammar_files import grammar_text  # noqa: E402
from ncclcheck.readers.known_lines import Form, KnownLines  # noqa: E402

PAGE = ROOT / "docs" / "coverage.md"
LINES = ROOT / "tests" / "readers" / "lines.jsonl"

# What NCCL_DEBUG=INFO shows without NCCL_DEBUG_SUBSYS, from 2.23.4 on.
_SHOWN = {"INIT", "BOOTSTRAP", "ENV", "ALL"}

_EVENT = re.compile(r"(?P<comment>(?:^//.*\n)*)^(?P<name>[a-z]\w*):", re.M)

_INTRODUCTION = """\
# Lines of NCCL that are read, by release

One row per event of `grammars/nccl.lark`, in its order. Under each minor release: `x` where all of its patch releases
print a form that the tests read, `o` where some do, nothing where none does or none is known. Lines that NCCL joins
from pieces have no form in its sources that could be followed over releases: `o` where a line of that release is read.

*Shown by*: what makes NCCL print it; `INFO` is `NCCL_DEBUG=INFO` with the subsystems that are on by default (INIT,
BOOTSTRAP, ENV), other subsystems have to be named in `NCCL_DEBUG_SUBSYS`.

`python tools/make_coverage.py` writes this page from tests/readers/lines.jsonl and ncclcheck/readers/known_lines.tsv.
"""


class Line(NamedTuple):
    """A line of the tests: level word, message, release (None: none), event."""

    level: str
    message: str
    release: int | None
    event: str


class Row(NamedTuple):
    """An event: what is said of it, the forms that are read, the releases of lines without a form."""

    event: str
    about: str
    forms: frozenset[Form]
    releases: frozenset[int]


def lines() -> Iterator[Line]:
    for text in LINES.read_text(encoding="utf-8").splitlines():
        sample: dict[str, Any] = json.loads(text)
        found = re.search(r"\b(INFO|WARN) (.*)", sample["line"])
        level, message = (found[1], found[2].rstrip()) if found else ("VERSION", sample["line"])
        code = release.code(sample["release"]) if re.fullmatch(r"[\d.]+", sample["release"]) else None
        yield Line(level, message, code, sample["event"])


def rows() -> list[Row]:
    """The events of NCCL's grammar, with what the lines of the tests stand for."""
    known = KnownLines()
    forms, releases = defaultdict(set), defaultdict(set)
    for line in lines():
        fitting = [form for form in known.forms(mask(line.message), line.level) if form.event in ("", line.event)]
        forms[line.event].update(fitting)
        if not fitting and line.release is not None:
            releases[line.event].add(line.release)
    return [
        Row(
            found["name"], _about(found["comment"]), frozenset(forms[found["name"]]), frozenset(releases[found["name"]])
        )
        for found in _EVENT.finditer(grammar_text("nccl.lark"))
    ]


def page(table: Iterable[Row]) -> str:
    """The page as Markdown."""
    every = _releases()
    minors = sorted({code // 100 for code in every} | {202, 203})
    head = ["event", "shown by", *(f"{minor // 100}.{minor % 100}" for minor in minors), "about"]
    text = [_INTRODUCTION, _line(head), _line(["---"] * len(head))]
    for row in table:
        marks = []
        for minor in minors:
            patches = {code for code in every if code // 100 == minor}
            printing = {code for code in patches if any(form.first <= code <= form.last for form in row.forms)}
            some = printing or any(code // 100 == minor for code in row.releases)
            marks.append("x" if printing and printing == patches else "o" if some else "")
        text.append(_line([f"`{row.event}`", _shown_by(row.forms), *marks, row.about]))
    return "\n".join(text) + "\n"


def gaps(table: Iterable[Row]) -> list[Form]:
    """Forms of events that no line of the tests stands for."""
    read = {form for row in table for form in row.forms}
    return [form for form in KnownLines().all if form.event and form not in read]


def _releases() -> set[int]:
    """The releases that the table of known lines is made of, as far as a form began or ended with them."""
    return {code for form in KnownLines().all for code in (form.first, form.last)}


def _about(comment: str) -> str:
    """The comment above an event, in one line; titles of sections are none."""
    parts = [part for part in comment.split("\n") if part.startswith("// ") and "-----" not in part]
    return " ".join(part.removeprefix("// ") for part in parts).replace("|", "\\|")


def _shown_by(forms: Iterable[Form]) -> str:
    ways = set()
    for form in forms:
        subsystems = set(re.split(r"[|,]", form.subsystem))
        named = "" if subsystems & _SHOWN else f" {'/'.join(sorted(subsystems))}"
        ways.add("always" if form.level == "VERSION" else "WARN" if form.level == "WARN" else f"INFO{named}")
    if "INFO" in ways:
        ways = {way for way in ways if not way.startswith("INFO ")}
    return ", ".join(sorted(ways))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    table = rows()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(table), encoding="utf-8")
    left = gaps(table)
    print(f"{PAGE.relative_to(ROOT)}: {len(table)} events, {len(left)} forms of events without a line")
    for form in left:
        print(f"{form.event}\t{form.level}\t{form.subsystem}\t{form.first}\t{form.last}\t{form.form}")


if __name__ == "__main__":
    main()
