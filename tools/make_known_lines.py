"""Write ncclcheck/readers/known_lines.tsv: the hashed shapes of the lines that NCCL prints.

- `python tools/make_known_lines.py LIST.tsv` writes it anew from a list of formats over many releases, escaped as in C:
  columns level, subsys, format, first_tag (v2.18.3-1) and last_tag.
- `python tools/make_known_lines.py --checkout DIR --release 2.31.0` adds what a checkout of NCCL's sources prints: new
  forms, and that the old ones are still there.
- with `--new` it writes nothing and lists the forms that the table does not have and that no event matches.

After a change of the grammar the list gives the column `event` anew; a checkout does so for the forms in it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.readers import release  # noqa: E402
from ncclcheck.readers.grammar import DirectParser  # noqa: E402
from ncclcheck.readers.known_lines import COLUMNS, TABLE, Form, table  # noqa: E402
from tools import nccl_forms, nccl_sources  # noqa: E402


class Maker:
    """Rows of formats, with the events that the grammar has for them."""

    def __init__(self) -> None:
        self._parser = DirectParser()

    def row(self, level: str, subsystem: str, text: str, first: int, last: int) -> Form | None:
        """The row of a format; None where it fixes nothing of a line. Of a text of several lines the first is meant:
        it alone stands behind a level word."""
        line = next((line for line in text.split("\n") if line.strip()), "").rstrip()
        form = nccl_forms.form_of(nccl_forms.shape_of(line))
        return Form(level, subsystem, first, last, self.event(line), *form) if form else None

    def event(self, text: str) -> str:
        """The event that most lines of a format are; "" if none."""
        readings = map(self._parser.parse, nccl_forms.lines(text))
        events = Counter(reading[0] for reading in readings if reading)
        if len(events) > 1:
            print(f"read as {' and '.join(sorted(events))}: {text}", file=sys.stderr)
        return events.most_common(1)[0][0] if events else ""


def listed(path: Path, maker: Maker) -> Iterator[Form]:
    """The rows of a list of formats."""
    with path.open(encoding="utf-8", newline="") as lines:
        for entry in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            level = "VERSION" if entry["level"] == "STDOUT" else entry["level"]
            first, last = (release.code(entry[name].removeprefix("v").split("-")[0]) for name in _TAGS)
            row = maker.row(level, entry["subsys"], nccl_sources.unescape(entry["format"]), first, last)
            if row:
                yield row


_TAGS = ("first_tag", "last_tag")


def joined(rows: Iterable[Form]) -> list[Form]:
    """One row per level and form, in order: the releases of all, the rest of the latest."""
    by_form: dict[tuple[str, str], Form] = {}
    for row in sorted(rows, key=lambda row: (row.last, row.first)):
        old = by_form.get((row.level, row.form), row)
        by_form[row.level, row.form] = row._replace(first=min(row.first, old.first), event=row.event or old.event)
    return sorted(by_form.values(), key=lambda row: (row.form, row.level))


def text_of(rows: Iterable[Form]) -> str:
    """The table as a file."""
    return "".join("\t".join(map(str, row)) + "\n" for row in (COLUMNS, *rows))


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description="Write the table of known lines.")
    options.add_argument("list", nargs="?", type=Path)
    options.add_argument("--checkout", type=Path)
    options.add_argument("--release")
    options.add_argument("--new", action="store_true", help="only list what is new in the checkout")
    asked = options.parse_args(arguments)
    maker = Maker()
    if asked.list:
        rows = list(listed(asked.list, maker))
    elif asked.checkout and asked.release:
        rows = table()
        known = {(row.level, row.form) for row in rows}
        code = release.code(asked.release)
        for message in nccl_sources.messages(asked.checkout):
            row = maker.row(message.level, message.subsystem, message.format, code, code)
            if row and asked.new and (row.level, row.form) not in known and not row.event:
                print(f"{message.level}\t{message.subsystem}\t{message.file}\t{message.format!r}")
            rows += [row] if row else []
    else:
        options.error("needs a list, or a checkout and its release")
    if not asked.new:
        rows = joined(rows)
        TABLE.write_text(text_of(rows), encoding="utf-8")
        print(f"{TABLE.relative_to(ROOT)}: {len(rows)} forms, {sum(bool(row.event) for row in rows)} with an event")


if __name__ == "__main__":
    main()
