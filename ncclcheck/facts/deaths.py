"""How processes of a job ended, by what stands around NCCL's records: Python's last words, signals, launchers.

Lines are in order within one input only. Across inputs nothing tells who was first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic


class Nature(Enum):
    """own: something in or about this process itself. victim: it fell with another one, or with NCCL. exit: a
    launcher's word for its exit code, which tells of no reason. stopped: from outside, on purpose.

    In the order in which they are looked at for the first cause.
    """

    OWN = "own"
    VICTIM = "victim"
    EXIT = "exit"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process. what: in words. about: "python", "signal" or "launcher". signal: its number, if any.

    rank: of the job, "" where unknown. machine: "" where unknown. sure: a launcher, the kernel or PyTorch says that the
    process ended; otherwise its last lines do. whole: the error itself is in the input.
    """

    what: str
    nature: Nature
    about: str
    signal: int | None
    rank: str
    machine: str
    sure: bool
    whole: bool
    source: int
    evidence: Evidence


SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
           10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 15: "SIGTERM"}  # fmt: skip
_NUMBERS = {name: number for number, name in SIGNALS.items()}
INT, ABORT, BUS, KILL, TERM = 2, 6, 7, 9, 15
_OUT_OF_MEMORY = "killed for lack of host memory (OOM killer)"

# Slurm's words for a signal.
_SLURM_WORDS = {"killed": KILL, "segmentation fault": 11, "bus error": BUS, "aborted": ABORT, "terminated": TERM,
                "interrupt": INT, "floating point exception": 8, "illegal instruction": 4}  # fmt: skip
# Events that are a signal by themselves.
_SHELL = {"shell_segv": 11, "shell_bus_error": BUS, "shell_abort": ABORT, "shell_killed": KILL}
_FATAL_WORDS = {"segmentation fault": 11, "bus error": BUS, "aborted": ABORT, "illegal instruction": 4}
# Errors of Python that tell of a failure elsewhere.
_VICTIM_NAMES = re.compile(r"Dist(?:Backend|Store|Network)Error|Connection(?:Reset|Refused)?Error|BrokenPipe|Horovod")
_VICTIM_WORDS = re.compile(
    r"nccl|connection (?:reset|closed|refused)|broken pipe|socket timeout|store->|gloo|watchdog|clients joined"
    r"|store based barrier",
    re.I,
)
# Errors by which a parent speaks of its child.
_PARENT_NAMES = re.compile(r"ChildFailedError|CalledProcessError|Process(?:Exited|Raised)Exception|ray\.exceptions")
_STOPPED_NAMES = re.compile(r"KeyboardInterrupt|SignalException")
_PYTHON_MODULES = re.compile(r"^(?:\w+\.)+")

# A traceback longer than this belongs to something else.
_LONGEST_TRACEBACK = 500
# Lines that may follow the last words of a process at the end of its output; a traceback brings its own.
_TAIL, _TAIL_PER_TRACEBACK = 40, 80
# Last words that a launcher's line explains stand this near before it, or before other last words.
_NEAR = 300
_LONGEST_TEXT = 120
_MOST_ROWS = 100_000


@question
def deaths(facts: Traffic) -> tuple[Death, ...]:
    """All ends on record, each input in its order."""
    rows = facts["around"]
    if rows.height == 0:
        return ()
    seats = _Seats(facts)
    found: list[Death] = []
    lines = dict(facts["inputs"].select("source", "lines").iter_rows())
    with_records = {*facts["processes"].drop_nulls("pid").get_column("source")}
    for (source,), part in rows.head(_MOST_ROWS).partition_by("source", as_dict=True, maintain_order=True).items():
        said = list(_Reader(facts, seats, source in with_records).read(part.iter_rows(named=True)))
        outlived = [one for one in said if one.death is None or one.death.sure or not _goes_on(facts, one)]
        found += _believed(outlived, lines.get(source))
    return _told_by_launchers(found)


class _Said(NamedTuple):
    """A death as one line tells it, or a line beside it (None). proc: whose output the line is."""

    line: int
    death: Death | None
    proc: int


