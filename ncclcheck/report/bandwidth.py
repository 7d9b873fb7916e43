"""What a job gets, as text: the table over sizes, a change with its ladder, the plot."""

from __future__ import annotations

from ncclcheck.estimate.quantities import two_digits, with_range
from ncclcheck.estimate.questions.bandwidth import Bandwidth
from ncclcheck.estimate.questions.what_if import Point
from ncclcheck.estimate.ranges import Range
from ncclcheck.report.curves import Curve, as_lines, size_label
from ncclcheck.report.figures import readable, write_figures, write_givens, write_remarks
from ncclcheck.report.page import Page


def write_bandwidth(page: Page, result: Bandwidth, explain: bool, color: bool, unicode: bool) -> None:
    """explain: formulas, and the inputs with their origins. unicode: can the plot have lines and dots."""
    page.line((result.answer.title, "bold"))
    if result.after is None:
        write_figures(page, result.answer, explain)
        page.line(f"limit {result.before.limit}, algorithm {result.before.algorithm}", indent=2, hang=2)
    else:
        _write_change(page, result)
        if explain:
            write_figures(page, result.answer, explain)
    if result.beside is not None:
        page.line("beside RDMA on the same NICs:", indent=2)
        _write_change(page, result.beside)
    write_remarks(page, result.answer)
    if explain:
        write_givens(page, result.answer)
    page.gap()
    _write_table(page, result)
    page.gap()
    try:
        plot = as_lines(curves_of(result), "bus bandwidth over message size, GB/s", page.width, color, unicode)
    except (ImportError, OSError):  # its compiled half does not load everywhere
        page.line("no plot: the library plotext does not load here", indent=2)
    else:
        page.verbatim(plot)


def curves_of(result: Bandwidth) -> list[Curve]:
    """Before, and after if there is a change."""
    named = [("before" if result.curve_after else "expected", result.curve), ("after", result.curve_after)]
    return [
        Curve(name, [point.size for point in points], [point.busbw for point in points])
        for name, points in named
        if points
    ]


def _write_change(page: Page, result: Bandwidth) -> None:
    assert result.after is not None and result.slowdown is not None
    before, after = result.before, result.after
    change = f"{with_range(before.busbw)} -> {with_range(after.busbw)} GB/s, {_factor(result.slowdown)}"
    page.line((f"{change}, limit {before.limit} -> {after.limit}", "bold"), indent=2, hang=2)
    for rung in result.ladder:
        name, alone = rung.change.name, rung.alone
        page.line(f"{name} alone: {_arrow(before, alone)}, limit {alone.limit}", indent=2, hang=2)
    for rung in result.ladder:
        how = "still" if rung.mended.limit == after.limit else "then"
        mended = f"{_arrow(after, rung.mended)}, {how} limited by {rung.mended.limit}"
        page.line(f"mending {rung.change.what} alone: {mended}", indent=2, hang=2)


def _arrow(start: Point, end: Point) -> str:
    return f"{two_digits(start.busbw.expected)} -> {two_digits(end.busbw.expected)} GB/s"


def _factor(slowdown: Range) -> str:
    """`3.9x (3.0x-5.1x) slower`; a gain the other way round."""
    if slowdown == Range(1.0, 1.0, 1.0):
        return "no change"
    if slowdown.expected >= 1:
        return f"{with_range(slowdown, 'x')} slower"
    return f"{with_range(Range(*(1 / one for one in reversed(slowdown))), 'x')} faster"


def _write_table(page: Page, result: Bandwidth) -> None:
    """As nccl-tests prints it; on a narrow page without ranges, then without algbw."""
    head: tuple[str, ...] = ("size", "time", "algbw", "busbw", "range")
    rows = [_row(point) for point in result.curve]
    if result.curve_after:
        head = (*head, "after", "range")
        rows = [
            (*row, two_digits(point.busbw.expected), _range(point.busbw))
            for row, point in zip(rows, result.curve_after, strict=True)
        ]
    columns = list(zip(head, *rows, strict=True))
    for name in ("range", "algbw"):
        if 2 + sum(2 + max(map(len, column)) for column in columns) > page.width:
            columns = [column for column in columns if column[0] != name]
    widths = [max(map(len, column)) for column in columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        text = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        page.line((text, "dim" if number == 0 else ""), indent=2)
    page.line(("size in bytes (K, M, G: 2^10, 2^20, 2^30), bandwidth in GB/s (10^9 bytes)", "dim"), indent=2, hang=2)


def _row(point: Point) -> tuple[str, ...]:
    seconds, unit = readable(point.seconds, "s")
    return (
        size_label(point.size),
        f"{two_digits(seconds.expected)} {unit}",
        two_digits(point.algbw.expected),
        two_digits(point.busbw.expected),
        _range(point.busbw),
    )


def _range(value: Range) -> str:
    return f"{two_digits(value.low)}-{two_digits(value.high)}"
