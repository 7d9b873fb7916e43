"""Young's and Daly's interval between checkpoints, and what a job loses of its time.

Failures come at random, on the average every M seconds of the whole job, also while it restarts (J. T. Daly, 2006).
Checkpoints begin every T seconds and stop the computation while they are written. What is left of the time is

    (1 - write / T)  x  x / (e^x - 1)  x  e^(-down / M),  x = T / M

that is: not writing, not done again, not waiting for the restart.
"""

from __future__ import annotations

from math import exp, expm1, sqrt
from typing import NamedTuple


class Shares(NamedTuple):
    """Of a job's time: writing checkpoints, work that is done again, waiting for restarts; all of it together."""

    writing: float
    rework: float
    restarts: float

    @property
    def lost(self) -> float:
        return min(1.0, self.writing + self.rework + self.restarts)


def young(write: float, mtbf: float) -> float:
    """Young's interval in seconds, start to start: sqrt(2 x write x MTBF)."""
    return sqrt(2 * write * mtbf)


def daly(write: float, mtbf: float) -> float:
    """Daly's interval in seconds, start to start: Young's with two more terms; MTBF + write from 2 x MTBF on."""
    if write >= 2 * mtbf:
        return mtbf + write
    term = sqrt(write / (2 * mtbf))
    return young(write, mtbf) * (1 + term / 3 + term**2 / 9)


def work_kept(interval: float, mtbf: float) -> float:
    """Share of the running time whose result reaches a checkpoint: x / (e^x - 1)."""
    x = interval / mtbf
    return 0.0 if x > 700 else x / expm1(x)


def shares(interval: float, write: float, mtbf: float, down: float) -> Shares:
    """What a job loses. An interval that the writing fills leaves nothing."""
    up, kept = exp(-down / mtbf), work_kept(interval, mtbf)
    if interval <= write:
        return Shares(up, 0.0, 1 - up)
    return Shares(up * kept * write / interval, up * (1 - kept), 1 - up)


def rework_seconds(interval: float, mtbf: float) -> float:
    """Time since the last checkpoint that an event finds on the average: half the interval, less if events are many."""
    return mtbf * (1 - work_kept(interval, mtbf))
