"""Environment variables: what NCCL says is in force, what scripts in the input mean to set, and whether ranks agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.jobs import job_of
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# Values of these are names that NCCL compares without case.
_NAMES = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NET")


class Setting(NamedTuple):
    """One value of a variable. in_force: NCCL prints it; else it only stands in a script or a dump of the input, and
    `machines` is empty."""

    name: str
    value: str
    in_force: bool
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


class Disagreement(NamedTuple):
    """Processes of one job with different values.

    machines, processes: value -> those that print it. tied: a communicator joins the processes, so they are of one job
    for sure. by_rank: a machine has several of the values.
    """

    name: str
    machines: Mapping[str, tuple[str, ...]]
    processes: Mapping[str, int]
    tied: bool
    by_rank: bool
    evidence: tuple[Evidence, ...]


@question
def settings_of(facts: Printed) -> Mapping[str, tuple[Setting, ...]]:
    """All variables of the input with their values, by name. What NCCL prints of a variable outweighs scripts."""
    rows = facts["settings"]
    if rows.height == 0:
        return {}
    rows = rows.with_columns(in_force=pl.col("origin") != "script")
    rows = rows.filter(pl.col("in_force") | ~pl.col("in_force").any().over("name"))
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    grouped = rows.group_by("name", "value", "in_force", maintain_order=True).agg(
        pl.col("machine").drop_nulls().unique().sort(),
        where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
    )
    found: dict[str, list[Setting]] = {}
    for row in grouped.iter_rows(named=True):
        evidence = tuple(facts.evidence(w["source"], w["line"]) for w in row["where"])
        setting = Setting(row["name"], row["value"] or "", row["in_force"], tuple(row["machine"]), evidence)
        found.setdefault(row["name"], []).append(setting)
    return {name: tuple(settings) for name, settings in found.items()}


def set_to(facts: Printed, name: str) -> tuple[Setting, ...]:
    """The values of one variable."""
    return settings_of(facts).get(name, ())


@question
def scripts_beside_log(facts: Printed) -> tuple[Setting, ...]:
    """What scripts set though NCCL prints another value of it."""
    rows = facts["settings"]
    if rows.height == 0:
        return ()
    echoed = rows.filter(pl.col("origin") != "script")
    rows = rows.filter(pl.col("origin") == "script").join(echoed, on=["name", "value"], how="anti")
    rows = rows.join(echoed.select("name").unique(), on="name", how="semi")
    grouped = rows.group_by("name", "value", maintain_order=True).agg(
        where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE)
    )
    return tuple(
        Setting(row["name"], row["value"] or "", False, (),
                tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]))
        for row in grouped.iter_rows(named=True)
    )  # fmt: skip


@question
def printed_by_several(facts: Printed) -> bool:
    """Do at least two processes print settings?"""
    return facts["settings"].filter(pl.col("origin") != "script").get_column("proc").n_unique() > 1


@question
def disagreements(facts: Traffic) -> tuple[Disagreement, ...]:
    """Variables of which processes of one job print different values. Unset on some is no disagreement: NCCL prints at
    first use, and many logs hold rank 0 only."""
    rows = facts["settings"].filter(pl.col("origin") != "script")
    if rows.height == 0:
        return ()
    value = pl.col("value").str.strip_chars(" .")
    rows = rows.with_columns(
        value=pl.when(pl.col("name").is_in(_NAMES)).then(value.str.to_lowercase()).otherwise(value)
    )
    several = rows.group_by("name").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)
    rows = rows.join(several.select("name"), on="name", how="semi", maintain_order="left")
    # a process that prints two values of one variable is several runs under one pid
    rows = rows.filter(pl.col("value").n_unique().over("proc", "name") == 1)
    rows = rows.join(job_of(facts), on="proc").join(facts.machine_table, on="proc", how="left").drop_nulls("job")
    rows = rows.filter(pl.col("value").n_unique().over("job", "name") > 1)
    rows = rows.filter(pl.col("job") == pl.col("job").min().over("name")).sort("source", "line")
    tied = facts.members.filter(~pl.col("ambiguous")).get_column("proc")
    rows = rows.with_columns(
        tied=pl.col("proc").is_in(tied.implode()),
        mixed=(pl.col("value").n_unique().over("name", "machine") > 1) & pl.col("machine").is_not_null(),
    )
    found = []
    for (name,), group in rows.group_by("name", maintain_order=True):
        machines = group.group_by("value", maintain_order=True).agg(
            pl.col("machine").drop_nulls().unique().sort(), pl.col("proc").n_unique()
        )
        first = group.unique("value", keep="first", maintain_order=True).head(MAX_EVIDENCE)
        found.append(
            Disagreement(
                str(name),
                {value: tuple(names) for value, names, _ in machines.iter_rows()},
                {value: number for value, _, number in machines.iter_rows()},
                bool(group.get_column("tied").all()),
                bool(group.get_column("mixed").any()),
                tuple(facts.evidence(s, n) for s, n in first.select("source", "line").iter_rows()),
            )
        )
    return tuple(found)
