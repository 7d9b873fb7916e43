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
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import Process
from pathlib import Path
from statistics import median

from generate import Shape, write
from loggen.calls import call_lines

ROOT = Path(__file__).resolve().parent.parent
README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- benchmark table: begin -->", "<!-- benchmark table: end -->"

IMPORTS = [sys.executable, "-c", "import polars, lark, rich"]
FINISHED = (0, 1)  # exit codes of a check that read its input: nothing found, something found

TARGET_LARK = 25.0
TARGET_RIVAL = 10.0
TARGET_SCAN = 50.0
TARGET_RECORDS_PER_S = 1e6
TARGET_CLOCK = 1.2
TARGET_START = 2.2
TARGET_FILES = 2.0
TARGET_QUERY_S = 1.0
TARGET_MB_OVER_FILE = 400


@dataclass
class Run:
    """One finished process."""

    seconds: float
    peak_mib: float
    output: str
    problem: str = ""


@dataclass
class Plan:
    """small, large: lines of the two logs of each kind. logs: by kind, small and large.

    Start, and what the number of ranks costs whatever they print, is taken off by the difference of the two.
    """

    machines: int = 1024
    small: int = 500_000
    large: int = 5_000_000
    rounds: int = 3
    start_rounds: int = 15
    sample: int = 20_000
    logs: dict[str, tuple[Path, Path]] = field(default_factory=dict)


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


def scan(path: Path) -> Run:
    """What Polars takes for one look at every line."""
    return _timed_inside("scan", path)


def rival(path: Path) -> Run:
    """`xcl-lens` of PyPI, from start to report."""
    return execute([str(shutil.which("xcl-lens")), "--summary", str(path)])


def lark(path: Path, sample: int) -> Run:
    """Lark, record by record, on a sample of the same log."""
    return _timed_inside("lark", path, str(sample))


def _timed_inside(*arguments: object) -> Run:
    run = execute([sys.executable, __file__, "--inside", *map(str, arguments)])
    if not run.problem:
        run.seconds = json.loads(run.output)["seconds_per_line"]
    return run


def inside(what: str, path: str, sample: str = "0") -> None:
    """The measuring half of `read`, `scan` and `lark`: prints the seconds per line."""
    per_line = {"reader": _inside_reader, "scan": _inside_scan}.get(what, lambda path: _inside_lark(path, int(sample)))
    print(json.dumps({"seconds_per_line": per_line(path)}))


def _inside_reader(path: str) -> float:
    from ncclcheck.inputs.source import file_source
    from ncclcheck.readers.events import read_events
    from ncclcheck.readers.nccl_log import WANTED

    start = time.perf_counter()
    events = read_events([file_source(path, path)], WANTED)
    return (time.perf_counter() - start) / events.counts[0].lines


def _inside_scan(path: str) -> float:
    import polars as pl

    start = time.perf_counter()
    found = pl.scan_lines(path, name="text").select(pl.col("text").str.contains("NCCL", literal=True)).collect()
    return (time.perf_counter() - start) / found.height


