"""Constants of the model from measured plateaus: the package's from published runs, a site's from its own runs.

The error of a point is |log(model / measured)|, so that half and double count alike, and the sum of errors is made
small: an outlier pulls no more than any other point. Each constant is held to where it started by a weak pull, which
decides where no point speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.hardware_table import hardware_with
from ncclcheck.estimate.model import Model

_STEPS = (1.3, 1.1, 1.03, 1.01)
_ROUNDS = 12


class Point(NamedTuple):
    """A measured bus bandwidth in GB/s at a message size in bytes. source: what may be left out together."""

    name: str
    source: str
    config: Config
    size: int
    busbw_gbps: float


def error_of(point: Point, model: Model) -> float:
    """|model / measured - 1|."""
    return abs(model.at(point.config, point.size).busbw.expected / point.busbw_gbps - 1)


def fit(points: Sequence[Point], start: Mapping[str, float], pull: float = 0.02) -> dict[str, float]:
    """The constants (paths in hardware.toml) that make the error small, found from `start` one by one.

    pull: error that a constant costs which is e times (or 1/e of) where it started.
    """
    values = dict(start)
    users = {path: _touched(points, values, path) for path in start}
    for step in _STEPS:
        for _ in range(_ROUNDS):
            moved = [_move(users[path], values, path, start[path], step, pull) for path in start if users[path]]
            if not any(moved):
                break
    return values


def touched_by(points: Sequence[Point], constants: Mapping[str, float]) -> list[str]:
    """The constants that the model's answers for these points depend on."""
    return [path for path in constants if _touched(points, constants, path)]


def _touched(points: Sequence[Point], values: Mapping[str, float], path: str) -> list[Point]:
    """Points whose answer changes with the constant; far and near, for another limit may bind at first."""
    now = [_expected(point, Model(hardware_with(values))) for point in points]
    moved: set[int] = set()
    for factor in (0.5, 0.97, 1.03, 2.0):
        model = Model(hardware_with({**values, path: values[path] * factor}))
        moved |= {at for at, point in enumerate(points) if _expected(point, model) != now[at]}
    return [points[at] for at in sorted(moved)]


def _move(points: Sequence[Point], values: dict[str, float], path: str, start: float, step: float, pull: float) -> bool:
    """One step up or down where that is better."""

    def loss(value: float) -> float:
        model = Model(hardware_with({**values, path: value}))
        off = sum(abs(log(_expected(point, model) / point.busbw_gbps)) for point in points)
        return off + pull * abs(log(value / start))

    here = values[path]
    best = min((here, here * step, here / step), key=loss)
    values[path] = best
    return best != here


def _expected(point: Point, model: Model) -> float:
    return model.at(point.config, point.size).busbw.expected
