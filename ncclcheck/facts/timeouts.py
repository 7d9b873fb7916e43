"""Collectives that PyTorch's watchdog ended: who waited in them, and who was not there.

A rank that waits prints the timeout. Each process group counts its collectives: ranks compare within one group only.
The watchdog names the rank in its group, the C++ log of PyTorch 2.2 and newer the rank of the job before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ncclcheck.facts.deaths import Nature, first_death
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question

_EVENTS = ("watchdog_timeout", "watchdog_status", "watchdog_signal")
# Without the name of their group, ranks whose numbers are further apart are not of one.
_NEAR = 8
# Their number counts per pair of ranks, and a coalesced one is of several kinds.
_NOT_COMPARED = {"SEND", "RECV", "COALESCED", "UNKNOWN"}
# The same number of elements on all ranks.
_EVEN = {"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"}
_SIZE = r"NumelIn=(\d+)"
_FIELDS = {
    "seq": r"SeqNum=(\d+)", "ran_ms": r"ran for (\d+) milli", "limit_ms": r"Timeout\(ms\)=(\d+)",
    "enqueued": r"(?i)last enqueued(?: NCCL)? work: (-?\d+)",
    "completed": r"(?i)last completed(?: NCCL)? work: (-?\d+)", "caller": r"^ *rank (\d+) ",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """How far a rank came in a group. work: the collective that it waits in, None if in none. op: with its sizes, where
    they have to be alike. enqueued, completed: the last ones, where it says so."""

    rank: int
    member: int | None
    work: int | None
    op: str
    enqueued: int | None
    completed: int | None
    source: int
    line: int

    @property
    def done(self) -> int | None:
        return self.completed if self.work is None else self.work - 1


@dataclass(frozen=True, slots=True)
class Timeout:
    """Ranks of one process group that waited until the watchdog fired.

    group: its name, "" where the lines have none. sure: they are of one group. work, op: what most of them wait in.
    first: the ranks that stopped before the others, as far as that shows, and how:
    "behind" they never called it (last: their last one), "stuck" they wait in an earlier one (last), "other" they call
    another operation at the same number (last_op), "silent" they wait in none. all_there: every rank of the group waits
    in the same one. mixed: several groups or attempts that the lines do not tell apart.
    """

    group: str
    sure: bool
    waiting: tuple[int, ...]
    work: int | None
    op: str
    first: tuple[int, ...]
    how: str
    last: int | None
    last_op: str
    all_there: bool
    mixed: bool
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class TimedOut:
    """All of a job. groups: the telling one first. seconds: how long the ranks stood, by the watchdog."""

    groups: tuple[Timeout, ...]
    seconds: float | None


@question
def timed_out(facts: Facts) -> TimedOut | None:
    """Timeouts of collectives; None where no watchdog fired."""
    rows = _rows(facts)
    fired = rows.filter(pl.col("event") == "watchdog_timeout")
    if rows.filter(pl.col("event") != "watchdog_status").height == 0:
        return None  # an error of NCCL
    stood = fired.select(pl.max_horizontal("ran_ms", "limit_ms").max()).item() if fired.height else None
    keys = ["source", "group"] if facts.jobs > 1 else ["group"]
    found, waits = [], Counter[int]()
    for _, part in rows.partition_by(keys, as_dict=True, maintain_order=True).items():
        positions = _positions(part)
        group = str(part.row(0, named=True)["group"] or "")
        one_group = positions is not None and part.get_column("sure").all()
        told = _timeout(facts, group, one_group, positions, part)
        if told is not None:
            found.append(told)
            waits.update(told.waiting)
    if not found:  # others were told of it
        found = [_heard_of(facts, rows)]
    # who waits in another group as well was not the first
    found = [_without(one, {rank for rank in one.first if waits[rank]}) for one in found]
    if not any(one.first for one in found):
        found = _with_silent(facts, found, rows)
    found.sort(key=lambda one: (not one.group, not one.first, one.how == "silent", not one.sure, -len(one.waiting)))
    return TimedOut(tuple(found), None if stood is None else stood / 1000)


@question
def stuck_watchdogs(facts: Facts) -> tuple[tuple[int, ...], tuple[Evidence, ...]]:
    """Ranks whose watchdog itself stood still: no timeout of a collective; and the lines that say so."""
    rows = facts["around"].filter(pl.col("event") == "watchdog_stuck")
    ranks = rows.select(pl.coalesce("world_rank", "rank")).to_series().drop_nulls().unique().sort()
    lines = rows.select("source", "line").head(MAX_EVIDENCE)
    return tuple(ranks), tuple(facts.evidence(*at) for at in lines.iter_rows())


@question
def death_follows(facts: Facts) -> bool:
    """Does the first death on record follow from a timeout? The process of a rank that waited, or a launcher's exit
    code after the watchdog fired."""
    first, timeouts = first_death(facts), timed_out(facts)
    if first is None or timeouts is None or first.nature is Nature.STOPPED:
        return False
    if first.nature is Nature.VICTIM:
        return True
    waiting = {str(rank) for one in timeouts.groups for rank in one.waiting}
    began = dict(_rows(facts).group_by("source").agg(pl.col("line").min()).iter_rows())
    return all(
        (death.rank in waiting if death.rank else first.nature is Nature.EXIT)
        and began.get(death.source, death.evidence.line) < death.evidence.line
        for death in first.deaths
    )


@question
def _rows(facts: Facts) -> pl.DataFrame:
    """Lines of the watchdog, with numbers, group and rank as far as they tell."""
    text = pl.col("text").fill_null("")
    op, size = text.str.extract(r"OpType=(\w+)").fill_null(""), text.str.extract(_SIZE)
    even = op.is_in(list(_EVEN)) & size.is_not_null()
    rows = facts["around"].filter(pl.col("event").is_in(_EVENTS)).sort("source", "line")
    rows = rows.with_columns(
        *(text.str.extract(pattern).cast(pl.Int64, strict=False).alias(name) for name, pattern in _FIELDS.items()),
        op=pl.when(even).then(pl.format("{} of size {}", op, size)).otherwise(op),
        at=pl.when(pl.col("event") == "watchdog_status").then(text.str.extract(r"^(\d+)").cast(pl.Int64, strict=False)),
        who=pl.coalesce("world_rank", "rank"),
    )
    # words of an exception repeat a line without the rank of the job
    labelled = rows.filter(pl.col("world_rank").is_not_null()).get_column("source").unique()
    rows = rows.filter(pl.col("world_rank").is_not_null() | ~pl.col("source").is_in(labelled.implode()))
    # the first line names no group, a later one of the same rank and number does
    named = rows.filter(pl.col("group").is_not_null()).with_columns(work=pl.coalesce("seq", "at")).drop_nulls("work")
    named = named.unique(["source", "who", "work"], keep="first", maintain_order=True)
    named = named.select("source", "who", seq="work", of_group="group", of_sure="group_sure")
    return rows.join(named, on=["source", "who", "seq"], how="left", maintain_order="left").with_columns(
        group=pl.coalesce("group", "of_group"), sure=pl.coalesce("group_sure", "of_sure").fill_null(False)
    )


def _positions(rows: pl.DataFrame) -> list[Position] | None:
    """One per rank, by rank. None: the lines of several groups, or of several attempts, are mixed."""
    rows = rows.drop_nulls("who").with_columns(work=pl.coalesce("seq", "at"))
    if rows.height == 0:
        return None
    first = [pl.col(name).drop_nulls().first() for name in ("work", "enqueued", "completed", "source", "line")]
    grouped = rows.group_by("who").agg(
        *first,
        pl.col("rank").drop_nulls().first().alias("member"),
        pl.col("op").filter(pl.col("op") != "").first(),
        pl.col("work").drop_nulls().n_unique().alias("works"),
    )
    members = grouped.get_column("member").drop_nulls()
    if (grouped.get_column("works") > 1).any() or members.n_unique() < members.len():
        return None
    return [
        Position(
            row["who"], row["member"], row["work"], row["op"] or "", row["enqueued"], row["completed"],
            row["source"], row["line"],
        )
        for row in grouped.sort("who").iter_rows(named=True)
    ]  # fmt: skip


def _timeout(
    facts: Facts, group: str, sure: bool, positions: Sequence[Position] | None, rows: pl.DataFrame
) -> Timeout | None:
    waits = [one for one in positions or () if one.work is not None]
    if positions is None or not waits:
        return _unplaced(facts, group, rows, positions is None)
    compared = not any(one.op.split(" ")[0] in _NOT_COMPARED for one in waits)
    work = max(one.work or 0 for one in waits)
    ops = Counter(one.op for one in waits if one.work == work and one.op).most_common(1)
    blank = Timeout(
        group, sure, tuple(one.rank for one in waits), work if compared else None, ops[0][0] if ops else "", (), "",
        None, "", False, False, (), (),
    )  # fmt: skip
    one = _first(facts, blank, positions, work) if compared else blank
    ahead = [place for place in positions if place.rank not in one.first]
    behind = [place for place in positions if place.rank in one.first]
    return _told(facts, one, [(place.source, place.line) for place in (*behind[:2], *ahead)][:MAX_EVIDENCE])


def _unplaced(facts: Facts, group: str, rows: pl.DataFrame, mixed: bool) -> Timeout | None:
    """Ranks that waited, without their positions."""
    fired = rows.filter(pl.col("event") == "watchdog_timeout")
    if fired.height == 0:
        return None
    waiting = fired.get_column("who").drop_nulls().unique().sort()
    ops = fired.get_column("op").unique()
    op = str(ops[0]).split(" ")[0] if len(ops) == 1 else ""
    lines = list(fired.select("source", "line").head(MAX_EVIDENCE).iter_rows())
    return _told(facts, Timeout(group, False, tuple(waiting), None, op, (), "", None, "", False, mixed, (), ()), lines)


def _heard_of(facts: Facts, rows: pl.DataFrame) -> Timeout:
    """Lines of those only that somebody's watchdog called."""
    callers = rows.get_column("caller").drop_nulls().unique().sort()
    lines = list(rows.select("source", "line").head(MAX_EVIDENCE).iter_rows())
    return _told(facts, Timeout("", False, tuple(callers), None, "", (), "", None, "", False, False, (), ()), lines)


