"""GPUs of machines with their NVLinks, as tools tell of them, and which of them the job uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, Value, of_kind
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topology_sources import bus_id_text
from ncclcheck.facts.traffic import Traffic

# A tool may speak of all links of a GPU at once.
ALL_LINKS = "all"


class Link(NamedTuple):
    """An NVLink of a GPU. number: "0" and up, or ALL_LINKS. said: what tools that name the GPU differently tell."""

    number: str
    said: tuple[Part, ...]

    def values(self, key: str) -> tuple[Value, ...]:
        return tuple(value for part in self.said for value in part.values(key))


class Gpu(NamedTuple):
    part: Part
    links: tuple[Link, ...]

    @property
    def machine(self) -> str:
        return self.part.machine

    @property
    def name(self) -> str:
        """`0000:1b:00.0`, or `gpu3` where only the index is known."""
        return self.part.name

    @property
    def label(self) -> str:
        """For messages: `GPU 0000:1b:00.0` or `GPU3`."""
        return f"GPU {self.name}" if ":" in self.name else self.name.upper()

    def first(self, key: str, *texts: str) -> Value | None:
        """The first value that is one of these: a state that some output saw, though another saw it otherwise."""
        return next((value for value in self.part.values(key) if value.text in texts), None)

    def unlike(self, key: str, usual: str) -> Value | None:
        """The first value that is another than the usual one."""
        return next((value for value in self.part.values(key) if value.text != usual), None)

    def most(self, key: str) -> Value | None:
        """The largest value of a number."""
        return max(
            (value for value in self.part.values(key) if value.number is not None),
            key=lambda value: value.number or 0.0,
            default=None,
        )

    def knows(self, keys: Iterable[str]) -> bool:
        return any(self.part.values(key) for key in keys)


@question
def gpu_parts(facts: Printed) -> tuple[Gpu, ...]:
    """All GPUs that tools tell of, in the order of the input."""
    parts = of_kind(facts, "gpu")
    names = {(part.place, alias): (part.place, part.name) for part in parts for alias in _aliases(part)}
    links: dict[tuple[Place, str], dict[str, list[Part]]] = {}
    for link in of_kind(facts, "nvlink"):
        gpu, _, number = link.name.rpartition(" ")
        owner = names.get((link.place, gpu), (link.place, gpu))
        links.setdefault(owner, {}).setdefault(number, []).append(link)
    return tuple(Gpu(part, _links(links.get((part.place, part.name), {}))) for part in parts)


def _aliases(part: Part) -> set[str]:
    """The names that outputs give to a GPU."""
    return {part.name, *(f"gpu{value.text}" for value in part.values("index")), part.text("bus_id")} - {""}


def _links(by_number: Mapping[str, list[Part]]) -> tuple[Link, ...]:
    return tuple(Link(number, tuple(said)) for number, said in by_number.items())


@question
def used_gpus(facts: Traffic) -> Mapping[tuple[str, str], int | None]:
    """Machine and name of the GPUs that ranks say they use, by bus id and by index, with the rank in the largest
    communicator; None: in no communicator of that size."""
    known = facts.members.filter(pl.col("machine").is_not_null()).sort("cid")
    found: dict[tuple[str, str], int | None] = {}
    for machine, bus, index, rank, cid in known.select("machine", "bus_id", "nvml_dev", "rank", "cid").iter_rows():
        names = [*([bus_id_text(bus)] if bus else []), *([f"gpu{index}"] if index is not None else [])]
        for name in names:
            found.setdefault((machine, name), rank if cid == 0 else None)
    return found
