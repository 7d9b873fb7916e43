"""Queue pairs that could not be set up, and the addresses (GIDs) of the two ends where the log prints them."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

# Words that libc has for the errors which a release may print without their number.
_NUMBERS = {
    "No such device": 19, "Invalid argument": 22, "Network is unreachable": 101, "Connection timed out": 110,
    "No route to host": 113, "Cannot allocate memory": 12, "No such file or directory": 2,
}  # fmt: skip


class VerbsFailure(NamedTuple):
    """Failures that look alike. call: function of libibverbs, or "completion" for requests that got an error back.

    errno: 0 where the log does not tell. status: of a completion, else 0. next_state: what the queue pair was to become
    ("RTR"). local, remote: kinds of the GIDs at the two ends: "link-local", "IPv4", "IPv6", "none" (all zero) or ""
    (not printed). gids: a pair of them.
    """

    call: str
    errno: int
    status: int
    words: str
    next_state: str
    gid_index: int | None
    local: str
    remote: str
    gids: tuple[str, str]
    devices: tuple[str, ...]
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def verbs_failures(facts: Printed) -> tuple[VerbsFailure, ...]:
    """Those that read alike joined, in the order of the input."""
    rows = facts["verbs_failures"]
    if rows.height == 0:
        return ()
    by_words = pl.col("errno_text").replace_strict(_NUMBERS, default=None, return_dtype=pl.Int64)
    rows = rows.with_columns(
        pl.coalesce("errno", by_words, pl.lit(0)).alias("errno"),
        pl.col("status").fill_null(0),
        local=_kind_of("local_gid"),
        remote=_kind_of("remote_gid"),
    )
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    look = ["call", "errno", "status", "errno_text", "next_state", "gid_index", "local", "remote"]
    groups = rows.group_by(look, maintain_order=True).agg(
        pl.col("hca").drop_nulls().unique().sort(),
        pl.col("machine").drop_nulls().unique().sort(),
        pl.col("local_gid", "remote_gid").drop_nulls().first(),
        where=pl.struct("source", "line").head(MAX_EVIDENCE),
    )
    return tuple(
        VerbsFailure(
            row["call"] or "", row["errno"], row["status"], row["errno_text"] or "", row["next_state"] or "",
            row["gid_index"], row["local"], row["remote"], (row["local_gid"] or "", row["remote_gid"] or ""),
            tuple(row["hca"]), tuple(row["machine"]),
            tuple(facts.evidence(line["source"], line["line"]) for line in row["where"]),
        )
        for row in groups.iter_rows(named=True)
    )  # fmt: skip


def _kind_of(column: str) -> pl.Expr:
    gid = pl.col(column).str.to_lowercase()
    return (
        pl.when(gid.is_null()).then(pl.lit(""))
        .when(gid.str.contains(r"^[0:]*$")).then(pl.lit("none"))
        .when(gid.str.contains(r"^fe[89ab]")).then(pl.lit("link-local"))
        .when(gid.str.contains(r"^(?:0*:)*:?ffff:")).then(pl.lit("IPv4"))
        .otherwise(pl.lit("IPv6"))
    )  # fmt: skip
