"""Bandwidth over message size, as a plot for terminals and as an SVG file. The plotting libraries load when used."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple
from xml.etree import ElementTree

from ncclcheck.estimate.ranges import Range
from ncclcheck.report.escape import clean

HEIGHT = 16  # lines
_NARROWEST = 40

# Box-drawing characters of the frame, for terminals that have none.
_ASCII = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")


class Curve(NamedTuple):
    """busbw in GB/s for each size in bytes."""

    name: str
    sizes: Sequence[int]
    busbw: Sequence[Range]


def as_lines(curves: Sequence[Curve], title: str, width: int, color: bool, unicode: bool) -> str:
    """A plot of at most `width` columns: a line for what is expected, dots for its range."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.plot_size(max(width, _NARROWEST), HEIGHT)
    figure.theme("default" if color else "colorless")
    figure.canvas("default")
    figure.title(clean(title))
    lines = ("braille", "dot") if unicode else ("*", "o")
    for curve, marker in zip(curves, lines, strict=False):
        x = [log2(size) for size in curve.sizes]
        for bound in ("low", "high"):
            figure.draw(figure.signal(x, [getattr(one, bound) for one in curve.busbw], marker=".").lines(True))
        signal = figure.signal(x, [one.expected for one in curve.busbw], marker=marker).lines(True)
        figure.draw(signal.label(curve.name) if len(curves) > 1 else signal)
    ticks = _ticks(curves[0].sizes)
    figure.ruler("x").ticks([log2(size) for size in ticks], [size_label(size) for size in ticks])
    text: str = figure.build().string(not color)
    text = "\n".join(line.rstrip() for line in text.splitlines())
    return text if unicode else text.translate(_ASCII)


def as_svg(curves: Sequence[Curve], title: str) -> str:
    """An SVG document that needs nothing but itself: no script, no reference to other places."""
    import pygal
    from pygal.style import Style

    sizes = curves[0].sizes
    chart = pygal.XY(
        js=[], width=900, height=540, explicit_size=True, title=clean(title), x_title="message size",
        y_title="bus bandwidth, GB/s", legend_at_bottom=True, show_dots=False, range=(0, _top(curves)),
        x_labels=[{"value": log2(size), "label": size_label(size)} for size in _ticks(sizes)],
        style=Style(
            background="white", plot_background="white", font_family="sans-serif", stroke_width="2", colors=_COLORS,
            guide_stroke_color="#ddd", major_guide_stroke_color="#ddd",
        ),
    )  # fmt: skip
    chart.uuid = "ncclcheck"  # the same document for the same numbers
    for curve in curves:
        x = [log2(size) for size in sizes]
        chart.add(curve.name, list(zip(x, (one.expected for one in curve.busbw), strict=True)))
        for bound in ("low", "high"):
            row = list(zip(x, (getattr(one, bound) for one in curve.busbw), strict=True))
            chart.add(f"{curve.name}, {bound}", row, stroke_style={"dasharray": "4, 4"})
    root = chart.render_tree()
    for parent in root.iter():
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.endswith("script"):
                parent.remove(child)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


# A curve and its two bounds share a colour.
_COLORS = ("#1b6ca8", "#8ab6d6", "#8ab6d6", "#c0392b", "#e6a8a1", "#e6a8a1")


def size_label(size: int) -> str:
    """`64K`, `1G`: as nccl-tests' users write sizes."""
    for unit, scale in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size >= scale:
            return f"{size / scale:g}{unit}"
    return str(size)


def _ticks(sizes: Sequence[int]) -> Sequence[int]:
    return sizes[::2]


def _top(curves: Sequence[Curve]) -> float:
    return max(one.high for curve in curves for one in curve.busbw) * 1.05