def _first(facts: Facts, blank: Timeout, positions: Sequence[Position], work: int) -> Timeout:
    """Who was not where the others are: by the number last called, by the number finished, by the operation."""
    behind = [one for one in positions if one.enqueued is not None and one.enqueued < work]
    how = "behind"
    if not behind:
        how, least = "stuck", min((one.done for one in positions if one.done is not None), default=work)
        behind = [one for one in positions if one.done == least < work - 1]
    if not behind and blank.op:
        how = "other"
        behind = [one for one in positions if one.work == work and one.op and one.op != blank.op]
    if behind and not blank.sure and any(work - (one.work or work) > _NEAR for one in behind):
        return blank
    if behind:
        names = {one.rank for one in behind}
        numbers = [one.enqueued if how == "behind" else one.work for one in behind]
        waiting = tuple(rank for rank in blank.waiting if rank not in names)
        last = min((number for number in numbers if number is not None), default=None)
        return replace(blank, waiting=waiting, first=tuple(sorted(names)), how=how, last=last, last_op=behind[0].op)
    waits = all(one.work == work for one in positions)
    known = _world_size(facts) if blank.group in ("", "0") else 0
    return replace(blank, all_there=blank.sure and waits and len(positions) == known)


def _with_silent(facts: Facts, found: Sequence[Timeout], rows: pl.DataFrame) -> list[Timeout]:
    """Ranks that wait in no group, and that exist by the numbers of others or by NCCL's own lines."""
    numbered = pl.col("world_rank").is_not_null() | (pl.col("group").fill_null("0") == "0")
    seen = set(rows.get_column("who").drop_nulls())
    if not seen or facts.jobs > 1 or not rows.select(numbered.all()).item() or any(one.mixed for one in found):
        return list(found)
    waiting = {rank for one in found for rank in one.waiting}
    total = max(max(seen | waiting) + 1, _world_size(facts))
    if total > 2 * len(waiting):  # the output of most ranks is not there
        return list(found)
    missing = tuple(rank for rank in range(total) if rank not in waiting)
    logged = set(missing) <= seen | _machines(facts).keys()
    if not missing or (2 * len(missing) > len(waiting) and not logged):
        return list(found)
    one = max(found, key=lambda one: len(one.waiting))
    if len(found) > 1:
        one = replace(one, group="", work=None, op="", mixed=True, waiting=tuple(sorted(waiting)))
    return [_seated(facts, replace(one, first=missing, how="silent"))]


