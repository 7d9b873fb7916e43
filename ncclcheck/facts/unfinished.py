"""Communicators whose init was begun and did not come to its end, and who is missing from them.

The exchange between ranks at the start of init is collective: as soon as one rank is past it, all have arrived. An
absent rank then only logs elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclcheck.facts.communicators import at_init
from ncclcheck.facts.endings import endings
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question

# From here on connections are made at the first use, after init.
_RUNTIME_CONNECT = 22203
# From here on "Connected all rings" follows an exchange over all ranks.
_CONNECTED_TOGETHER = 22403
# "Init START" lines.
_START_LINES = 21803
_MOST_SILENT = 4
# Communicators told of: a damaged input may hold any number.
_MOST = 64
# PyTorch's words for processes that its store waited for in vain: (joined, world), and who made no id.
_STORE = r"(\d+)/(\d+) clients joined|world_size=(\d+), (?:worker_count|num_workers_joined)=(\d+)"
_NO_ID = r"retrieving ncclUniqueId from \[(\d+)\]"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A communicator that some rank of the input began and did not finish.

    seen, completed, stuck: ranks in the input, those past init, those that began it and said no more of it.
    arrived: some rank is past the first exchange, so all ranks came.
    machines: of the stuck ranks. beside: some rank completed on a machine where another one is stuck.
    silent: processes that speak of NCCL and of no communicator, as `host:pid`; waiting: how many they are.
    folded: Ray left out lines of ranks that look alike.
    failed: a stuck rank's own process returned with an error.
    ended: what shows that it did not go on, in words; "" where nothing does.
    """

    nranks: int
    seen: tuple[int, ...]
    completed: tuple[int, ...]
    stuck: tuple[int, ...]
    arrived: bool
    machines: tuple[str, ...]
    beside: bool
    silent: tuple[str, ...]
    waiting: int
    folded: bool
    failed: bool
    ended: str
    evidence: tuple[Evidence, ...]

    @property
    def absent(self) -> tuple[int, ...]:
        present = set(self.seen)
        return tuple(rank for rank in range(self.nranks) if rank not in present)


@question
def unfinished(facts: Facts) -> tuple[Unfinished, ...]:
    """Communicators with a rank that began init and did not finish it, largest first."""
    members = facts.members.filter(~pl.col("ambiguous") & (pl.col("nranks") > 1) & pl.col("rank").is_not_null())
    members = members.with_columns(done=pl.col("completed") | pl.col("member").is_in(_at_work(facts).implode()))
    stuck = members.filter(pl.col("started") & ~pl.col("done"))
    if stuck.height == 0:
        return ()
    arrived, silent = facts.past_first_exchange, _silent(facts)
    folded = set(facts["inputs"].filter("folded").get_column("source"))
    found = []
    for cid in stuck.get_column("cid").unique().sort().head(_MOST):
        rows = members.filter(pl.col("cid") == cid)
        complete, waiting = rows.filter("done"), rows.filter(pl.col("started") & ~pl.col("done"))
        ended, failed, end_lines = _end_after(facts, members, waiting, bool(complete.height))
        first = waiting.unique("machine", keep="first", maintain_order=True).head(MAX_EVIDENCE - 1)
        machines = waiting.get_column("machine").drop_nulls().unique().sort()
        found.append(
            Unfinished(
                nranks=int(rows.select(pl.col("nranks").max()).item()),
                seen=tuple(rows.get_column("rank").unique().sort()),
                completed=tuple(complete.get_column("rank").unique().sort()),
                stuck=tuple(waiting.get_column("rank").unique().sort()),
                arrived=bool(complete.height) or cid in arrived,
                machines=tuple(machines),
                beside=not set(machines).isdisjoint(complete.get_column("machine").drop_nulls()),
                silent=silent[:_MOST_SILENT],
                waiting=len(silent),
                folded=not folded.isdisjoint(rows.get_column("source")),
                failed=failed,
                ended=ended,
                evidence=(
                    *(facts.evidence(row["source"], row["first_line"]) for row in first.iter_rows(named=True)),
                    *end_lines,
                ),
            )
        )
    return tuple(found)