class _Seats:
    """Who a pid, a task or a rank is: (rank, machine)."""

    def __init__(self, facts: Traffic) -> None:
        members = facts.members.sort("nranks", descending=True, nulls_last=True)
        of_proc = {proc: (str(rank), machine or "") for proc, rank, machine in
                   members.unique("proc", keep="first", maintain_order=True)
                   .select("proc", "rank", "machine").iter_rows() if rank is not None}  # fmt: skip
        machines = dict(facts.machine_table.iter_rows())
        self.machines = dict(machines)
        self._by_pid: dict[int, set[tuple[str, str]]] = {}
        self._by_task: dict[tuple[int, str], set[tuple[str, str]]] = {}
        self._by_rank: dict[str, set[str]] = {}
        for proc, source, task, host, pid in (
            facts["processes"].select("proc", "source", "task", "host", "pid").iter_rows()
        ):
            seat = of_proc.get(proc, ("", machines.get(proc) or ""))
            if host is not None and pid is not None:
                self._by_pid.setdefault(pid, set()).add(seat)
                if task is not None:
                    self._by_task.setdefault((source, task), set()).add(seat)
        for rank, machine in of_proc.values():
            self._by_rank.setdefault(rank, set()).add(machine)
        self._only = facts.machines[0] if len(facts.machines) == 1 else ""

    def of(self, source: int, task: str | None, rank: int | None, pid: int | None, host: str) -> tuple[str, str]:
        """Rank and machine, as far as they are known; `host` is one that the line itself names."""
        named = "" if rank is None else str(rank)
        for seats in (self._by_pid.get(pid or -1, set()), self._by_task.get((source, task or ""), set())):
            if len(seats) == 1:
                ((seat_rank, machine),) = seats
                return named or seat_rank, host or machine
        machines = self._by_rank.get(named, set())
        return named, host or (next(iter(machines)) if len(machines) == 1 else self._only)


