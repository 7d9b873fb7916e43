"""Measure ncclcheck on this machine and print the table: `python benchmarks/run.py [--quick] [--write]`.

Everything is a ratio of things measured in the same run, taken in turns, medians of several rounds: the numbers of one
machine say little about another, and one machine is not the same from minute to minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from generate import Shape, machines_for, write

ROOT = Path(__file__).resolve().parent.parent
README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- benchmark table: begin -->", "<!-- benchmark table: end -->"

IMPORTS = [sys.executable, "-c", "import polars, lark, rich"]
FINISHED = (0, 1)  # exit codes of a check that read its input: nothing found, something found

TARGET_LARK = 15.0
FULL_SIZE = 1_000_000
TARGET_GROWTH = 1.0
TARGET_START = 2.2
TARGET_FILES = 2.0


@dataclass
class Run:
    """One finished process."""

    seconds: float
    peak_mib: float
    output: str
    problem: str = ""


@dataclass
class Plan:
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    rounds: int = 3
    start_rounds: int = 15
    sample: int = 20_000
    files: dict[int, Path] = field(default_factory=dict)

    @property
    def largest(self) -> int:
        return self.sizes[-1]


class UnavailableError(Exception):
    """What was to be measured does not run."""


def execute(command: Sequence[str], good: Sequence[int] = (0,)) -> Run:
    """Run a command to its end, with its wall time and its peak memory."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode beside it
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said = err.read().decode(errors="replace").strip().splitlines()
        problem = "" if code in good else f"exit {code}: {said[-1] if said else 'no message'}"
        unit = 1 << 20 if sys.platform == "darwin" else 1 << 10  # ru_maxrss is in bytes there, in KiB on Linux
        return Run(seconds, usage.ru_maxrss / unit, out.read().decode(errors="replace"), problem)


# -- what is measured


def check(path: Path) -> Run:
    """The whole program, from start to report."""
    output = ["--output-format", "json", "--output-file", os.devnull]
    return execute([sys.executable, "-m", "ncclcheck", "check", *output, str(path)], FINISHED)


def bare_imports(_: Path) -> Run:
    return execute(IMPORTS)


def read(path: Path) -> Run:
    """The reader alone, in a process of its own that times itself: imports and start do not count."""
    return _timed_inside("reader", path)


def lark(path: Path, sample: int) -> Run:
    """Lark, record by record, on a sample of the same log."""
    return _timed_inside("lark", path, str(sample))


def _timed_inside(*arguments: object) -> Run:
    run = execute([sys.executable, __file__, "--inside", *map(str, arguments)])
    if not run.problem:
        run.seconds = json.loads(run.output)["seconds_per_line"]
    return run


def inside(what: str, path: str, sample: str = "0") -> None:
    """The measuring half of `read` and `lark`: prints the seconds per line."""
    per_line = _inside_reader(path) if what == "reader" else _inside_lark(path, int(sample))
    print(json.dumps({"seconds_per_line": per_line}))


def _inside_reader(path: str) -> float:
    from ncclcheck.inputs.source import file_source
    from ncclcheck.readers.events import read_events

    start = time.perf_counter()
    events = read_events([file_source(path, path)])
    return (time.perf_counter() - start) / events.counts[0].lines


