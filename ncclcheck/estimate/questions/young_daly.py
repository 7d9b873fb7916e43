"""A job that writes checkpoints, and what it loses of its time.

Failures come at random, on the average every M seconds of the whole job, also while it restarts (J. T. Daly, 2006).
Checkpoints begin every T seconds and stop the computation while they are written. What is left of the time is

    (1 - write / T)  x  x / (e^x - 1)  x  e^(-down / M),  x = T / M

that is: not writing, not done again, not waiting for the restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import NamedTuple

from ncclcheck.estimate.quantities import LONGEST_SECONDS, between

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Saving:
    """A job that writes checkpoints. None: not told.

    state_per_param: bytes. state_bytes: of one whole checkpoint, instead. write_gbps: GB/s of one writer.
    write_seconds: how long a checkpoint stops the computation, instead of all of these. mtbf_seconds: between two
    events that end the whole job, or preemptions_per_day. restart_seconds: from an event to the next step.
    interval_seconds: from the start of a checkpoint to the start of the next. timeout_seconds: until the watchdog
    notices an event. notice_seconds: from the notice to the event; notice_from: where that comes from. gpu_price: $ per
    hour.

    Raises ValueError on impossible values.
    """

    params: float | None = None
    state_per_param: float | None = None
    state_bytes: float | None = None
    write_gbps: float | None = None
    writers: int = 1
    write_seconds: float | None = None
    gpus: int | None = None
    gpu_price: float | None = None
    mtbf_seconds: float | None = None
    preemptions_per_day: float | None = None
    restart_seconds: float | None = None
    interval_seconds: float | None = None
    timeout_seconds: float | None = None
    notice_seconds: float | None = None
    notice_from: str = ""

    def __post_init__(self) -> None:
        for flag, value, low, high in (
            ("--state-bytes per parameter", self.state_per_param, 0.1, 64),
            ("--write-gbps", self.write_gbps, 1e-6, 1e6),
            ("--writers", self.writers, 1, 1e6),
            ("--gpus", self.gpus, 1, 1e6),
            ("--preemptions-per-day", self.preemptions_per_day, 1e-6, 1e5),
            ("--mtbf in seconds", self.mtbf_seconds, 1e-6, LONGEST_SECONDS),
        ):
            if value is not None:
                between(value, low, high, flag)
        for one, other, both in (
            ("--mtbf", "--preemptions-per-day", self.mtbf_seconds and self.preemptions_per_day),
            ("--write-time", "--write-gbps", self.write_seconds and self.write_gbps),
            ("a whole --state-bytes", "one per parameter", self.state_bytes and self.state_per_param),
        ):
            if both:
                raise ValueError(f"{one} and {other} say the same thing: give one of them")
        if not (self.params or self.state_bytes or self.write_seconds or (self.gpus and self.timeout_seconds)):
            raise ValueError("nothing to count: give --params, --state-bytes, --write-time, or --gpus and --timeout")

    @property
    def event_seconds(self) -> float | None:
        """Average time between two events."""
        return DAY / self.preemptions_per_day if self.preemptions_per_day else self.mtbf_seconds


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