def _world_size(facts: Facts) -> int:
    """Ranks of the job by NCCL's own lines, 0 where they do not tell: PyTorch's group 0 is that of all ranks."""
    world = facts.world
    return (world.nranks or 0) if world is not None and facts.jobs <= 1 else 0


def _without(one: Timeout, excused: set[int]) -> Timeout:
    if not excused:
        return one
    left = tuple(rank for rank in one.first if rank not in excused)
    return replace(one, first=left) if left else replace(one, first=(), how="", last=None, last_op="")


def _told(facts: Facts, one: Timeout, lines: Sequence[tuple[int, int]]) -> Timeout:
    return _seated(facts, replace(one, evidence=tuple(facts.evidence(*at) for at in lines)))


def _seated(facts: Facts, one: Timeout) -> Timeout:
    """With the machines of who is meant."""
    seats = _machines(facts)
    return replace(one, machines=tuple(sorted({seats[rank] for rank in one.first or one.waiting if rank in seats})))


@question
def _machines(facts: Facts) -> Mapping[int, str]:
    """Machine of each rank of the job, by its largest communicator."""
    members = facts.members.drop_nulls(["rank", "machine", "nranks"])
    if members.height == 0 or facts.jobs > 1:
        return {}
    largest = members.filter(pl.col("nranks") == pl.col("nranks").max())
    return dict(largest.unique("rank", keep="first", maintain_order=True).select("rank", "machine").iter_rows())
