"""What adapters say of their ports and of themselves while the job runs.

Every process prints the events of every device it has opened, so one event stands in the log once per rank of a
machine: it is folded by machine, device and port. Releases before 2.20.3 print no device.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

# Kinds of events, by the words of libibverbs. The others (LID, SM, P_Key, client reregistration, path migration) say
# that the fabric was configured anew.
_KINDS = {
    "down": r"(?i)^port error",
    "up": r"(?i)^port active",
    "gid": r"(?i)^GID table change",
    "device": r"(?i)^local catastrophic error",
    "queue": r"(?i)work queue|^CQ error",
}


class PortEvents(NamedTuple):
    """Events of one kind on one port. kind: "down", "gid", "device" or "queue" (a queue pair or completion queue).

    device: as NCCL names it, with the port where that is not 1; "" where the release does not print it. words: the
    event as printed. times: how often it happened, as the process that saw most of it tells. returned: the port was
    active again at the end (kind "down").
    """

    machine: str
    device: str
    kind: str
    words: str
    times: int
    returned: bool
    evidence: tuple[Evidence, ...]


@question
def port_events(facts: Printed) -> tuple[PortEvents, ...]:
    """By machine, device and kind, in the order of the input."""
    rows = facts["port_events"].filter(~pl.col("event").str.contains(r"(?i)SRQ"))
    if rows.height == 0:
        return ()
    kind = pl.coalesce(*(pl.when(pl.col("event").str.contains(words)).then(pl.lit(k)) for k, words in _KINDS.items()))
    other_port = pl.when(pl.col("port") > 1).then(pl.format("{}:{}", "hca", "port"))
    kind = pl.coalesce(kind, pl.when("fatal").then(pl.lit("queue")))
    rows = rows.with_columns(kind=kind, device=pl.coalesce(other_port, "hca", pl.lit(""))).drop_nulls("kind")
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left").sort("source", "line")
    rows = rows.with_columns(machine=pl.col("machine").fill_null(""))
    here = ["machine", "device"]
    link = rows.filter(pl.col("kind").is_in(["down", "up"]))
    # a process that was killed between the two events does not see the port return
    ends = link.group_by(*here, "proc", maintain_order=True).agg(_came_back().alias("returned"))
    returned = ends.group_by(here).agg(pl.col("returned").any())
    groups = rows.filter(pl.col("kind") != "up").group_by(*here, "kind", maintain_order=True).agg(
        pl.col("event").first(),
        times=pl.col("proc").value_counts().struct.field("count").max(),
        where=pl.struct("source", "line").head(MAX_EVIDENCE),
    )  # fmt: skip
    back = link.filter(pl.col("kind") == "up").group_by(here).agg(back=pl.struct("source", "line").first())
    groups = groups.join(returned, on=here, how="left", maintain_order="left")
    groups = groups.join(back, on=here, how="left", maintain_order="left")
    found = []
    for row in groups.iter_rows(named=True):
        down = row["kind"] == "down"
        lines = [*row["where"][:2], row["back"]] if down and row["back"] else row["where"]
        found.append(
            PortEvents(
                row["machine"], row["device"], row["kind"], row["event"], row["times"], down and bool(row["returned"]),
                tuple(facts.evidence(line["source"], line["line"]) for line in lines),
            )
        )  # fmt: skip
    return tuple(found)


def _came_back() -> pl.Expr:
    """The last event of the process is "port active"; where devices have no name, as many came back as went."""
    up = pl.col("kind") == "up"
    named = pl.col("device").first() != ""
    return (up.last() & (named | (up.sum() >= (~up).sum()))).fill_null(False)