def _inside_lark(path: str, sample: int) -> float:
    """The prefix is cut off beforehand, so that only the parsing of messages counts."""
    from ncclcheck.readers.grammar import DirectParser

    message = re.compile(r" NCCL (?:INFO|WARN) (.+)$", re.M)
    with Path(path).open(encoding="utf-8") as file:
        lines = file.readlines()
    every = max(1, len(lines) // sample)
    messages = [found[1] for line in lines[::every] if (found := message.search(line))]
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
    """Write the logs; returns the one of a single 8-GPU machine.

    In a process of its own: the peak memory that a process reports is at least that of the one that started it.
    """
    for kind in KINDS:
        plan.logs[kind] = (folder / f"{kind}-{plan.small}.log", folder / f"{kind}-{plan.large}.log")
    single = folder / "one-machine.log"
    writer = Process(target=_write_logs, args=(plan, single))
    writer.start()
    writer.join()
    if writer.exitcode:
        raise SystemExit("the logs could not be written")
    return single


def _write_logs(plan: Plan, single: Path) -> None:
    for turn, size in enumerate((plan.small, plan.large)):
        alone = plan.logs["nccl"][turn]
        write(Shape(machines=plan.machines, lines=size), alone)
        write(Shape(machines=plan.machines, lines=size, other=0.5), plan.logs["half"][turn])
        _with_clock(alone, plan.logs["clock"][turn])
        with plan.logs["calls"][turn].open("w", encoding="utf-8", buffering=1 << 20) as file:
            file.writelines(f"{line}\n" for line in call_lines(64, size))
    write(Shape(machines=1), single)


def _with_clock(path: Path, stamped: Path) -> None:
    """The same log with NCCL_DEBUG_TIMESTAMP_LEVELS=INFO, to the microsecond: no two lines begin alike."""
    with path.open(encoding="utf-8") as source, stamped.open("w", encoding="utf-8", buffering=1 << 20) as target:
        for number, line in enumerate(source):
            second, micros = divmod(number * 450, 1_000_000)
            minute = 10 * 60 + second // 60
            clock = f"{minute // 60:02d}:{minute % 60:02d}:{second % 60:02d}.{micros:06d}"
            target.write(f"[2026-03-05 {clock}] {line}")


def count_lines(path: Path, word: bytes = b"") -> int:
    with path.open("rb") as file:
        return sum(word in line for line in file)


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
    return f"{'at least' if at_least else 'at most'} {limit:,.6g}: {'met' if met else '**missed**'}"


def reader_speed(plan: Plan) -> list[Row]:
    """The reader and what else reads logs, per line of the same log."""
    path = plan.logs["nccl"][1]
    takes = {"Lark": lambda: lark(path, plan.sample), "scan": lambda: scan(path), "reader": lambda: read(path)}
    runs = measure(plan.rounds, takes)
    faster, slower = ratio(runs["Lark"], runs["reader"]), ratio(runs["reader"], runs["scan"])
    return [
        Row(f"Lark, record by record ({plan.sample:,} records)", f"{1 / seconds(runs['Lark']):,.0f} lines/s"),
        Row("`pl.scan_lines(...).select(contains).collect()`", f"{1 / seconds(runs['scan']):,.0f} lines/s"),
        Row(
            "reader",
            f"{1 / seconds(runs['reader']):,.0f} lines/s",
            f"{faster:.0f} x Lark; {slower:.0f} x the time of the scan",
            f"{verdict(faster, TARGET_LARK, True)}; {verdict(slower, TARGET_SCAN, False)}",
        ),
    ]


# What the logs of a kind hold beside NCCL's lines.
KINDS = {"nccl": "NCCL alone", "half": "half training output", "clock": "a clock on every line", "calls": "COLL"}


def check_speed(plan: Plan) -> list[Row]:
    """The whole program on two sizes of each kind of log, in turns."""
    takes: dict[str, Callable[[], Run]] = {}
    for kind, logs in plan.logs.items():
        for size, path in zip(("small", "large"), logs, strict=True):
            takes[f"{kind} {size}"] = lambda path=path: check(path)
    takes["Lark"] = lambda: lark(plan.logs["nccl"][1], plan.sample)
    if shutil.which("xcl-lens"):
        takes["rival"] = lambda: rival(plan.logs["nccl"][0])
    runs = measure(plan.rounds, takes)
    rows, per_record = [], {}
    for kind, (small, large) in plan.logs.items():
        records = count_lines(large, b"NCCL ") - count_lines(small, b"NCCL ")
        differences = [b.seconds - a.seconds for a, b in zip(runs[f"{kind} small"], runs[f"{kind} large"], strict=True)]
        per_record[kind] = [difference / records for difference in differences]
        speed = 1 / median(per_record[kind])
        row = Row(f"`check`, {KINDS[kind]}", f"{speed:,.0f} NCCL lines/s")
        if kind == "nccl":
            quotient = median(a.seconds / b for a, b in zip(runs["Lark"], per_record[kind], strict=True))
            row.ratio = f"{quotient:.0f} x Lark"
        if kind in ("nccl", "half"):
            row.target = verdict(speed, TARGET_RECORDS_PER_S, True)
        if kind == "clock":
            quotient = median(a / b for a, b in zip(per_record["clock"], per_record["nccl"], strict=True))
            row.ratio, row.target = f"{quotient:.2f} x the time without", verdict(quotient, TARGET_CLOCK, False)
        rows.append(row)
        rows.append(_memory(f"peak memory, {KINDS[kind]}", runs[f"{kind} large"], large))
    if "rival" in runs:
        lines = count_lines(plan.logs["nccl"][0])
        taken = [run.seconds / lines for run in runs["rival"]]
        quotient = median(a / b for a, b in zip(taken, per_record["nccl"], strict=True))
        row = Row(f"`xcl-lens --summary`, {lines:,} lines", f"{1 / median(taken):,.0f} lines/s")
        row.ratio, row.target = f"`check` is {quotient:.0f} x as fast", verdict(quotient, TARGET_RIVAL, True)
        rows.append(row)
    return rows


def _memory(what: str, runs: list[Run], path: Path) -> Row:
    peak, size = median(run.peak_mib for run in runs) * 2**20 / 1e6, path.stat().st_size / 1e6
    return Row(
        what, f"{peak:,.0f} MB, log of {size:,.0f} MB", "", verdict(peak, round(size) + TARGET_MB_OVER_FILE, False)
    )


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


def write_queries(path: Path, lines: int) -> None:
    """`nvidia-smi -q` of as many GPUs as it takes: blocks of a fixture, each with an address of its own."""
    source = ROOT / "fixtures" / "telemetry" / "nvidia-smi-q" / "hgx-two-gpus-new-names.txt"
    head, *gpus = re.split(r"(?m)^(?=GPU [0-9A-F]{8}:)", source.read_text(encoding="utf-8"))
    text, number = [head], 0
    while lines > sum(part.count("\n") for part in text[-len(gpus) :]) * number / len(gpus):
        address = f"GPU {number >> 8:08X}:{number & 0xFF:02X}:00.0"
        block = re.sub(r"^GPU \S+", address, gpus[number % len(gpus)])
        text.append(re.sub(r"GPU-[0-9a-f]{8}", f"GPU-{number:08x}", block))
        number += 1
    path.write_text("".join(text), encoding="utf-8")


def queries(plan: Plan, single: Path, path: Path) -> list[Row]:
    """A long output of a tool; what `check` takes for a short log is taken off."""
    write_queries(path, 10_000 if plan.rounds == 1 else 100_000)
    runs = measure(plan.rounds, {"start": lambda: check(single), "query": lambda: check(path)})
    taken = median(b.seconds - a.seconds for a, b in zip(runs["start"], runs["query"], strict=True))
    return [
        Row(
            f"`check`, `nvidia-smi -q` of {count_lines(path):,} lines",
            f"{taken:.2f} s beyond a short log",
            f"{ratio(runs['query'], runs['start']):.2f} x the short log",
            verdict(taken, TARGET_QUERY_S, False),
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
    quick = Plan(machines=16, small=20_000, large=100_000, rounds=1, start_rounds=5, sample=4_000)
    plan = quick if options.quick else Plan()
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
            lambda: small_files(plan, many, each),
            lambda: queries(plan, single, Path(folder) / "query.txt"),
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
