"""NCCL_IB_HCA: which devices it lets through, and on which machines it is set to what."""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.hcas import comparable
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# Names of drivers, which their devices begin with.
_CLASS = re.compile(r"(?:mlx|hfi)\d$")


class HcaFilter(NamedTuple):
    """A list as NCCL reads it: `^` first excludes, then `=` asks for whole names; without it every entry is a prefix.

    entries: names without their port.
    """

    text: str
    exclude: bool
    exact: bool
    entries: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> HcaFilter:
        rest = text.strip()
        exclude = rest.startswith("^")
        rest = rest[exclude:]
        exact = rest.startswith("=")
        entries = (entry.partition(":")[0] for entry in rest[exact:].split(","))
        return cls(text, exclude, exact, tuple(dict.fromkeys(entry for entry in entries if entry)))

    def takes(self, device: str) -> bool:
        """May NCCL use the device? An empty list takes all."""
        if not self.entries:
            return True
        return any(self._matches(entry, device) for entry in self.entries) != self.exclude

    def _matches(self, entry: str, device: str) -> bool:
        return device == entry if self.exact else device.startswith(entry)

    def further(self, device: str) -> str | None:
        """The entry that matches this device only because its number begins with that of the device which is meant:
        `mlx5_1` and mlx5_12."""
        if self.exact or device in self.entries:
            return None
        for entry in self.entries:
            if entry[-1].isdigit() and device.startswith(entry) and device[len(entry) :][:1].isdigit():
                return entry
        return None


class Filters(NamedTuple):
    """The filters of one machine in one job (several where ranks are pinned)."""

    job: int
    machine: str
    filters: tuple[HcaFilter, ...]
    evidence: tuple[Evidence, ...]

    def takes(self, device: str) -> bool:
        return any(one.takes(device) for one in self.filters)

    @property
    def names_devices(self) -> bool:
        """Does it ask for single devices (`mlx5_4`) rather than for a class of them (`mlx5`)?"""
        entries = [entry for one in self.filters for entry in one.entries if not one.exclude]
        return bool(entries) and all(entry[-1].isdigit() and not _CLASS.match(entry) for entry in entries)

    def __str__(self) -> str:
        first = f"'{self.filters[0].text}'"
        return first if len(self.filters) == 1 else f"{first} and {len(self.filters) - 1} other lists"


@question
def hca_filters(facts: Traffic) -> tuple[Filters, ...]:
    """By job and machine; only machines of which every process that lists adapters prints the variable."""
    rows = facts["settings"].filter((pl.col("name") == "NCCL_IB_HCA") & (pl.col("value").str.len_chars() > 0))
    if rows.height == 0:
        return ()
    where = facts.machine_table.join(comparable(facts), on="proc").drop_nulls()
    rows = rows.join(where, on="proc")
    free = facts["nics"].select("proc").unique().join(rows, on="proc", how="anti").join(where, on="proc")
    rows = rows.join(free, on=["job", "machine"], how="anti")
    grouped = rows.group_by("job", "machine").agg(
        pl.col("value").unique().sort(), where=pl.struct("source", "line").sort_by("source", "line").head(2)
    )
    return tuple(
        Filters(
            row["job"], row["machine"], tuple(HcaFilter.parse(value) for value in row["value"]),
            tuple(facts.evidence(line["source"], line["line"]) for line in row["where"]),
        )
        for row in grouped.sort("job", "machine").iter_rows(named=True)
    )  # fmt: skip
