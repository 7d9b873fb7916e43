"""`ncclcheck parse`: what the reader saw, record by record."""

from __future__ import annotations

import json

import click

from ncclcheck.cli.check import paths_or_stdin
from ncclcheck.cli.exits import CLEAN, NOTHING_TO_JUDGE
from ncclcheck.cli.output import complain, write_stdout
from ncclcheck.cli.pipeline import judge_inputs, notes, run_parse
from ncclcheck.report.escape import json_without_commands

_RECORDS_PER_WRITE = 1000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1)
@click.option("--output-format", type=click.Choice(["json-lines"]), default="json-lines", show_default=True)
def parse(paths: tuple[str, ...], output_format: str) -> int:
    """Print one JSON object per NCCL record of PATHS; its event is null where the line is not recognised."""
    from ncclcheck.inputs.expand import expand

    sources = expand(paths_or_stdin(paths)).sources
    telling: set[str] = set()
    for source in sources:
        waiting: list[str] = []
        for record in run_parse(source):
            telling.add(source.name)
            waiting.append(json_without_commands(json.dumps(record, ensure_ascii=True)) + "\n")
            if len(waiting) == _RECORDS_PER_WRITE:
                if not write_stdout("".join(waiting)):
                    return CLEAN
                waiting = []
        if waiting and not write_stdout("".join(waiting)):
            return CLEAN
    trouble = judge_inputs(sources, telling)
    for line in (*notes(sources), *trouble):
        complain(line)
    return NOTHING_TO_JUDGE if trouble else CLEAN
