"""What NCCL's RAS says of processes and ranks: who is gone, who does not answer, who stands while others go on.

Counts that differ in one report are normal: ranks are asked one after the other while they work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.completions import machine_of_peer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# What RAS sees of a process that is no more, and of one that is silent.
_DEAD = ("dead", "timeout-dead")
_SILENT = ("unresponsive",)


class LostProcess(NamedTuple):
    """A process as RAS last saw it. dead: it has not answered for a minute; else it did not answer in time. machine:
    its name in the log, else its address. ranks: of the largest communicator that RAS tells it is in."""

    pid: str
    machine: str
    gpus: str
    dead: bool
    ranks: tuple[int, ...]
    evidence: Evidence


class RankError(NamedTuple):
    """An error that NCCL holds for a rank. when: initialization or asynchronous. remote: it follows from another rank's
    end."""

    rank: int
    machine: str
    pid: str
    when: str
    error: str
    evidence: Evidence

    @property
    def remote(self) -> bool:
        return self.error.startswith("Remote")


class Standing(NamedTuple):
    """A rank whose count of operations is behind that of others, with both the same in two reports. communicator: its
    hash. operation: "AllReduce", or "any" where RAS counts all together. launched: its own; ahead: theirs that wait."""

    communicator: str
    rank: int
    machine: str
    pid: str
    operation: str
    launched: int
    ahead: int
    evidence: tuple[Evidence, ...]


@question
def lost_processes(facts: Traffic) -> tuple[LostProcess, ...]:
    """Dead ones first."""
    rows = _of(facts, "process")
    if rows.height == 0:
        return ()
    last = rows.filter(pl.col("key") == "state").unique("name", keep="last", maintain_order=True)
    gpus = dict(rows.filter(pl.col("key") == "gpus").select("name", "text").iter_rows())
    ranks = _ranks(facts)
    found = []
    for name, state, source, line in last.select("name", "text", "source", "line").iter_rows():
        if state in (*_DEAD, *_SILENT):
            machine, pid = _where(facts, name)
            found.append(
                LostProcess(
                    pid,
                    machine,
                    gpus.get(name, ""),
                    state in _DEAD,
                    ranks.get(name, ()) or _ranks_of_log(facts, machine, pid),
                    facts.evidence(source, line),
                )
            )
    return tuple(sorted(found, key=lambda one: not one.dead))


@question
def rank_errors(facts: Traffic) -> tuple[RankError, ...]:
    """Those that are the rank's own first; each rank's last."""
    rows = _of(facts, "rank")
    processes = dict(rows.filter(pl.col("key") == "process").select("name", "text").iter_rows())
    found = []
    last = rows.filter(pl.col("key") == "error").unique("name", keep="last", maintain_order=True)
    for name, text, source, line in last.select("name", "text", "source", "line").iter_rows():
        machine, pid = _where(facts, processes.get(name, ""))
        when, _, error = text.partition(": ")
        found.append(RankError(int(name.rpartition("/")[2]), machine, pid, when, error, facts.evidence(source, line)))
    return tuple(sorted(found, key=lambda one: one.remote))


@question
def standing_ranks(facts: Traffic) -> tuple[Standing, ...]:
    """Ranks behind in two reports between which nothing moved."""
    reports = _reports(facts)
    first: dict[tuple[str, int, str], _Behind] = {}
    found: dict[tuple[str, int, str], Standing] = {}
    processes = dict(_of(facts, "rank").filter(pl.col("key") == "process").select("name", "text").iter_rows())
    for report in reports:
        for key, behind in report.items():
            before = first.get(key)
            if before is not None and (before.launched, before.ahead) == (behind.launched, behind.ahead):
                if before.time != behind.time or not behind.time:
                    communicator, rank, operation = key
                    machine, pid = _where(facts, processes.get(f"{communicator}/{rank}", ""))
                    found[key] = Standing(
                        communicator,
                        rank,
                        machine,
                        pid,
                        operation,
                        behind.launched,
                        behind.ahead,
                        (before.evidence, behind.evidence),
                    )
            else:
                found.pop(key, None)
            first[key] = behind
    return tuple(found.values())


@question
def counts_differ(facts: Traffic) -> bool:
    """Is a rank behind others in some report?"""
    return any(_reports(facts))


class _Behind(NamedTuple):
    launched: int
    ahead: int
    time: str
    evidence: Evidence


@question
def _reports(facts: Traffic) -> tuple[Mapping[tuple[str, int, str], _Behind], ...]:
    """By report, in order: (communicator, rank, operation) of ranks that have launched less than others."""
    launched = facts["telemetry"].filter(
        (pl.col("key") == "launched") & pl.col("thing").is_in(["rank", "communicator"]) & pl.col("number").is_not_null()
    )
    times = dict(
        facts["telemetry"]
        .filter((pl.col("thing") == "job") & (pl.col("key") == "time"))
        .select("output", "text")
        .rows()
    )
    found = []
    for (output,), part in launched.partition_by("output", as_dict=True, maintain_order=True).items():
        part = part.with_columns(comm=pl.col("name").str.split("/").list.first())
        part = part.with_columns(ahead=pl.col("number").max().over("comm", "text"))
        report = {}
        late = part.filter((pl.col("thing") == "rank") & (pl.col("number") < pl.col("ahead")))
        for comm, name, text, number, ahead, source, line in late.select(
            "comm", "name", "text", "number", "ahead", "source", "line"
        ).iter_rows():
            behind = _Behind(int(number), int(ahead), times.get(output, ""), facts.evidence(source, line))
            report[comm, int(name.rpartition("/")[2]), text] = behind
        found.append(report)
    return tuple(found)


def _of(facts: Traffic, thing: str) -> pl.DataFrame:
    return facts["telemetry"].filter((pl.col("thing") == thing) & pl.col("kind").str.starts_with("nccl-ras"))


@question
def _ranks(facts: Traffic) -> Mapping[str, tuple[int, ...]]:
    """Ranks of processes in the largest communicator in which RAS names them."""
    rows = _of(facts, "rank").filter(pl.col("key") == "process")
    sizes = dict(_of(facts, "communicator").filter(pl.col("key") == "ranks").select("name", "number").iter_rows())
    by_process: dict[str, dict[str, set[int]]] = {}
    for name, process in rows.select("name", "text").iter_rows():
        communicator, _, rank = name.rpartition("/")
        by_process.setdefault(process, {}).setdefault(communicator, set()).add(int(rank))
    return {
        process: tuple(sorted(max(of.items(), key=lambda one: sizes.get(one[0]) or 0)[1]))
        for process, of in by_process.items()
    }


def _ranks_of_log(facts: Traffic, machine: str, pid: str) -> tuple[int, ...]:
    """Ranks of the process in the largest communicator of the log."""
    procs = facts["processes"].filter(pl.col("pid") == int(pid)).select("proc")
    rows = facts.members.join(procs, on="proc", how="semi").filter(pl.col("machine") == machine)
    largest = rows.filter(pl.col("nranks") == pl.col("nranks").max())
    return tuple(largest.get_column("rank").drop_nulls().unique().sort())


def _where(facts: Traffic, process: str) -> tuple[str, str]:
    """Machine (by its name in the log, else its address) and pid."""
    address, _, pid = process.rpartition("/")
    return _machines(facts).get(address, address), pid


@question
def _machines(facts: Traffic) -> Mapping[str, str]:
    """Names of machines by the addresses that RAS prints."""
    addresses = (
        pl.concat([_of(facts, "process").get_column("name"), _of(facts, "rank").get_column("text")])
        .str.extract(r"^(.*)/\d+$")
        .drop_nulls()
        .unique()
    )
    return machine_of_peer(facts.tables, facts.machine_table, addresses)
