"""The picture of the job, as text: what NCCL decided, before anybody judges it."""

from __future__ import annotations

from collections.abc import Sequence

from ncclcheck.engine.report import InputSummary, Measurement, Report
from ncclcheck.estimate.quantities import size_text, with_range
from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.picture import ChoiceKind, CommunicatorKind, GpuRow, JobPicture, MachineKind, OperationKind
from ncclcheck.report.hosts import fold
from ncclcheck.report.machines import write_machines
from ncclcheck.report.numbers import counted
from ncclcheck.report.page import Page
from ncclcheck.report.step import write_step

_INPUTS_SHOWN = 4
_KINDS_SHOWN = 4
_GPUS_SHOWN = 16
_COMMUNICATORS_SHOWN = 6
_OPERATIONS_SHOWN = 3
_GPU_WIDTH = 20
_MEASUREMENTS_SHOWN = 3


def write_job(page: Page, report: Report, verbose: bool, explain: bool) -> None:
    """Inputs, the job in a line, its communicators, what they are called for, and a table per kind of machine."""
    _write_inputs(page, report.inputs, verbose)
    if report.site:
        page.labelled("site", report.site, indent=0)
    job = report.job
    facts = [part for part in _facts(job) if part]
    if not facts:
        page.labelled("job", "nothing in the input tells of one", indent=0)
        _write_measurements(page, report.measurements, job, verbose)
        write_machines(page, report.nearness, report.contradictions, verbose)
        return
    page.labelled("job", ("; ".join(facts), "bold"), indent=0)
    if job.communicators:
        words = [_communicators(kind) for kind in job.communicators]
        page.labelled("comms", _first(words, "shapes", None if verbose else _COMMUNICATORS_SHOWN), indent=0)
    if job.operations:
        words = [_operation(kind) for kind in job.operations]
        page.labelled("calls", _first(words, "kinds", None if verbose else _OPERATIONS_SHOWN), indent=0)
    if job.choices:
        words = [_choice(kind) for kind in job.choices]
        page.labelled("chose", _first(words, "kinds", None if verbose else _OPERATIONS_SHOWN), indent=0)
    _write_measurements(page, report.measurements, job, verbose)
    write_step(page, report, explain)
    kinds = job.kinds if verbose else job.kinds[:_KINDS_SHOWN]
    for kind in kinds:
        _write_kind(page, kind, verbose)
    if len(kinds) < len(job.kinds):
        page.line(f"{len(job.kinds) - len(kinds)} more kinds of machine (-v shows them)", indent=7)
    write_machines(page, report.nearness, report.contradictions, verbose)


def _write_measurements(page: Page, measurements: Sequence[Measurement], job: JobPicture, verbose: bool) -> None:
    shown = measurements if verbose else measurements[:_MEASUREMENTS_SHOWN]
    for one in shown:
        page.labelled("measured", _measurement(one, job), indent=0, width=10)
    if len(shown) < len(measurements):
        page.line(f"{len(measurements) - len(shown)} more plateaus of nccl-tests (-v shows them)", indent=10)


def _measurement(one: Measurement, job: JobPicture) -> str:
    """`all_reduce 128 MiB..8 GiB: 387 GB/s busbw at 8 GiB (expected 480 (450-510), nvlstree)`."""
    measured, expected = one.measured, one.expected
    sizes = binary_size(measured.size)
    if measured.smallest < measured.size:
        sizes = f"{binary_size(measured.smallest)}..{sizes}"
    among = "" if measured.ranks in (None, job.ranks_total) else f" among {measured.ranks} ranks,"
    busbw = f"{measured.busbw:.3g}"
    if f"{measured.least:.3g}" != f"{measured.most:.3g}":
        busbw = f"{busbw} ({measured.least:.3g}-{measured.most:.3g})"
    beside = f" (expected {with_range(expected.busbw)}, {expected.limit})" if expected else ""
    if not measured.enough:
        beside = " (too small to be the plateau)"
    return f"{measured.collective}{among} {sizes}: {busbw} GB/s busbw at {binary_size(measured.size)}{beside}"


def _write_inputs(page: Page, inputs: Sequence[InputSummary], verbose: bool) -> None:
    if verbose or len(inputs) <= _INPUTS_SHOWN:
        for row in inputs:
            page.labelled("input", f"{row.path}: ", *_input(row), indent=0)
        return
    lines, records = (sum(row.lines for row in inputs), sum(row.recognised + row.unrecognised for row in inputs))
    unrecognised = sum(row.unrecognised for row in inputs)
    words = f"{len(inputs)} files: {counted(lines, 'line')}, {counted(records, 'NCCL record')}"
    page.labelled("input", words, f", {unrecognised} not recognised" if unrecognised else "", indent=0)
    for row in [row for row in inputs if row.error][:_INPUTS_SHOWN]:
        page.line(f"{row.path}: ", (row.error or "", "red"), indent=7, hang=2)


