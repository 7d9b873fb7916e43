"""`ncclcheck rules` and `ncclcheck explain`: the rules and their pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ncclcheck.cli.output import complain, write_stdout

if TYPE_CHECKING:
    from ncclcheck.engine.registry import Entry, Registry


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--output-format", type=click.Choice(["table", "json"]), default="table", show_default=True)
def rules(output_format: str) -> None:
    """List the rules: code, name, severity, summary."""
    entries = _registry().entries
    if output_format == "json":
        write_stdout(json.dumps([_metadata(entry) for entry in entries], indent=2) + "\n")
        return
    rows = [(entry.rule.code, entry.rule.name, entry.rule.severity.value, entry.rule.summary) for entry in entries]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = ("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in rows)
    write_stdout("".join(f"{line}\n" for line in lines))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("rule", metavar="CODE|NAME")
def explain(rule: str) -> None:
    """Print the page of a rule: what it finds, why it costs, how to fix it, when it is no problem."""
    from ncclcheck.engine.selection import UnknownSelectorError, find_rule

    entries = _registry().entries
    try:
        found = find_rule([entry.rule for entry in entries], rule)
    except UnknownSelectorError as error:
        raise click.UsageError(str(error)) from None
    names = {entry.rule.code: entry.rule.name for entry in entries}
    lines = [
        f"{found.code} {found.name}",
        f"family {found.family}, severity {found.severity.value}, since {found.since}",
    ]
    if found.caused_by:
        lines.append(
            "may be caused by " + ", ".join(f"{code} {names.get(code, '')}".strip() for code in found.caused_by)
        )
    page = next(entry.page for entry in entries if entry.rule is found)
    write_stdout("\n".join([*lines, "", page or "This rule has no page (python -OO leaves pages out)."]) + "\n")


def _registry() -> Registry:
    from ncclcheck.engine.registry import load_registry

    registry = load_registry()
    for problem in registry.problems:
        complain(problem)
    return registry


def _metadata(entry: Entry) -> dict[str, object]:
    rule = entry.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "since": rule.since,
        "caused_by": list(rule.caused_by),
    }
