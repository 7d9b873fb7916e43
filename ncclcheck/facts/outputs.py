"""Which machine does the output of a tool come from?

The output or a label before its lines may name it, or a folder or file that bears the name of a machine of the job; and
what stands beside the log of one machine is that machine's. Else outputs are taken for one machine's where nothing
speaks against it: in one input, or in inputs of one folder that hold different kinds. Identifiers (UUIDs of GPUs, GUIDs
of ports) that differ prove that machines do. Machines without a name, of which no log tells either, are called as their
input or folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.completions import machine_of_peer
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.telemetry_keys import IDENTIFIERS

_ADDRESS = re.compile(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]*", re.I)


class Place(NamedTuple):
    """A machine that outputs come from. machine: its name, "" where nothing tells. where: tells machines without a name
    apart: an input or a folder."""

    machine: str
    where: str = ""


class _Output(NamedTuple):
    number: int
    source: int
    kind: str
    host: str
    ids: Mapping[tuple[str, str, str], str]


@question
def places(facts: Printed) -> Mapping[int, Place]:
    """The machine of each output, by the output's number."""
    nameless: dict[str, list[_Output]] = {}
    found: dict[int, Place] = {}
    for output in _outputs(facts):
        machine = _named(facts, output)
        if machine:
            found[output.number] = Place(machine)
        else:
            nameless.setdefault(facts.paths[output.source], []).append(output)
    for path, outputs in nameless.items():
        for number, same in enumerate(_by_machine(outputs)):
            for output in same:
                found[output.number] = Place("", path if number == 0 else f"{path}#{number + 1}")
    found = _joined(found, {path: outputs for path, outputs in nameless.items() if len(_by_machine(outputs)) == 1})
    return _with_names(facts, found)


@question
def strangers(facts: Printed) -> tuple[str, ...]:
    """Machines that outputs name and the job's log does not; empty without a log."""
    named = {place.machine for place in places(facts).values() if place.machine}
    return tuple(sorted(named - set(facts.machines))) if facts.machines else ()


def _with_names(facts: Printed, found: Mapping[int, Place]) -> dict[int, Place]:
    """Names for places without one: where the log has one machine and the tools tell of one, that; where no log names
    the job's machines, those of inputs or folders, to tell them apart."""
    nameless = {place for place in found.values() if not place.machine}
    names: dict[Place, Place] = {}
    if len(nameless) == 1 and len(facts.machines) == 1:
        names = {place: Place(facts.machines[0]) for place in nameless}
    elif not facts.machines and facts["telemetry"].get_column("source").n_unique() > 1:
        for depth in (1, 2):  # nodes/n7.txt, n7/smi.txt
            labels = {place: _label(place.where, depth) for place in nameless}
            if len(set(labels.values())) == len(labels):
                names = {place: Place(label) for place, label in labels.items()}
                break
    return {output: names.get(place, place) for output, place in found.items()}


def _label(where: str, depth: int) -> str:
    """The part of a path so deep from its end: of `out.tar:nodes/n7.log.gz` `n7`, then `nodes`."""
    name, _, number = where.partition("#")
    part = ["", *re.split(r"[/!:]", name.rstrip("/"))][-depth]
    return f"{part.partition('.')[0] or part}{f'#{number}' if number else ''}"


def _outputs(facts: Printed) -> list[_Output]:
    rows = facts["telemetry"]
    heads = rows.unique("output", keep="first", maintain_order=True).select("output", "source", "kind", "host")
    ids: dict[int, dict[tuple[str, str, str], str]] = {}
    marked = rows.filter(pl.col("key").is_in(list(IDENTIFIERS))).select("output", "thing", "name", "key", "text")
    for output, *thing, text in marked.iter_rows():
        ids.setdefault(output, {})[(thing[0], thing[1], thing[2])] = text
    return [_Output(row[0], row[1], row[2], row[3] or "", ids.get(row[0], {})) for row in heads.iter_rows()]


def _named(facts: Printed, output: _Output) -> str:
    machines = _machines_by_name(facts)
    if output.host:
        return machines.get(_short(output.host), _short(output.host))
    for part in reversed(re.split(r"[/!:]", facts.paths[output.source])):
        for name in (part, part.partition(".")[0]):
            if name in machines:
                return machines[name]
    beside = _machines_of_sources(facts).get(output.source, ())
    return beside[0] if len(beside) == 1 else ""


@question
def _machines_by_name(facts: Printed) -> Mapping[str, str]:
    """Machines of the job by short name, and by the addresses that outputs name them by."""
    hosts = facts["telemetry"].get_column("host").drop_nulls().unique()
    addresses = hosts.filter(hosts.map_elements(lambda host: bool(_ADDRESS.fullmatch(host)), pl.Boolean))
    named = {_short(machine): machine for machine in facts.machines}
    return machine_of_peer(facts.tables, facts.machine_table, addresses) | named


@question
def _machines_of_sources(facts: Printed) -> Mapping[int, tuple[str, ...]]:
    told = facts["processes"].select("proc", "source").join(facts.machine_table, on="proc").drop_nulls("machine")
    rows = told.group_by("source").agg(pl.col("machine").unique().sort())
    return {source: tuple(machines) for source, machines in rows.iter_rows()}


def _short(host: str) -> str:
    return host if _ADDRESS.fullmatch(host) else host.partition(".")[0]


def _by_machine(outputs: list[_Output]) -> list[list[_Output]]:
    """Outputs of one input, apart where identifiers prove two machines."""
    groups: list[list[_Output]] = []
    known: dict[tuple[str, str, str], str] = {}  # identifiers of the last group, whose outputs agree
    for output in outputs:
        if not groups or any(known.get(part, identifier) != identifier for part, identifier in output.ids.items()):
            groups.append([])
            known = {}
        groups[-1].append(output)
        known |= output.ids
    return groups


def _joined(found: dict[int, Place], inputs: Mapping[str, list[_Output]]) -> dict[int, Place]:
    """Inputs of one folder that hold different kinds are one machine's."""
    folders: dict[str, list[tuple[str, list[_Output]]]] = {}
    for path, outputs in inputs.items():
        folders.setdefault(path.rpartition("/")[0], []).append((path, outputs))
    for folder, members in folders.items():
        kinds = [kind for _, outputs in members for kind in {output.kind for output in outputs}]
        everything = [output for _, outputs in members for output in outputs]
        if len(members) > 1 and len(set(kinds)) == len(kinds) and len(_by_machine(everything)) == 1:
            for output in everything:
                found[output.number] = Place("", folder)
    return found
