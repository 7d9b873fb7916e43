"""Which NCCL does each process load, and do processes of one job load different ones?

Until 2.21.5 only rank 0 of a communicator prints its release, on a line without host and pid; from 2.22.3 every process
does. Restarts append to one file, files of several jobs are read together, and two libraries can live in one process: a
difference counts only where a communicator ties the machines together, or an input or a network does and nothing shows
that they are of different jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.schema import table

# From this release on init compares the releases of all ranks: a communicator that completes has one.
COMPARED_FROM = 22304
# From 2.14.3 on channel lines of P2P have a connection index (`Channel 00/0`), until 2.13.4 they have none.
_WITH_INDEX, _WITHOUT_INDEX = "2.14.3 or newer", "2.13.4 or older"


class Clash(NamedTuple):
    """Different releases of NCCL on machines of one job.

    releases: release -> machines that load it. proven: one communicator holds them all. works: it came about all the
    same. by_form: told by the form of channel lines, no line names the release.
    """

    releases: Mapping[str, tuple[str, ...]]
    proven: bool
    works: bool
    by_form: bool
    evidence: tuple[Evidence, ...]

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(sorted({machine for machines in self.releases.values() for machine in machines}))


class Versions:
    """machines: `proc` and `machine`. members: see `communicators.memberships`."""

    def __init__(
        self, tables: Mapping[str, pl.DataFrame], machines: pl.DataFrame, members: pl.DataFrame,
        evidence: Callable[[int, int], Evidence],
    ) -> None:  # fmt: skip
        self._tables, self._machines, self._members, self._evidence = tables, machines, members, evidence

    def clash(self) -> Clash | None:
        """The first of: one communicator, one job as far as can be seen, other forms of channel lines."""
        by_line = (self._in_a_communicator() or self._between_machines()) if self.several else None
        return by_line or self._by_form()

    @property
    def several(self) -> bool:
        """Does the input print more than one release?"""
        return table(self._tables, "versions").get_column("version").drop_nulls().n_unique() > 1

    @property
    def all_known(self) -> bool:
        """Does every machine of the input print its release, and is it the same?"""
        machines = set(self._machines.get_column("machine").drop_nulls())
        known = set(self.printed.get_column("machine").drop_nulls())
        return bool(machines) and machines <= known and self.printed.get_column("version").n_unique() == 1

    # ------------------------------------------------------------------------------------------ who loads which release

    @cached_property
    def printed(self) -> pl.DataFrame:
        """Version lines with the machine that printed them, or the only one of their input."""
        lines = table(self._tables, "versions").filter(pl.col("version").is_not_null())
        sources = table(self._tables, "processes").select("proc", "source").join(self._machines, on="proc")
        only = sources.drop_nulls("machine").group_by("source").agg(pl.col("machine").unique().alias("only"))
        only = only.filter(pl.col("only").list.len() == 1).select("source", pl.col("only").list.first())
        lines = lines.join(self._machines, on="proc", how="left", maintain_order="left")
        lines = lines.join(only, on="source", how="left", maintain_order="left")
        return lines.with_columns(machine=pl.coalesce("machine", "only"), hip=pl.col("hip").fill_null(False))

    def _of_processes(self) -> pl.DataFrame:
        """`proc`, `version` and its line: a process's own, else that of an input which prints one. A process that
        prints two holds two libraries, or is several runs under one pid: left out."""
        first = pl.col("version", "source", "line").first()
        several = (pl.col("version").n_unique() > 1).alias("several")
        each = self.printed.group_by("proc").agg(first, several)
        in_input = self.printed.with_columns(input="source").group_by("input").agg(first, several)
        processes = table(self._tables, "processes").select("proc", input="source")
        told = processes.join(each, on="proc", how="left").join(in_input, on="input", how="left", suffix="_input")
        return told.select(
            "proc",
            *(pl.coalesce(name, f"{name}_input").alias(name) for name in ("version", "source", "line", "several")),
        ).filter(pl.col("version").is_not_null() & ~pl.col("several")).drop("several")  # fmt: skip

    # ------------------------------------------------------------------------------------------------------ the clashes

    def _in_a_communicator(self) -> Clash | None:
        """Ranks of a communicator with an id: the id is proof."""
        members = self._members.filter(
            pl.col("key").str.starts_with("id ") & ~pl.col("ambiguous") & (pl.col("nranks") > 1)
        )
        if members.height == 0:
            return None
        told = members.select("cid", "proc", "machine", "completed").join(self._of_processes(), on="proc")
        compared = pl.col("completed").any() & (_code(pl.col("version")).min() >= COMPARED_FROM)
        differ = told.group_by("cid").agg(pl.col("version").n_unique(), compared=compared)
        clashing = differ.filter((pl.col("version") > 1) & ~pl.col("compared").fill_null(False))
        if clashing.height == 0:
            return None
        here = told.filter(pl.col("cid") == clashing.get_column("cid").min())
        return self._clash(here, proven=True, works=bool(here.get_column("completed").any()))

    def _between_machines(self) -> Clash | None:
        """Machines with different releases that something ties together, and nothing says that they are of two jobs."""
        lines = self.printed.drop_nulls("machine")
        per_machine = lines.group_by("machine").agg(pl.col("version").n_unique(), pl.col("hip").first())
        one_each = per_machine.select((pl.col("version") == 1).all() & (pl.col("hip").n_unique() == 1)).item()
        unknown = self.printed.get_column("machine").null_count()
        if lines.get_column("version").n_unique() == 1 or not one_each or unknown or self.told_apart:
            return None
        if self._members.get_column("ambiguous").any():
            return None
        return self._clash(lines) if self._together(lines.select("machine", "version").unique()) else None

    @cached_property
    def told_apart(self) -> bool:
        """Do communicators show that no job holds machines of two releases: they came about, or have none in common?"""
        loads = self.printed.drop_nulls("machine").select("version", "machine").unique()
        groups = loads.join(self._machines, on="machine").select("version", "proc")
        members = self._members.join(groups, on="proc")
        if self._works(groups, members):
            return True
        members = members.filter(pl.col("nranks") > 1)
        members = members.filter(pl.col("nranks") == pl.col("nranks").max().over("version"))
        known = [set(cids) for cids in members.group_by("version").agg(pl.col("cid").unique()).get_column("cid")]
        if not known or set.intersection(*known):
            return False
        return any(one.isdisjoint(other) for one, other in combinations(known, 2))

    def _together(self, machines: pl.DataFrame) -> bool:
        """machines: `machine`, `version`. Does anything tie them: one input, in which they print at the same time (one
        after the other is a restart), or over several inputs an interface of one name in one network?"""
        where = self._spans().join(machines, on="machine")
        crowded = where.group_by("source").agg(
            versions=pl.col("version").n_unique(), machines=pl.col("machine").n_unique(),
            latest_begin=pl.col("first").max(), earliest_end=pl.col("last").min(),
        )  # fmt: skip
        mixed = crowded.filter(pl.col("versions") > 1)
        if mixed.height:
            return bool(mixed.select((pl.col("latest_begin") < pl.col("earliest_end")).all()).item())
        addresses = table(self._tables, "interfaces").filter(pl.col("name") != "lo").join(self._machines, on="proc")
        addresses = addresses.with_columns(network=pl.col("address").str.extract(r"^(\d+\.\d+)\."))
        here = addresses.drop_nulls("network").join(machines, on="machine", how="semi")
        shared = here.group_by("name", "network").agg(pl.col("machine").n_unique())
        return shared.get_column("machine").max() == machines.get_column("machine").n_unique()

    def _spans(self) -> pl.DataFrame:
        """`source`, `machine`, and the `first` and `last` line that it prints there."""
        where = ["proc", "source", "line"]
        rows = [frame.select(where) for frame in self._tables.values() if {*where} <= {*frame.columns}]
        lines = pl.concat(rows).join(self._machines, on="proc").drop_nulls("machine")
        return lines.group_by("source", "machine").agg(first=pl.col("line").min(), last=pl.col("line").max())

    def _works(self, groups: pl.DataFrame, members: pl.DataFrame) -> bool:
        """Do the processes of one version (groups: `version`, `proc`) have a communicator that came about, or of which
        all ranks are among them? members: theirs."""
        sums = (pl.col("rank").n_unique(), pl.col("nranks").max(), pl.col("completed").any())
        whole = members.group_by("version", "cid").agg(*sums)
        alone = (pl.col("rank") == pl.col("nranks")) & (pl.col("nranks") > 1)
        if whole.select((pl.col("completed") | alone).any()).item():
            return True
        past = [table(self._tables, name).select("proc") for name in ("edges", "connected")]
        return pl.concat(past).join(groups, on="proc", how="semi").height > 0

    def _by_form(self) -> Clash | None:
        """Channel lines of one kind, with a connection index on one machine and without on another: no release prints
        both. Ranks that no two machines share make them one job."""
        if table(self._tables, "versions").height:
            return None
        of_both = (pl.col("transport") == "P2P") & pl.col("method").is_in(["IPC", "direct"])
        edges = table(self._tables, "edges").filter(of_both)
        form = pl.when(pl.col("conn").is_null()).then(pl.lit(_WITHOUT_INDEX)).otherwise(pl.lit(_WITH_INDEX))
        edges = edges.join(self._machines, on="proc").drop_nulls("machine").with_columns(version=form)
        mixed = edges.group_by("source", "method").agg(pl.col("version").n_unique()).filter(pl.col("version") > 1)
        edges = edges.join(mixed, on=["source", "method"], how="semi")
        one_each = edges.group_by("machine").agg(pl.col("version").n_unique() == 1)
        apart = edges.group_by("src").agg(pl.col("machine").n_unique() == 1)
        sure = edges.height and one_each.get_column("version").all() and apart.get_column("machine").all()
        if not sure or edges.get_column("source").n_unique() > 1 or self._members.height:
            return None
        return self._clash(edges, by_form=True) if self._together(edges.select("machine", "version").unique()) else None

    def _clash(self, rows: pl.DataFrame, *, proven: bool = False, works: bool = False, by_form: bool = False) -> Clash:
        """rows: version, machine, source, line."""
        order = rows.unique("version", keep="first", maintain_order=True).get_column("version").to_list()
        groups = rows.group_by("version").agg(pl.col("machine").drop_nulls().unique().sort())
        machines = {version: tuple(names) for version, names in groups.iter_rows()}
        first = rows.sort("source", "line").unique(["version", "machine"], keep="first", maintain_order=True)
        where = first.with_columns(turn=pl.int_range(pl.len()).over("version")).sort("turn", maintain_order=True)
        evidence = [self._evidence(source, line) for source, line in where.select("source", "line").iter_rows()]
        by_text = sorted(order, key=lambda version: (-len(machines[version]), _sortable(version)))
        return Clash({v: machines[v] for v in by_text}, proven, works, by_form, tuple(dict.fromkeys(evidence))[:4])


def _code(version: pl.Expr) -> pl.Expr:
    part = [version.str.extract(rf"^(?:\d+\.){{{index}}}(\d{{1,3}})(?:\D|$)").cast(pl.Int64) for index in range(3)]
    return part[0] * 10000 + part[1] * 100 + part[2]


def _sortable(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(" ")[0].split(".") if part.isdigit())