def _at_work(facts: Facts) -> pl.Series:
    """Memberships whose end of init is not in the input (a torn line) and that show what comes after it: a split of
    them, an operation, their end, and from 2.22.3 on connections."""
    members = facts.members.filter(pl.col("started") & ~pl.col("completed"))
    if members.height == 0:
        return members.get_column("member")
    closed = facts["ends"].filter(pl.col("kind").is_null() | (pl.col("kind") != "Abort"))
    parents = facts["inits"].select("proc", "line", comm="parent").drop_nulls("comm")
    used = pl.concat([frame.select("proc", "line", "comm") for frame in (closed, facts["collectives"], parents)])
    # the communicators of one pointer follow each other
    begun = members.select("proc", "comm", "first_line", "until", "member").sort("first_line")
    by_pointer = (
        used.sort("line")
        .join_asof(begun, left_on="line", right_on="first_line", by=["proc", "comm"], check_sortedness=False)
        .filter(pl.col("line") <= pl.col("until"))
        .get_column("member")
    )
    late = members.filter(pl.col("release") >= _RUNTIME_CONNECT)
    connected = _with_line_after(late, facts["connected"], ["proc"])
    joined = _with_line_after(late, facts.edge_table.rename({"own": "rank"}), ["proc", "cid", "rank"])
    # the last line before the end: where another rank of the machine got through, so did this one
    last = facts["channels"].select("proc", "tid", "line")
    counted = members.filter(pl.col("member").is_in(at_init(last, members).drop_nulls().implode()))
    through = facts.members.filter("completed").select("cid", "machine").unique()
    lost = counted.join(through, on=["cid", "machine"], how="semi").get_column("member")
    return pl.concat([by_pointer, lost, connected, joined]).unique()


def _with_line_after(members: pl.DataFrame, rows: pl.DataFrame, on: list[str]) -> pl.Series:
    """Members of which a row follows their first line."""
    last = rows.group_by(on).agg(pl.col("line").max())
    return members.join(last, on=on).filter(pl.col("line") > pl.col("first_line")).get_column("member")


def _silent(facts: Facts) -> tuple[str, ...]:
    """Processes that chose their interface or network and began no communicator."""
    awake = pl.concat([facts[name].select("proc") for name in ("interfaces", "networks")]).unique()
    named = facts["processes"].join(awake, on="proc", how="semi").drop_nulls(["host", "pid"])
    alone = named.join(facts.members, on="proc", how="anti").sort("host", "pid")
    return tuple(f"{host}:{pid}" for host, pid in alone.select("host", "pid").unique(maintain_order=True).iter_rows())


def _end_after(
    facts: Facts, members: pl.DataFrame, stuck: pl.DataFrame, completed: bool
) -> tuple[str, bool, tuple[Evidence, ...]]:
    """An end on record after these ranks began: of their own process before those of others, of their own input before
    others. Without one: the ranks come back in new processes and get through."""
    since = stuck.group_by("source").agg(since=pl.col("first_line").min())
    ends = (
        endings(facts)
        .join(since, on="source", how="left", maintain_order="left")
        .filter(pl.col("line") > pl.col("since").fill_null(0))
        .with_columns(
            own=pl.col("proc").is_in(stuck.get_column("proc").implode()).fill_null(False),
            near=pl.col("since").is_not_null(),
        )
    )
    if facts.jobs > 1:
        ends = ends.filter("near")
    if ends.height:
        end = ends.sort("own", "near", descending=True, maintain_order=True).row(0, named=True)
        failed = end["own"] and end["what"].startswith("NCCL returned")
        return end["what"], failed, (facts.evidence(end["source"], end["line"]),)
    seats = stuck.select("source", "machine", "rank", "nranks", began="first_line", before="proc")
    again = members.filter("completed").join(seats, on=["source", "machine", "rank", "nranks"])
    again = again.filter((pl.col("first_line") > pl.col("began")) & (pl.col("proc") != pl.col("before")))
    if completed or again.height == 0:
        return "", False, ()
    row = again.sort("first_line").row(0, named=True)
    return "the job was started again", False, (facts.evidence(row["source"], row["first_line"]),)


