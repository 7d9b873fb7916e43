"""Parts of machines (GPUs, links, ports, slots) with all that tools tell of them, joined over outputs.

Two outputs that differ in what does not change contradict each other: neither is believed (`Part.value` is None), and
`contradictions` shows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.outputs import Place, places
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.telemetry_keys import IDENTIFIERS, KEYS


class Value(NamedTuple):
    """What one line says. kind: of the output; number: in the unit of the key."""

    text: str
    number: float | None
    kind: str
    evidence: Evidence


# What one output says of a part, by key; a key may occur several times (errors).
Reading = Mapping[str, tuple[Value, ...]]


class Part(NamedTuple):
    """name: as `telemetry_keys` says; of a GPU its bus id where any output tells it. readings: one per output."""

    place: Place
    thing: str
    name: str
    readings: tuple[Reading, ...]

    @property
    def machine(self) -> str:
        return self.place.machine

    def values(self, key: str) -> tuple[Value, ...]:
        """Every value that some output has, in order."""
        return tuple(value for reading in self.readings for value in reading.get(key, ()))

    def value(self, key: str) -> Value | None:
        """The value, where all outputs that have one agree."""
        found = self.values(key)
        return found[0] if len({_meaning(value) for value in found}) == 1 else None

    def text(self, key: str) -> str:
        found = self.value(key)
        return found.text if found else ""

    def number(self, key: str) -> float | None:
        found = self.value(key)
        return found.number if found else None


class Contradiction(NamedTuple):
    """Outputs that differ in a steady property: one value of each kind."""

    place: Place
    thing: str
    name: str
    key: str
    values: tuple[Value, ...]


@question
def parts(facts: Printed) -> Mapping[str, tuple[Part, ...]]:
    """All parts by kind of thing, in the order of the input."""
    where = places(facts)
    readings: dict[tuple[str, Place, str], dict[int, dict[str, list[Value]]]] = {}
    for output, source, line, kind, thing, name, key, text, number in (
        facts["telemetry"]
        .select("output", "source", "line", "kind", "thing", "name", "key", "text", "number")
        .iter_rows()
    ):
        value = Value(text, number, kind, facts.evidence(source, line))
        of_part = readings.setdefault((thing, where[output], name), {})
        of_part.setdefault(output, {}).setdefault(key, []).append(value)
    found: dict[str, list[Part]] = {}
    for (thing, place, name), by_output in readings.items():
        said = tuple({key: tuple(values) for key, values in one.items()} for one in by_output.values())
        found.setdefault(thing, []).append(Part(place, thing, name, said))
    if "gpu" in found:
        found["gpu"] = list(_joined(found["gpu"]))
    return {thing: tuple(some) for thing, some in found.items()}


def of_kind(facts: Printed, thing: str) -> tuple[Part, ...]:
    return parts(facts).get(thing, ())


def of_job(facts: Printed, thing: str) -> tuple[Part, ...]:
    """Parts of the job's machines and of machines without a name; of all, where no log names the job's."""
    ours = {*facts.machines, ""}
    return tuple(part for part in of_kind(facts, thing) if part.machine in ours or not facts.machines)


def ends(values: Sequence[Value]) -> tuple[Value, Value] | None:
    """The first and the last reading of a counter, by the tool that read it most often: tools may count differently.
    None: each read it once."""
    by_kind: dict[str, list[Value]] = {}
    for value in values:
        by_kind.setdefault(value.kind, []).append(value)
    most = max(by_kind.values(), key=len, default=[])
    return (most[0], most[-1]) if len(most) > 1 else None


def rise(values: Sequence[Value]) -> int:
    """By how much a counter rose between its ends; 0 where nothing tells."""
    if (found := ends(values)) is None:
        return 0
    first, last = found
    return max(0, int((last.number or 0) - (first.number or 0)))


@question
def contradictions(facts: Printed) -> tuple[Contradiction, ...]:
    """What outputs disagree about though it does not change."""
    found = []
    for thing, some in parts(facts).items():
        for part in some:
            for key in dict.fromkeys(key for reading in part.readings for key in reading):
                known = KEYS.get(thing, {}).get(key)
                if known is None or not known.steady or part.value(key) is not None:
                    continue
                each = {_meaning(value): value for value in reversed(part.values(key))}
                found.append(Contradiction(part.place, thing, part.name, key, tuple(reversed(each.values()))))
    return tuple(found)


def _meaning(value: Value) -> str | float:
    return value.text.casefold() if value.number is None else value.number


# Properties by which GPUs of different outputs are one: the name itself says which of them it is.
_JOINS = ("bus_id", "index", *IDENTIFIERS)


def _joined(gpus: list[Part]) -> Iterator[Part]:
    """GPUs that any property in `_JOINS` makes one, under their bus id where it is known."""
    same = list(range(len(gpus)))  # for each the number of an earlier one that it is the same as

    def first(number: int) -> int:
        while same[number] != number:
            same[number] = number = same[same[number]]
        return number

    seen: dict[tuple[Place, str, str], int] = {}
    for number, part in enumerate(gpus):
        for mark in _marks(part):
            same[first(number)] = first(seen.setdefault(mark, number))
    groups: dict[int, list[Part]] = {}
    for number, part in enumerate(gpus):
        groups.setdefault(first(number), []).append(part)
    for group in groups.values():
        names = [part.name for part in group]
        buses = [part.text("bus_id") for part in group if part.text("bus_id")]
        name = next((name for name in [*names, *buses] if ":" in name), names[0])
        yield Part(group[0].place, "gpu", name, tuple(reading for part in group for reading in part.readings))


def _marks(part: Part) -> set[tuple[Place, str, str]]:
    known = {("bus_id" if ":" in part.name else "index", part.name.removeprefix("gpu"))}
    known |= {(key, value.text) for key in _JOINS for value in part.values(key)}
    return {(part.place, key, text.casefold()) for key, text in known}
