"""Where ranks of one communicator do not do the same: operation, count, type, or how many they are."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclcheck.facts.deaths import ended_well
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.operations import DATATYPES
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

_OPERATIONS = ["Send", "Recv"]
# PyTorch compares what ranks are about to call (TORCH_DISTRIBUTED_DEBUG=DETAIL).
_TORCH = r"(?i)detected mismatch between collectives on ranks"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A complaint of one kind: "sizes" (bytes on both ends), "around" (NCCL guesses at a rank), "torch",
    "bootstrap" (size of what ranks exchange), "nranks", "rank" (one that came twice).

    sizes: two numbers, where the line has them. ranks, machines: where known.
    """

    kind: str
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    machines: tuple[str, ...]
    count: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Odd:
    """The first operation of a communicator on which its ranks disagree. calls: what, and by which ranks; those of
    fewest ranks first."""

    number: int
    nranks: int
    calls: tuple[tuple[str, tuple[int, ...]], ...]
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def mismatches(facts: Traffic) -> tuple[Mismatch, ...]:
    failures = facts["failures"].filter(pl.col("level") == "WARN")
    category, text = pl.col("category"), pl.col("text").fill_null("")
    kind = (
        pl.when((category == "collective_mismatch") & pl.col("rank_a").is_not_null()).then(pl.lit("around"))
        .when((category == "message_truncated") & (pl.col("call") == "bootstrap")).then(pl.lit("bootstrap"))
        .when(category.is_in(["collective_mismatch", "message_truncated"])).then(pl.lit("sizes"))
        .when(category == "bootstrap_nranks_mismatch").then(pl.lit("nranks"))
        .when(category == "bootstrap_duplicate_rank").then(pl.lit("rank"))
    )  # fmt: skip
    ours = failures.with_columns(kind=kind).select("proc", "source", "line", "kind", "size_a", "size_b", "rank_a")
    theirs = facts["around"].filter((pl.col("event") == "python_error") & text.str.contains(_TORCH))
    theirs = theirs.select("proc", "source", "line", kind=pl.lit("torch"), rank_a="rank")
    rows = pl.concat([ours.drop_nulls("kind"), theirs], how="diagonal")
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    found = []
    for (name,), part in rows.partition_by("kind", as_dict=True, maintain_order=True).items():
        differ = part.filter(pl.col("size_a") != pl.col("size_b")).head(1)
        first = part.unique("machine", keep="first", maintain_order=True).head(MAX_EVIDENCE)
        found.append(
            Mismatch(
                kind=str(name),
                sizes=differ.select("size_a", "size_b").row(0) if differ.height else (),
                ranks=tuple(part.get_column("rank_a").drop_nulls().unique().sort()),
                machines=tuple(part.get_column("machine").drop_nulls().unique().sort()),
                count=part.height,
                evidence=tuple(facts.evidence(*at) for at in first.select("source", "line").iter_rows()),
            )
        )
    return tuple(found)


@question
def odd_operations(facts: Traffic) -> tuple[Odd, ...]:
    """By the lines of COLL, one per communicator. Operations of a group share a number, and those between two ranks
    are not everybody's: communicators with such are left out, and so is a job that came to a good end."""
    calls = facts["collectives"]
    if calls.height == 0 or ended_well(facts):
        return ()
    members = facts.members.filter(~pl.col("ambiguous") & pl.col("rank").is_not_null())
    seated = members.select("proc", "comm", "cid", "rank", "first_line", "until", "machine", size="nranks")
    calls = calls.join(seated, on=["proc", "comm"]).filter(pl.col("line").is_between("first_line", "until"))
    calls = calls.filter(~pl.col("op").is_in(_OPERATIONS).any().over("cid"))
    calls = calls.filter(pl.len().over("cid", "rank", "op_count") == 1)
    rooted = pl.when(pl.col("op").is_in(["Broadcast", "Reduce"])).then("root")
    calls = calls.with_columns(what=pl.struct("op", "count", "datatype", rooted.alias("root")))
    differ = calls.filter(pl.col("what").n_unique().over("cid", "op_count") > 1)
    differ = differ.filter(pl.col("op_count") == pl.col("op_count").min().over("cid"))
    found = []
    for (_,), part in differ.sort("cid").partition_by("cid", as_dict=True, maintain_order=True).items():
        groups = part.group_by("what", maintain_order=True).agg(
            pl.col("rank").sort(), pl.col("source", "line", "machine").first()
        )
        groups = groups.sort(pl.col("rank").list.len(), maintain_order=True)
        few = part.filter(pl.col("what") == groups.get_column("what")[0])
        found.append(
            Odd(
                number=int(part.get_column("op_count")[0]),
                nranks=int(part.select(pl.col("size").max().fill_null(0)).item()),
                calls=tuple((_call(row["what"]), tuple(row["rank"])) for row in groups.iter_rows(named=True)),
                machines=tuple(few.get_column("machine").drop_nulls().unique().sort()),
                evidence=tuple(
                    facts.evidence(*at) for at in groups.select("source", "line").head(MAX_EVIDENCE).iter_rows()
                ),
            )
        )
    return tuple(found)


def _call(what: dict[str, int | str | None]) -> str:
    kind = what["datatype"]
    name, _ = DATATYPES.get(kind, (f"type {kind}", 0)) if isinstance(kind, int) else ("an unknown type", 0)
    root = f", root {what['root']}" if what["root"] is not None else ""
    return f"{what['op']} of {what['count']} {name}{root}"