def _input(row: InputSummary) -> list[str | tuple[str, str]]:
    records = row.recognised + row.unrecognised
    words: list[str | tuple[str, str]] = [f"{counted(row.lines, 'line')}, {counted(records, 'NCCL record')}"]
    if row.unrecognised:
        words.append(f", {row.unrecognised} not recognised")
    if others := [kind for kind in row.kinds if kind != "nccl-log"]:
        words.append(f", {', '.join(others)}")
    if row.error:
        words += ["; ", (row.error, "red")]
    return words


def _facts(job: JobPicture) -> list[str]:
    ranks = ""
    if job.ranks_seen or job.ranks_total:
        ranks = f"{job.ranks_seen} of {job.ranks_total or 'unknown'} ranks seen"
        if job.ranks_seen == job.ranks_total:
            ranks = counted(job.ranks_seen, "rank")
    return [
        counted(job.machines, "machine") if job.machines else "",
        ranks,
        _prefixed(job.library, job.release),
        _prefixed("HIP" if job.library == "RCCL" else "CUDA", job.cuda),
        job.gpu,
        _prefixed("network", ", ".join(job.networks)),
    ]


def _first(words: Sequence[str], noun: str, most: int | None) -> str:
    """The first `most` of them (None: all), and how many more there are."""
    more = [f"{len(words) - most} more {noun}"] if most is not None and len(words) > most else []
    return "; ".join([*words[:most], *more])


def _communicators(kind: CommunicatorKind) -> str:
    nodes = "" if kind.nnodes is None else f" on {counted(kind.nnodes, 'node')}"
    spread = "" if kind.spread == "unknown" else f" ({kind.spread})"
    return f"{kind.count} x {counted(kind.nranks, 'rank')}{nodes}{spread}"


def _operation(kind: OperationKind) -> str:
    size = f"{kind.count} elements" if kind.nbytes is None else f"{size_text(kind.nbytes)} {kind.datatype}"
    among = f" among {counted(kind.nranks, 'rank')}" if kind.nranks else ""
    return f"{kind.calls} x {kind.op} of {size}{among}"


def _choice(kind: ChoiceKind) -> str:
    """`ring/simple for 48 x AllReduce of 64 MiB`."""
    how = f"{kind.algorithm}/{kind.protocol}" if kind.protocol else kind.algorithm
    return f"{how} for {kind.calls} x {kind.op or 'operations'} of {binary_size(kind.nbytes)}"


def _write_kind(page: Page, kind: MachineKind, verbose: bool) -> None:
    several = len(kind.hosts) > 1
    machines = counted(len(kind.hosts), "machine") if several else ""
    ranks = f"{counted(kind.ranks_per_machine, 'rank')}{' each' if several else ''}" if kind.ranks_per_machine else ""
    devices = f"net devices {fold(kind.devices)}" if kind.devices else ""
    told = "; ".join(filter(None, (", ".join(filter(None, (machines, ranks))), devices)))
    page.labelled("on", (fold(kind.hosts), "bold"), f": {told}" if told else "", indent=0)
    rows = _merged(kind.gpus)
    shown = rows if verbose else rows[:_GPUS_SHOWN]
    if not shown:
        return
    table = [("GPU", "NIC", "GDR", "inside the node")]
    table += [
        (_gpus(gpus, verbose), ",".join(row.nics) or "-", row.gdr or "-", row.intra or "-") for gpus, row in shown
    ]
    widths = [min(max(len(row[column]) for row in table), 28) for column in range(3)]
    for number, cells in enumerate(table):
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), cells[3]])
        page.line((line, "dim") if number == 0 else line, indent=9, hang=widths[0] + 2)
    if len(shown) < len(rows):
        page.line(f"{len(rows) - len(shown)} more (-v shows them)", indent=9)


def _gpus(gpus: Sequence[str], verbose: bool) -> str:
    """All of them where they are short numbers; bus ids would fill the line."""
    text = fold_numbers(gpus)
    return text if verbose or len(text) <= _GPU_WIDTH else f"{gpus[0]} + {len(gpus) - 1} more"


def _merged(rows: Sequence[GpuRow]) -> list[tuple[list[str], GpuRow]]:
    """GPUs that say the same share a row."""
    groups: dict[tuple[tuple[str, ...], str, str], tuple[list[str], GpuRow]] = {}
    for row in rows:
        groups.setdefault((row.nics, row.gdr, row.intra), ([], row))[0].append(row.gpu)
    return list(groups.values())


def fold_numbers(items: Sequence[str]) -> str:
    """`0-3,6`; what is no short number stands as it is."""
    numbers = sorted({int(item) for item in items if item.isascii() and item.isdigit() and len(item) < 6})
    others = [item for item in items if not (item.isascii() and item.isdigit() and len(item) < 6)]
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join([*(f"{low}" if low == high else f"{low}-{high}" for low, high in spans), *others])


def _prefixed(word: str, text: str) -> str:
    return text if not text or text.lower().startswith(word.lower()) else f"{word} {text}"