class _Reader:
    """Rows of one input, in its order, to what they say of deaths."""

    def __init__(self, facts: Traffic, seats: _Seats, with_records: bool) -> None:
        self._facts, self._seats, self._with_records = facts, seats, with_records
        processes = facts["processes"]
        self._task = dict(processes.select("proc", "task").iter_rows())
        self._open: dict[int, int] = {}  # traceback under way, by process
        self._aside: dict[int, int] = {}
        self._block: dict[str, Any] = {}  # of a launcher, over several lines

    def read(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[_Said]:
        for row in rows:
            event, proc, line = row["event"], row["proc"], row["line"]
            if event == "python_aside":
                self._aside[proc] = line
            elif event == "python_traceback":
                aside = line - self._aside.get(proc, -9) <= 2
                self._open.pop(proc, None)
                if not aside:
                    self._open[proc] = line
                    yield _Said(line, None, proc)
            elif event == "python_error":
                begun = self._open.pop(proc, None)
                if row["rank_label"] or (begun is not None and line - begun <= _LONGEST_TRACEBACK):
                    yield _Said(line, self._python(row), proc)
            elif death := self._other(row):
                yield _Said(line, death, proc)
        for proc, line in self._open.items():
            yield _Said(line, self._death({"proc": proc, "line": line, "source": self._source_of(proc)},
                                          "an exception of Python", Nature.OWN, "python",
                                          sure=False, whole=False), proc)  # fmt: skip

    def _source_of(self, proc: int) -> int:
        return int(self._facts["processes"].row(by_predicate=_is(proc), named=True)["source"])

    def _python(self, row: Mapping[str, Any]) -> Death:
        name, text = row["exception"] or "", row["text"] or ""
        of_child = re.search(r"Signals\.(SIG\w+)", text)  # subprocess.CalledProcessError
        if of_child and of_child[1] in _NUMBERS:
            return self._signal(row, _NUMBERS[of_child[1]])
        short = _PYTHON_MODULES.sub("", name)
        shown = text[:_LONGEST_TEXT].strip()
        what = f"{short}: {shown}" if shown else short
        if _STOPPED_NAMES.search(name) or "got signal" in text:
            nature = Nature.STOPPED
        elif _PARENT_NAMES.search(name):
            nature = Nature.EXIT
        elif _VICTIM_NAMES.search(name) or _VICTIM_WORDS.search(text):
            nature = Nature.VICTIM
        else:
            nature = Nature.OWN
        return self._death(row, what, nature, "python", sure=bool(row["rank_label"]))

    def _other(self, row: Mapping[str, Any]) -> Death | None:
        event, text = row["event"], row["text"] or ""
        if event in _SHELL:
            return self._signal(row, _SHELL[event])
        if event == "python_fatal":
            signal = _FATAL_WORDS.get(text.lower())
            return self._signal(row, signal) if signal else self._death(row, f"Python: {text}", Nature.OWN, "signal")
        if event == "cpp_terminate":
            nature = Nature.VICTIM if _VICTIM_NAMES.search(text) else Nature.OWN
            return self._death(row, f"an exception of C++, {text.strip(chr(39))}", nature, "signal", ABORT)
        if event in ("mpi_signal", "mpi_noticed", "jsrun_noticed", "elastic_signalled"):
            return self._signal(row, row["signal"])
        if event == "named_signal":
            return self._signal(row, _NUMBERS.get(f"SIG{row['word']}"))
        if event in ("lightning_ended", "lsf_exit"):
            return self._exit(row, row["code"])
        if event == "lsf_limit":
            return self._lsf(row, text)
        if event == "oom_killed":
            return self._out_of_memory(row) if self._with_records or self._knows(row["pid"]) else None
        if event in ("slurm_oom", "kube_oom"):
            return self._out_of_memory(row)
        if event == "srun_error":
            return self._slurm(row, text)
        if event == "slurm_cancelled":
            return self._cancelled(row, text)
        if event == "test_failed":
            return self._death(row, f"nccl-tests stopped: {text[:_LONGEST_TEXT]}", Nature.VICTIM, "python")
        if event == "mpi_abort":
            return self._death(row, "MPI_Abort", Nature.EXIT, "launcher")
        if event == "ray_worker_died":
            return self._ray(row, text)
        return self._of_a_block(row, text)

    def _of_a_block(self, row: Mapping[str, Any], text: str) -> Death | None:
        """Lines of launchers of which several belong together: who, and then how."""
        event = row["event"]
        if event in ("elastic_host", "elastic_rank", "mpi_process", "hydra_process"):
            about = {"host": text} if event == "elastic_host" else {"rank": row["rank"], "pid": row["pid"]}
            if event == "mpi_process":
                last = re.search(r"[,@](\d+)\]$", text)
                about = {"rank": int(last[1])} if last else {}
            if event == "hydra_process":
                about["host"] = text
            self._block |= {name: value for name, value in about.items() if value is not None}
            return None
        if event in ("elastic_exit", "elastic_failed", "mpi_exit", "hydra_exit", "deepspeed_exit", "horovod_exit",
                     "kube_exit", "spawn_ended"):  # fmt: skip
            merged = {**row, **{name: value for name, value in self._block.items() if row.get(name) is None}}
            self._block = {}
            if event == "spawn_ended":
                return self._spawned(merged, text)
            return self._signal(merged, row["signal"]) if row["signal"] else self._exit(merged, row["code"])
        return None

    def _spawned(self, row: Mapping[str, Any], text: str) -> Death | None:
        named = re.search(r"signal (SIG\w+)", text)
        signal = _NUMBERS.get(named[1]) if named else None
        code = re.search(r"exit code (-?\d+)", text)
        if signal:
            return self._signal(row, signal)
        return self._exit(row, int(code[1]) if code else 1)

    def _slurm(self, row: Mapping[str, Any], text: str) -> Death | None:
        first = re.match(r"\d+", row["tasks"] or "")
        row = {**row, "rank": int(first[0])} if first and (row["tasks"] or "").isdigit() else row
        code = re.search(r"exit code (\d+)", text)
        if code:
            return self._exit(row, int(code[1]))
        words = text.lower().partition(" (core")[0].strip()
        if "out of memory" in words:
            return self._out_of_memory(row)
        signal = _SLURM_WORDS.get(words)
        return self._signal(row, signal) if signal else None

    def _cancelled(self, row: Mapping[str, Any], text: str) -> Death | None:
        if "CANCELLED" not in text:
            return None
        reason = re.search(r"DUE TO ([A-Z ]+?)(?: \*|,|$)", text)
        words = reason[1].strip().lower() if reason else ""
        faults = ("preempt", "node fail")
        nature = Nature.OWN if words.startswith(faults) else Nature.STOPPED
        return self._death(row, f"cancelled by Slurm{f' ({words})' if words else ''}", nature, "launcher")

    def _lsf(self, row: Mapping[str, Any], text: str) -> Death | None:
        if row["word"] in ("MEMLIMIT", "SWAP"):
            return self._out_of_memory(row)
        nature = Nature.OWN if row["word"] == "PREEMPT" else Nature.STOPPED
        return self._death(row, f"ended by LSF ({text[:_LONGEST_TEXT]})", nature, "launcher")

    def _ray(self, row: Mapping[str, Any], text: str) -> Death:
        if "low on memory" in text or "OUT_OF_MEMORY" in text or row["text"] is None:
            return self._out_of_memory(row)
        pid = re.search(r"Worker PID: (\d+)", text)
        kind = re.search(r"Worker exit type: (\w+)", text)
        row = {**row, "pid": int(pid[1])} if pid else row
        return self._death(row, f"a worker of Ray died{f' ({kind[1]})' if kind else ''}", Nature.OWN, "launcher")

    def _exit(self, row: Mapping[str, Any], code: int | None) -> Death | None:
        if not code:
            return None
        signal = -code if -64 < code < 0 else code - 128 if 128 < code < 128 + 64 else None
        if signal in SIGNALS:
            return self._signal(row, signal)
        return self._death(row, f"exit code {code}", Nature.EXIT, "launcher")

    def _signal(self, row: Mapping[str, Any], signal: int | None) -> Death:
        name = SIGNALS.get(signal or 0, "a signal")
        nature = Nature.STOPPED if signal in (INT, TERM, 1) else Nature.OWN
        return self._death(row, f"{name} ({signal})" if signal else name, nature, "signal", signal)

    def _out_of_memory(self, row: Mapping[str, Any]) -> Death:
        return self._death(row, _OUT_OF_MEMORY, Nature.OWN, "signal", KILL)

    def _knows(self, pid: int | None) -> bool:
        return pid is not None and self._facts["processes"].filter(_is(pid, "pid")).height > 0

    def _death(
        self,
        row: Mapping[str, Any],
        what: str,
        nature: Nature,
        about: str,
        signal: int | None = None,
        sure: bool = True,
        whole: bool = True,
    ) -> Death:
        host = row.get("host") or ""
        host = host.partition(".")[0] if re.fullmatch(r"[\w.-]+", host) else ""  # Slurm folds several into one word
        source, proc = row["source"], row["proc"]
        rank, machine = self._seats.of(source, self._task.get(proc), row.get("rank"), row.get("pid"), host)
        where = self._facts.evidence(source, row["line"])
        machine = machine or self._seats.machines.get(proc) or ""
        return Death(what, nature, about, signal, rank, machine, sure, whole, source, where)


def _goes_on(facts: Traffic, said: _Said) -> bool:
    """Does everybody who may have printed this line (all of its label, or of the input) build up NCCL after it?"""
    processes = facts["processes"].drop_nulls("pid")
    who = facts["processes"].filter(_is(said.proc)).select("source", "task", "label_host")
    fellows = processes.join(who, on=["source", "task", "label_host"], nulls_equal=True)
    if fellows.height == 0 and who.get_column("task").item() is None:
        fellows = processes.join(who, on="source")
    last = fellows.join(_last_steps(facts), on="proc", how="left").get_column("line")
    return len(last) > 0 and bool((last.fill_null(0) > said.line).all())


@question
def _last_steps(facts: Traffic) -> pl.DataFrame:
    """`proc` and the last `line` of what a process prints on its way up."""
    steps = [facts[name].select("proc", "line") for name in ("interfaces", "networks", "inits", "rings", "connected")]
    steps += [facts["channels"].select("proc", "line"), facts["edges"].select("proc", line=pl.col("lines").list.max())]
    return pl.concat(steps).group_by("proc").agg(pl.col("line").max())


def _believed(said: Sequence[_Said], lines: int | None) -> Iterator[Death]:
    """Exceptions that somebody caught are left out: nothing about them says that a process ended."""
    kept: list[Death] = []
    near, certain, tracebacks = None, False, 0
    for one in reversed(said):
        if one.death is None:
            tracebacks += 1
            near = one.line if near is not None and near - one.line <= _NEAR else near
            continue
        beside = near is not None and near - one.line <= _NEAR
        at_end = lines is not None and lines - one.line <= _TAIL + _TAIL_PER_TRACEBACK * tracebacks
        if not (one.death.sure or beside or at_end):
            continue
        certain = one.death.sure or (certain and beside)
        kept.append(replace(one.death, sure=certain))
        near = one.line
    return reversed(kept)


def _told_by_launchers(found: Sequence[Death]) -> tuple[Death, ...]:
    """Last words without a rank are those of the rank that a launcher names next, if it fits the signal."""
    told: list[Death] = []
    named: dict[tuple[int, int | None], Death] = {}
    for death in reversed(found):
        fits = named.get((death.source, death.signal))
        if death.rank and death.about != "python":
            named[death.source, death.signal] = death
        elif not death.rank and fits is not None:
            death = replace(death, rank=fits.rank, machine=death.machine or fits.machine)
        told.append(death)
    return tuple(reversed(told))


class FirstDeath(NamedTuple):
    """Who ended first, of each input that tells. nature: of all of them. later: how many more ends are on record."""

    nature: Nature
    deaths: tuple[Death, ...]
    later: int


@question
def first_death(facts: Traffic) -> FirstDeath | None:
    """The end with which it began: one with a reason of its own before one that follows from another."""
    found = deaths(facts)
    if not found:
        return None
    watched = facts["around"].filter(pl.col("event").str.starts_with("watchdog")).height > 0
    ranked = tuple(_in_their_turn(found, watched or any(one.nature is Nature.VICTIM for one in found)))
    for nature in Nature:
        chosen = [one for one in ranked if one.nature is nature]
        if chosen:
            firsts = tuple({one.source: one for one in reversed(chosen)}.values())[::-1]
            return FirstDeath(nature, firsts, len(found) - len(firsts))
    return None


def ended_well(facts: Traffic) -> bool:
    """Did some rank close its communicator as one does at the end of a program?"""
    return facts["ends"].filter(pl.col("kind").is_null() | (pl.col("kind") == "Destroy")).height > 0


def _in_their_turn(found: Sequence[Death], failed_elsewhere: bool) -> Iterator[Death]:
    """What follows from another end: an abort after an error of NCCL, an exit code after an order to stop, and who is
    killed after anybody but one who lost its peer."""
    before: set[int] = set()
    ordered: set[int] = set()
    for one in found:
        if one.nature is Nature.STOPPED and one.about != "signal":
            ordered.add(one.source)
        if one.nature is Nature.EXIT and one.source in ordered:
            one = replace(one, nature=Nature.STOPPED)
        elif one.nature is Nature.OWN and one.signal == ABORT and failed_elsewhere:
            one = replace(one, nature=Nature.VICTIM)
        elif one.signal == KILL and one.what != _OUT_OF_MEMORY and one.source in before:
            one = replace(one, nature=Nature.STOPPED)
        elif one.nature is not Nature.VICTIM:
            before.add(one.source)
        yield one


def _is(value: int, column: str = "proc") -> pl.Expr:
    return pl.col(column) == value
