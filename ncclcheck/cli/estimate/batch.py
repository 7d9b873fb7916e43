"""`ncclcheck estimate --batch`: the model for a table of configurations."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from ncclcheck.cli.estimate.answer import Output, print_text
from ncclcheck.cli.exits import CLEAN, NOTHING_TO_JUDGE
from ncclcheck.cli.output import complain, refuse_to_overwrite
from ncclcheck.estimate.model import Model
from ncclcheck.estimate.quantities import with_range
from ncclcheck.estimate.questions.batch import ALIASES, COLUMNS, NEEDED, answer
from ncclcheck.estimate.ranges import Range
from ncclcheck.report.escape import clean, json_without_commands

_LARGEST_BYTES = 64 << 20
_WIDEST_NAME = 60


def run_batch(path: str, output: Output, model: Model) -> int:
    """One answer per row, in the order of the table. A row without a number says why; the exit code is then 3."""
    if output.file is not None:
        refuse_to_overwrite(output.file, [path])
    answers = [_answer(row, model) for row in _rows(path)]
    if output.format == "json":
        text = json_without_commands(json.dumps(answers, indent=1, ensure_ascii=True, allow_nan=False)) + "\n"
    else:
        text = "".join(f"{clean(line)}\n" for line in _table(answers))
    print_text(text, output)
    without = [one for one in answers if one["busbw"] is None]
    if without:
        first = without[0]
        complain(
            f"{path}: no number for {len(without)} of {len(answers)} rows; the first: {first['id']}: {first['error']}"
        )
    return NOTHING_TO_JUDGE if without else CLEAN


class _Row(NamedTuple):
    """A row by its columns. more: cells to which no column belongs."""

    cells: dict[str, str]
    more: list[str]


def _answer(row: _Row, model: Model) -> dict[str, Any]:
    """id, busbw (low, expected, high, in GB/s), limit, algorithm, formula, notes; or no busbw and the error."""
    name = row.cells["id"]
    try:
        if row.more:
            raise ValueError(f"more cells than columns: {row.more[0][:40]!r}")
        found, notes = answer(row.cells, model)
    except ValueError as error:
        return {"id": name, "busbw": None, "limit": None, "error": str(error)}
    return {
        "id": name,
        "busbw": found.busbw._asdict(),
        "limit": found.limit,
        "algorithm": found.algorithm,
        "formula": found.formula,
        "notes": notes,
    }


def _rows(path: str) -> Iterator[_Row]:
    """Raises UsageError for what is no table."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise click.UsageError("--batch -: standard input is closed")
            data = sys.stdin.buffer.read(_LARGEST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"--batch {clean(path)}: {reason}") from None
    if len(data) > _LARGEST_BYTES:
        raise click.UsageError(f"--batch {clean(path)}: a table of more than {_LARGEST_BYTES >> 20} MiB")
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    lines = io.StringIO(data.decode(encoding, "replace").replace("\0", ""), newline="")
    table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = [ALIASES.get(name.strip(), name.strip()) for name in next(table, [])]
        if missing := [name for name in NEEDED if name not in header]:
            raise click.UsageError(
                f"--batch {clean(path)}: the first line must name the columns (tab-separated);"
                f" missing: {', '.join(missing)}"
            )
        if twice := [name for name, times in Counter(filter(None, header)).items() if times > 1]:
            raise click.UsageError(f"--batch {clean(path)}: the column {clean(twice[0])} is there twice")
        if unknown := [name for name in header if name and name not in COLUMNS]:
            complain(f"{path}: columns that play no part: {', '.join(unknown[:8])}; known: {', '.join(COLUMNS)}")
        yield from _as_rows(header, table)
    except csv.Error as error:
        raise click.UsageError(f"--batch {clean(path)}: {error}") from None


def _as_rows(header: Sequence[str], table: Iterator[list[str]]) -> Iterator[_Row]:
    """Cells that are missing at the end of a row are empty."""
    for cells in table:
        if any(cell.strip() for cell in cells):
            short = [""] * (len(header) - len(cells))
            more = [cell for cell in cells[len(header) :] if cell.strip()]
            yield _Row(dict(zip(header, [*cells, *short], strict=False)), more)


def _table(answers: list[dict[str, Any]]) -> Iterator[str]:
    width = min(max((len(one["id"]) for one in answers), default=0), _WIDEST_NAME)
    for one in answers:
        name = one["id"].ljust(width)
        if one["busbw"] is None:
            yield f"{name}  none: {one['error']}"
            continue
        notes = f"  ({'; '.join(one['notes'])})" if one["notes"] else ""
        yield f"{name}  {with_range(Range(**one['busbw']))} GB/s  {one['limit']}, {one['algorithm']}{notes}"