@dataclass(frozen=True, slots=True)
class Unconnected:
    """A communicator whose ranks completed init and stood still when they connected for the first operation.

    connecting: ranks that print channel lines. idle: those that completed and print none.
    """

    nranks: int
    connecting: tuple[int, ...]
    idle: tuple[int, ...]
    machines: tuple[str, ...]
    ended: str
    evidence: tuple[Evidence, ...]


@question
def unconnected(facts: Facts) -> tuple[Unconnected, ...]:
    """From 2.24.3 on: channel lines of a ring on some ranks, "Connected all ..." on none, and an end after that."""
    members = facts.members.filter(
        ~pl.col("ambiguous") & pl.col("completed") & (pl.col("release") >= _CONNECTED_TOGETHER) & (pl.col("nranks") > 1)
    )
    if members.height == 0 or facts["edges"].height == 0 or facts["connected"].height:
        return ()
    edges = facts.edge_table.filter(~pl.col("is_p2p")).select("cid", rank="own").drop_nulls().unique()
    at_work = members.join(edges, on=["cid", "rank"], how="semi")
    found = []
    for cid in at_work.get_column("cid").unique().sort().head(_MOST):
        rows, busy = members.filter(pl.col("cid") == cid), at_work.filter(pl.col("cid") == cid)
        idle = rows.join(busy, on="member", how="anti")
        meant = idle if idle.height else busy
        ended, _, end_lines = _end_after(facts, members, rows, True)
        if ended:
            found.append(
                Unconnected(
                    nranks=int(rows.select(pl.col("nranks").max()).item()),
                    connecting=tuple(busy.get_column("rank").unique().sort()),
                    idle=tuple(idle.get_column("rank").unique().sort()),
                    machines=tuple(meant.get_column("machine").drop_nulls().unique().sort()),
                    ended=ended,
                    evidence=(
                        *(facts.evidence(*at) for at in meant.select("source", "last_line").head(2).iter_rows()),
                        *end_lines,
                    ),
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """PyTorch's store waited in vain. joined, world: processes, where it counts them. absent: the rank that should
    have left NCCL's id there, where it is that."""

    joined: int | None
    world: int | None
    absent: int | None
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def rendezvous(facts: Facts) -> Rendezvous | None:
    said = facts["around"].filter(pl.col("event") == "python_error")
    counts, no_id = pl.col("text").str.extract_groups(_STORE), pl.col("text").str.extract(_NO_ID)
    rows = (
        said.with_columns(
            joined=pl.coalesce(counts.struct[0], counts.struct[3]).cast(pl.Int64, strict=False),
            world=pl.coalesce(counts.struct[1], counts.struct[2]).cast(pl.Int64, strict=False),
            absent=no_id.cast(pl.Int64, strict=False),
        )
        .filter(pl.col("world").is_not_null() | pl.col("absent").is_not_null())
        .join(facts.machine_table, on="proc", how="left", maintain_order="left")
    )
    if rows.height == 0:
        return None
    row = rows.sort("world", "joined", nulls_last=True, descending=True, maintain_order=True).row(0, named=True)
    first = rows.unique("proc", keep="first", maintain_order=True).head(2)
    return Rendezvous(
        row["joined"], row["world"], row["absent"], tuple(rows.get_column("machine").drop_nulls().unique().sort()),
        tuple(facts.evidence(source, line) for source, line in first.select("source", "line").iter_rows()),
    )  # fmt: skip
