"""What processes say, word for word: settings, one-line facts and failures, and on which machines.

Polars stays behind this package's doors: answers are plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import polars as pl

from ncclcheck.facts.communicators import memberships
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.machines import machine_of, one_process_each, told_apart_by_device
from ncclcheck.facts.matrix import Matrix, matrices
from ncclcheck.facts.schema import table
from ncclcheck.facts.seen import Failure, Seen

# Evidence lines kept per fact: the first of each of a few machines.
MAX_EVIDENCE = 4


class Printed:
    """tables: the fact tables of a reading (see `schema.TABLES`). paths: the inputs' names, by source."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], paths: Sequence[str]) -> None:
        self.tables = one_process_each(tables)
        self._distinct: dict[tuple[str, str], frozenset[str]] = {}
        self.paths = tuple(paths)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return table(self.tables, name)

    @cached_property
    def _placed(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Machines of processes, and the memberships that their devices and these machines give."""
        machines = machine_of(self.tables)
        members = memberships(self.tables, machines)
        apart = told_apart_by_device(self.tables, machines, members)
        return (machines, members) if apart is None else (apart, memberships(self.tables, apart))

    @property
    def machine_table(self) -> pl.DataFrame:
        return self._placed[0]

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines that printed anything, in natural order."""
        names = self.machine_table.get_column("machine").drop_nulls().unique().to_list()
        return tuple(sorted(names, key=_natural))

    @cached_property
    def releases(self) -> tuple[int, ...]:
        """Codes of the NCCL releases that the input prints (2.18.3 -> 21803), in order."""
        known = self["processes"].get_column("release").drop_nulls().unique().sort().to_list()
        return tuple(known)

    @property
    def release(self) -> int | None:
        """The release, where the input proves exactly one."""
        return self.releases[0] if len(self.releases) == 1 else None

    @cached_property
    def release_window(self) -> tuple[int | None, int | None]:
        """The first and the last release that all processes can be of, from the forms of their lines; None: open. For
        a picture of the job, not for a verdict: a vendor's build may print lines of another release."""
        ends = self["processes"].select(pl.col("release_low").max(), pl.col("release_high").min())
        low, high = ends.row(0)
        return (None, None) if low and high and low > high else (low, high)

    @cached_property
    def cuda_builds(self) -> tuple[Seen, ...]:
        """The CUDA that NCCL was built with, by processes that print it: value is like "12.4"."""
        rows = self["versions"].filter(pl.col("cuda").str.contains(r"^\d+\.\d+"))
        return self._seen(rows.select("proc", "source", "line", value="cuda"))

    @cached_property
    def is_rccl(self) -> bool:
        return bool(self["versions"].select(pl.col("hip").fill_null(False).any()).item())

    @cached_property
    def gpu_names(self) -> tuple[str, ...]:
        """GPU models that the input prints by name, nvidia-smi and other tools among those that print."""
        told = self["telemetry"].filter((pl.col("thing") == "gpu") & (pl.col("key") == "model")).get_column("text")
        names = pl.concat([self["gpu_names"].get_column("name"), told.rename("name")])
        return tuple(names.drop_nulls().unique().sort().to_list())

    def settings(self, name: str) -> tuple[Seen, ...]:
        """Values in force of one variable, each with the machines that print it. Empty: not printed, which before
        2.16.5 (and without ENV in the subsystems) does not mean unset. What scripts set is in `facts.settings`."""
        if name not in self._values_in("settings", "name"):
            return ()
        rows = self["settings"].filter((pl.col("name") == name) & (pl.col("origin") != "script"))
        return self._seen(rows.select("proc", "source", "line", "value"))

    def settings_like(self, prefix: str) -> tuple[tuple[str, Seen], ...]:
        """All variables whose name begins with `prefix`, with their values."""
        names = sorted(name for name in self._values_in("settings", "name") if name.startswith(prefix))
        return tuple((name, seen) for name in names for seen in self.settings(name))

    def notes(self, kind: str) -> tuple[Seen, ...]:
        """One-line facts of a kind (the event's name), by value."""
        if kind not in self._values_in("notes", "kind"):
            return ()
        rows = self["notes"].filter(pl.col("kind") == kind)
        return self._seen(rows.select("proc", "source", "line", pl.col("value").fill_null("")))

    def failures(self, *categories: str) -> tuple[Failure, ...]:
        """Failures of these categories (all: none given), those that read alike joined. Peers are left out of the
        likeness: 500 refused connections are one failure."""
        rows = self["failures"]
        if rows.height and categories:
            rows = rows.filter(pl.col("category").is_in(list(categories)))
        if rows.height == 0:
            return ()
        rows = rows.join(self.machine_table, on="proc", how="left", maintain_order="left")
        likeness = ["category", "level", "call", "errno_text", "error", "rank_a", "rank_b", "bus_id", "code", "text",
                    "src_file", "version_a", "version_b"]  # fmt: skip
        grouped = rows.group_by(likeness, maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.len().alias("count"),
            pl.col("peer", "path").drop_nulls().first(),
            where=pl.struct("source", "line").head(MAX_EVIDENCE),
        )
        found = []
        for row in grouped.iter_rows(named=True):
            fields = {
                name: str(row[name])
                for name in (*likeness, "peer", "path")
                if name not in ("category", "level") and row[name] is not None
            }
            evidence = tuple(self.evidence(w["source"], w["line"]) for w in row["where"])
            found.append(Failure(row["category"], row["level"], fields, tuple(row["machine"]), row["count"], evidence))
        return tuple(found)

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The `nvidia-smi topo` matrices of the input. One without NVLinks, of GPUs whose links work by another tool,
        is made by `topo -mp`, which leaves them out."""
        found = matrices(self.tables, self.paths)
        works = (pl.col("thing") == "nvlink") & (pl.col("key") == "active") & (pl.col("text") == "yes")
        if not self["telemetry"].select(works.any()).item():
            return found
        return tuple(one._replace(nvlink_hidden=one.nvlink_hidden or not one.links) for one in found)

    def evidence(self, source: int, line: int) -> Evidence:
        """A line of an input; its text is filled in when the report is made."""
        return Evidence(self.paths[source], line, "")

    def _values_in(self, name: str, column: str) -> frozenset[str]:
        """Distinct values of a column: most questions are about what is not there."""
        known = self._distinct.get((name, column))
        if known is None:
            known = frozenset(self[name].get_column(column).unique())
            self._distinct[name, column] = known
        return known

    def _seen(self, rows: pl.DataFrame) -> tuple[Seen, ...]:
        """Rows (proc, source, line, value) by value."""
        if rows.height == 0:
            return ()
        rows = rows.join(self.machine_table, on="proc", how="left", maintain_order="left")
        grouped = rows.group_by("value", maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(),
            pl.len().alias("count"),
            where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
        )
        return tuple(
            Seen(
                row["value"] or "",
                tuple(row["machine"]),
                tuple(self.evidence(w["source"], w["line"]) for w in row["where"]),
                row["count"],
            )
            for row in grouped.iter_rows(named=True)
        )


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts n2 before n10."""
    return tuple(
        (int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in re.split(r"(\d+)", name)
    )