def _inside_lark(path: str, sample: int) -> float:
    """The prefix is cut off beforehand, so that only the parsing of messages counts."""
    from ncclcheck.readers.grammar import DirectParser

    message = re.compile(r" NCCL (?:INFO|WARN) (.+)$", re.M)
    with Path(path).open(encoding="utf-8") as file:
        messages = message.findall(file.read())
    messages = messages[:: max(1, len(messages) // sample)]
    parser = DirectParser()
    parser.parse(messages[0])
    start = time.perf_counter()
    for text in messages:
        parser.parse(text)
    return (time.perf_counter() - start) / len(messages)


# -- the run


def split(whole: Path, folder: Path) -> None:
    """A file per process, as NCCL_DEBUG_FILE writes them."""
    folder.mkdir()
    process = re.compile(r"(\S+?):(\d+):\d+ \[")
    lines: dict[str, list[str]] = {}
    with whole.open(encoding="utf-8") as file:
        for line in file:
            found = process.match(line)
            lines.setdefault(f"{found[1]}.{found[2]}" if found else "stdout", []).append(line)
    for name, own in lines.items():
        (folder / f"{name}.log").write_text("".join(own), encoding="utf-8")


def prepare(plan: Plan, folder: Path) -> Path:
    """Write the logs; returns the one of a single 8-GPU machine."""
    for size in plan.sizes:
        plan.files[size] = folder / f"{size}.log"
        write(Shape(machines=machines_for(size), lines=size), plan.files[size])
    single = folder / "one-machine.log"
    write(Shape(machines=1), single)
    return single


def measure(rounds: int, takes: dict[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Every take once, in turn, `rounds` times, after one round that does not count."""
    runs: dict[str, list[Run]] = {name: [] for name in takes}
    for name, take in takes.items():
        take_once(name, take)
    for number in range(rounds):
        order = list(takes)
        for name in order if number % 2 == 0 else reversed(order):
            runs[name].append(take_once(name, takes[name]))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return runs


def take_once(name: str, take: Callable[[], Run]) -> Run:
    run = take()
    if run.problem:
        raise UnavailableError(f"{name}: {run.problem}")
    return run


def ratio(above: list[Run], below: list[Run]) -> float:
    """Median of the quotients of neighbours in time."""
    return median(a.seconds / b.seconds for a, b in zip(above, below, strict=True))


def seconds(runs: list[Run]) -> float:
    return median(run.seconds for run in runs)


@dataclass
class Row:
    what: str
    measured: str
    ratio: str = ""
    target: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.measured} | {self.ratio} | {self.target} |"


def verdict(value: float, limit: float, at_least: bool) -> str:
    met = value >= limit if at_least else value <= limit
    return f"{'at least' if at_least else 'at most'} {limit:g}: {'met' if met else '**missed**'}"


def reader_speed(plan: Plan) -> list[Row]:
    path = plan.files[plan.largest]
    runs = measure(plan.rounds, {"Lark": lambda: lark(path, plan.sample), "reader": lambda: read(path)})
    quotient = ratio(runs["Lark"], runs["reader"])
    return [
        Row(f"Lark, record by record ({plan.sample:,} records)", f"{1 / seconds(runs['Lark']):,.0f} lines/s"),
        Row(
            f"reader, {plan.largest:,} lines",
            f"{1 / seconds(runs['reader']):,.0f} lines/s",
            f"{quotient:.1f} x Lark",
            verdict(quotient, TARGET_LARK, True),
        ),
    ]


def check_speed(plan: Plan) -> list[Row]:
    path, lines = plan.files[plan.largest], plan.largest
    runs = measure(plan.rounds, {"Lark": lambda: lark(path, plan.sample), "check": lambda: check(path)})
    quotient = ratio(runs["Lark"], runs["check"]) * lines
    return [
        Row(
            f"whole `check`, {lines:,} lines",
            f"{lines / seconds(runs['check']):,.0f} lines/s",
            f"{quotient:.1f} x Lark",
            verdict(quotient, TARGET_LARK, True) if lines >= FULL_SIZE else "none: the start weighs too much",
        )
    ]


def growth(plan: Plan) -> list[Row]:
    runs = measure(plan.rounds, {f"check, {n:,} lines": lambda n=n: check(plan.files[n]) for n in plan.sizes})
    rows = []
    before: tuple[int, list[Run]] | None = None
    for size, found in zip(plan.sizes, runs.values(), strict=True):
        row = Row(f"`check`, {size:,} lines", f"{seconds(found):.2f} s, {size / seconds(found):,.0f} lines/s")
        if before:
            quotient = ratio(found, before[1]) / (size / before[0])
            row.ratio = f"{quotient:.2f} x the time per line of {before[0]:,}"
            row.target = verdict(quotient, TARGET_GROWTH, False)
        rows.append(row)
        memory, log = median(run.peak_mib for run in found), plan.files[size].stat().st_size / 2**20
        rows.append(Row(f"peak memory, {size:,} lines", f"{memory:,.0f} MiB", f"log of {log:.1f} MiB"))
        before = size, found
    return rows


def small_files(plan: Plan, whole: Path, folder: Path) -> list[Row]:
    takes = {"files": lambda: check(folder), "one": lambda: check(whole)}
    runs = measure(plan.rounds, takes)
    quotient = ratio(runs["files"], runs["one"])
    return [
        Row(
            f"`check` on {len(list(folder.iterdir()))} files of one process each",
            f"{seconds(runs['files']):.2f} s",
            f"{quotient:.2f} x the same lines in one file",
            verdict(quotient, TARGET_FILES, False),
        )
    ]


def start(plan: Plan, single: Path) -> list[Row]:
    takes = {"imports": lambda: bare_imports(single), "check": lambda: check(single)}
    runs = measure(plan.start_rounds, takes)
    quotient = ratio(runs["check"], runs["imports"])
    with single.open(encoding="utf-8") as file:
        lines = sum(1 for _ in file)
    peak = median(run.peak_mib for run in runs["check"])
    return [
        Row('`python -c "import polars, lark, rich"`', f"{1000 * seconds(runs['imports']):.0f} ms"),
        Row(
            f"`check` on one 8-GPU machine ({lines} lines)",
            f"{1000 * seconds(runs['check']):.0f} ms, {peak:,.0f} MiB",
            f"{quotient:.2f} x the imports",
            verdict(quotient, TARGET_START, False),
        ),
    ]


def table(rows: Sequence[Row], plan: Plan) -> str:
    import polars

    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}, Polars {polars.__version__}"
    head = Row("what", "measured", "ratio", "target")
    note = f"Medians of {plan.rounds} rounds ({plan.start_rounds} for the start), taken in turns; {machine}."
    return "\n".join([str(head), "| --- | --- | --- | --- |", *map(str, rows), "", note])


def put_into_readme(text: str) -> None:
    page = README.read_text(encoding="utf-8")
    before, found, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found and found_end):
        raise SystemExit(f"{README}: no place for the table between {BEGIN} and {END}")
    README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure ncclcheck on this machine.")
    parser.add_argument("--quick", action="store_true", help="small logs and few rounds: does it run at all")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(*options.inside)
        return 0
    plan = Plan(sizes=(10_000, 100_000), rounds=1, start_rounds=5, sample=4_000) if options.quick else Plan()
    rows: list[Row] = []
    complete = True
    with tempfile.TemporaryDirectory() as folder:
        single = prepare(plan, Path(folder))
        many, each = Path(folder) / "many.log", Path(folder) / "processes"
        write(Shape(machines=8 if options.quick else 32), many)
        split(many, each)
        parts = (
            lambda: start(plan, single),
            lambda: reader_speed(plan),
            lambda: check_speed(plan),
            lambda: growth(plan),
            lambda: small_files(plan, many, each),
        )
        for part in parts:
            try:
                rows += part()
            except UnavailableError as error:
                complete = False
                print(f"not measured: {error}", file=sys.stderr)
    text = table(rows, plan)
    print(text)
    if options.write and complete:
        put_into_readme(text)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
