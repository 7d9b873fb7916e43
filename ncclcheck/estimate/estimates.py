"""What an `Estimator` answers: what a fault costs a job, and what the job should reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.estimate.ranges import Range

if TYPE_CHECKING:
    from ncclcheck.estimate.training.step import StepEstimate


Changes = Mapping[str, object]
"""Fields of Config that are put on a job; a tuple stands for "one of these"."""

ASSUMED = "assumed"  # the origin of an input that nothing proves
MEASURED = "measured"  # what a number is based on, or what binds it, where nothing is modelled


class Mended(NamedTuple):
    """Bus bandwidth in GB/s once this fault is mended and the others are not, the limit that binds then, and the code
    of the fault that it comes from."""

    busbw: Range
    limit: str
    code: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Healthy against actual plateau bus bandwidth of an all_reduce, in GB/s (10^9 bytes per second).

    slowdown: healthy / actual; its low end pairs healthy-low with actual-high, its high end the reverse.
    limit_healthy, limit_actual: the name of the slowest limit before and after ("nic", "nvls", "tcp", ...).
    basis: "measured", "modelled from log" or "modelled from assumptions".
    formula and inputs: how the numbers came about, for `-v` and the JSON report.
    sync_seconds_healthy / _actual: one gradient synchronisation of `sync_bytes` bytes, seconds.
    extra_seconds: actual minus healthy, candidate by candidate.
    step: a training step, or the calls that the log saw; None where neither is known.
    healthy_changes, actual_changes: what was put on the job, as fields of the model's configuration.
    after_fix: filled in where other faults hold back what mending this one brings.
    alone: where `actual` was measured, what the model has for this fault alone; the measurement counts all that slows
        the job.
    """

    healthy: Range
    actual: Range
    slowdown: Range
    limit_healthy: str
    limit_actual: str
    basis: str
    formula: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    sync_bytes: int = 0
    sync_seconds_healthy: Range | None = None
    sync_seconds_actual: Range | None = None
    extra_seconds: Range | None = None
    step: StepEstimate | None = None
    healthy_changes: Changes = field(default_factory=dict)
    actual_changes: Changes = field(default_factory=dict)
    after_fix: Mended | None = None
    alone: Range | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What the job should reach: busbw in GB/s, its limit, and how the number came about."""

    busbw: Range
    limit: str
    basis: str
    formula: str
    inputs: Mapping[str, str]

    @property
    def assumed(self) -> frozenset[str]:
        """Names of inputs that nothing proves."""
        return frozenset(name for name, text in self.inputs.items() if text.endswith(f"({ASSUMED})"))


class Cost(NamedTuple):
    """What a finding costs in `unit` ("s per gradient sync of 1 GB", "GPU-hours until noticed"); dollars, if a GPU-hour
    has a price."""

    unit: str
    amount: Range
    dollars: Range | None = None
