"""`ncclcheck parse`: what the reader saw, record by record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ncclcheck.cli.check import paths_or_stdin
from ncclcheck.cli.exits import CLEAN, NOTHING_TO_JUDGE
from ncclcheck.cli.output import complain, write_stdout
from ncclcheck.cli.pipeline import judge_inputs, notes, run_parse
from ncclcheck.cli.progress import progress
from ncclcheck.report.escape import json_without_commands

if TYPE_CHECKING:
    from ncclcheck.inputs.source import Source

_RECORDS_PER_WRITE = 1000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1)
@click.option("--output-format", type=click.Choice(["json-lines"]), default="json-lines", show_default=True)
def parse(paths: tuple[str, ...], output_format: str) -> int:
    """Print one JSON object per NCCL record of PATHS; its event is null where the line is not recognised."""
    from ncclcheck.inputs.expand import expand
    from ncclcheck.inputs.meter import Meter

    meter = Meter()
    telling: set[str] = set()
    with progress(meter, prints=True):
        sources = expand(paths_or_stdin(paths), meter).sources
        if not _print_records(sources, telling):
            return CLEAN
    trouble = judge_inputs(sources, telling)
    for line in (*notes(sources), *trouble):
        complain(line)
    return NOTHING_TO_JUDGE if trouble else CLEAN


def _print_records(sources: Sequence[Source], telling: set[str]) -> bool:
    """telling: gets the names of sources that have any. False: nobody reads on."""
    waiting: list[str] = []
    for record in run_parse(sources):
        telling.add(record["path"])
        waiting.append(json_without_commands(json.dumps(record, ensure_ascii=True)) + "\n")
        if len(waiting) == _RECORDS_PER_WRITE:
            if not write_stdout("".join(waiting)):
                return False
            waiting = []
    return not waiting or write_stdout("".join(waiting))
