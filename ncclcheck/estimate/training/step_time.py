"""The time of a training step, before and after a change.

step = compute + idle time of the pipeline + exposed communication
exposed = communication - what hides behind compute: for each kind of collective a share of the compute time at most
A measured step time gives the compute time of the job as it is; without one it comes from 6 operations per parameter
and token and the GPU's rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ncclcheck.estimate.estimates import MEASURED
from ncclcheck.estimate.figures import ASSUMED, TABLE, Given
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.ranges import Range, spread
from ncclcheck.estimate.training.parallelism import Place
from ncclcheck.estimate.training.workload import Collective, Workload

BISECTIONS = 60  # as many as a float has digits
TELLING = 0.2  # less than this share of a step or of its communication is the model's own error


class Timed(NamedTuple):
    """All calls of one collective by one rank, in seconds; where its ranks lie, what binds, and the arithmetic."""

    seconds: Range
    place: Place
    limit: str
    formula: str


class Calls(NamedTuple):
    """A collective before and after a change."""

    collective: Collective
    healthy: Timed
    actual: Timed

    def never_faster(self) -> Calls:
        """What the model rates as a gain is no loss; what was measured stands, and the healthy side is as fast."""
        if self.actual.limit == MEASURED:
            faster = Range(*map(min, self.healthy.seconds, self.actual.seconds))
            return self._replace(healthy=self.healthy._replace(seconds=faster))
        slower = Range(*map(max, self.healthy.seconds, self.actual.seconds))
        return self._replace(actual=self.actual._replace(seconds=slower))


class Load(NamedTuple):
    """The collectives of a step on one configuration that fits the input. tflops: dense bf16 rate of its GPU."""

    calls: tuple[Calls, ...]
    tflops: float


@dataclass(frozen=True, slots=True)
class Timing:
    """A step of the job, healthy and actual. Seconds; shares are of the step; efficiency is compute / step.

    tokens_per_second: None where the tokens of a step are unknown.
    """

    compute: Range
    step_healthy: Range
    step_actual: Range
    exposed_healthy: Range
    exposed_actual: Range
    efficiency_healthy: Range
    efficiency_actual: Range
    tokens_per_second_healthy: Range | None
    tokens_per_second_actual: Range | None
    compute_formula: str
    formula: str
    inputs: tuple[Given, ...] = ()
    remarks: tuple[str, ...] = ()


class View(NamedTuple):
    """Which value of its range everything has: 0 the lowest, 1 the expected, 2 the highest."""

    healthy: int
    actual: int
    overlap: int
    mfu: int


EXPECTED = View(1, 1, 1, 1)
# The smallest effect of a change pairs a slow healthy job with a fast actual one, the largest the reverse.
EFFECTS = (EXPECTED, View(healthy=2, actual=0, overlap=2, mfu=0), View(healthy=0, actual=2, overlap=0, mfu=2))
# Of a job whose step was not measured: all at its best, all at its worst.
ENDS = (View(healthy=0, actual=0, overlap=2, mfu=2), View(healthy=2, actual=2, overlap=0, mfu=0))


class Case(NamedTuple):
    """One configuration with one value of everything: seconds.

    idle: neither computing nor communicating: the pipeline fills and drains, or the step waits for something else.
    unfit: a measured step leaves much less time to communication than the model expects. unknown: seconds of it that
    neither compute nor communication explain.
    """

    compute: float
    idle: float
    healthy: float
    actual: float
    unfit: bool = False
    unknown: float = 0.0

    def exposed(self, step: float) -> float:
        return max(0.0, 1 - (self.compute + self.idle) / step)


def timing_of(
    loads: Sequence[Load], workload: Workload, options: EstimateOptions, table: Hardware
) -> tuple[Timing, Range]:
    """The step over all configurations that fit the input, and the lost share 1 - healthy / actual.

    workload: with `flops`, or options with `step_seconds`.
    """
    views = EFFECTS if options.step_seconds is not None else (*EFFECTS, *ENDS)
    cases = [[_case(load, view, workload, options, table) for view in views] for load in loads]
    compute, healthy, actual = (
        _over(cases, lambda case: case.compute),
        _over(cases, lambda case: case.healthy),
        _over(cases, lambda case: case.actual),
    )
    lost = _over(cases, lambda case: 1 - case.healthy / case.actual)
    lost = lost._replace(expected=_within(1 - healthy.expected / actual.expected, lost))
    tokens = workload.tokens
    idle = _over(cases, lambda case: case.idle)
    text = f"{compute.expected:.3g} s compute"
    arithmetic = "what a measured step leaves to it, at a rate that a GPU can have"
    if options.step_seconds is None:
        mfu = table.training.mfu.expected if options.mfu is None else options.mfu
        rate = loads[0].tflops
        arithmetic = f"{workload.flops:.3g} operations of a GPU / ({rate:g} TFLOPS x MFU {mfu:g})"
    if idle.expected > 1e-6 * actual.expected:
        text += f" + {idle.expected:.3g} s idle"
    return (
        Timing(
            compute=compute,
            compute_formula=arithmetic,
            step_healthy=healthy,
            step_actual=actual,
            exposed_healthy=_over(cases, lambda case: case.exposed(case.healthy)),
            exposed_actual=_over(cases, lambda case: case.exposed(case.actual)),
            efficiency_healthy=_over(cases, lambda case: case.compute / case.healthy),
            efficiency_actual=_over(cases, lambda case: case.compute / case.actual),
            tokens_per_second_healthy=None if tokens is None else _over(cases, lambda case: tokens / case.healthy),
            tokens_per_second_actual=None if tokens is None else _over(cases, lambda case: tokens / case.actual),
            formula=f"{text} + exposed communication = {healthy.expected:.3g} -> {actual.expected:.3g} s",
            inputs=tuple(_inputs(loads, workload, options, table)),
            remarks=tuple(_remarks(loads, cases, workload, options, table)),
        ),
        lost,
    )


def exposed(comm: Mapping[str, float], compute: float, shares: Mapping[str, float]) -> float:
    """Seconds of communication (by kind) for which the GPU does not compute. shares: of the compute time behind which
    a kind can hide, and "all" of them together. A sum of what is left, so that nothing left is exactly 0."""
    each = sum(max(0.0, seconds - shares.get(kind, 0.0) * compute) for kind, seconds in comm.items())
    return max(each, sum(comm.values()) - shares["all"] * compute)


def compute_of(step: float, comm: Mapping[str, float], shares: Mapping[str, float], bubble: float) -> float:
    """The compute time, in seconds, of a step that was measured; 0 where communication alone takes as long.

    The step grows with its compute time, as no more than nine tenths of that can hide anything: one solution.
    """
    if sum(comm.values()) >= step:
        return 0.0
    return _solve(lambda compute: compute * (1 + bubble) + exposed(comm, compute, shares), step, step)


def _case(load: Load, view: View, workload: Workload, options: EstimateOptions, table: Hardware) -> Case:
    shares = {kind: share[view.overlap] for kind, share in table.overlap.items()}
    before, after = _communication(load.calls, view)
    bubble, step = workload.bubble, options.step_seconds
    rate = load.tflops * 1e12
    if step is None:
        assert workload.flops is not None
        mfu = table.training.mfu[view.mfu] if options.mfu is None else options.mfu
        compute = workload.flops / (rate * mfu)
        actual = compute * (1 + bubble) + exposed(after, compute, shares)
        return Case(compute, compute * bubble, actual - _saved(before, after, compute, shares), actual)
    least, most = _plausible(workload.flops, rate, options.mfu, table)
    solved = compute_of(step, after, shares, bubble)
    compute = min(max(solved, least), most, step / (1 + bubble))
    left = 1.0
    if sum(after.values()) > step or solved < least:  # the measurement is right: less is exposed than the model says
        left = _scale_to(step - compute * (1 + bubble), after, compute, shares)
        after = {kind: seconds * left for kind, seconds in after.items()}
        before = {kind: min(seconds, after[kind]) for kind, seconds in before.items()}
    unknown = max(0.0, step - compute * (1 + bubble) - exposed(after, compute, shares))
    healthy = max(0.0, step - _saved(before, after, compute, shares))
    return Case(compute, compute * bubble + unknown, healthy, step, left < 1 - TELLING, unknown)


def _plausible(flops: float | None, rate: float, mfu: float | None, table: Hardware) -> tuple[float, float]:
    """The shortest and the longest time, in seconds, in which a GPU of this rate does so many operations of a step."""
    if flops is None:
        return 0.0, inf
    if mfu is not None:
        return flops / (rate * mfu), flops / (rate * mfu)
    return flops / (rate * table.training.mfu_at_most), flops / (rate * table.training.mfu_at_least)


def _saved(
    before: Mapping[str, float], after: Mapping[str, float], compute: float, shares: Mapping[str, float]
) -> float:
    return max(0.0, exposed(after, compute, shares) - exposed(before, compute, shares))


def _scale_to(left: float, comm: Mapping[str, float], compute: float, shares: Mapping[str, float]) -> float:
    """The part of the communication that leaves so many seconds exposed."""

    def at(part: float) -> float:
        return exposed({kind: seconds * part for kind, seconds in comm.items()}, compute, shares)

    return _solve(at, left, 1.0)


def _solve(rises: Callable[[float], float], target: float, most: float) -> float:
    """Where a function that never falls reaches the target, between 0 and `most`."""
    low, high = 0.0, most
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < target else (low, middle)
    return high


def _communication(calls: Iterable[Calls], view: View) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds by kind, healthy and actual."""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for one in calls:
        healthy = one.healthy.seconds[view.healthy]
        actual = healthy if one.healthy == one.actual else max(healthy, one.actual.seconds[view.actual])
        kind = one.collective.kind
        before[kind] = before.get(kind, 0.0) + healthy
        after[kind] = after.get(kind, 0.0) + actual
    return before, after


def _over(cases: Sequence[Sequence[Case]], value: Callable[[Case], float]) -> Range:
    """Over the configurations, each from its lowest to its highest."""
    ranges = []
    for of_load in cases:
        values = [value(case) for case in of_load]
        ranges.append(Range(min(values), values[0], max(values)))
    return spread(ranges)


def _within(value: float, limits: Range) -> float:
    return min(max(value, limits.low), limits.high)


def _inputs(loads: Sequence[Load], workload: Workload, options: EstimateOptions, table: Hardware) -> Iterator[Given]:
    if options.step_seconds is not None:
        yield Given("step time", f"{options.step_seconds:g} s", "--step-time")
    if options.step_seconds is None or options.mfu is not None:
        rates = " or ".join(f"{rate:g} TFLOPS" for rate in sorted({load.tflops for load in loads}))
        yield Given("rate of a GPU", rates, TABLE)
        mfu = table.training.mfu.text if options.mfu is None else f"{options.mfu:g}"
        yield Given("MFU", mfu, "--mfu" if options.mfu else ASSUMED)
    for kind in sorted({one.kind for one in workload.collectives}):
        name = f"share of the compute time that {kind.upper()} can hide behind"
        yield Given(name, table.overlap[kind].text, ASSUMED)


def _remarks(
    loads: Sequence[Load],
    cases: Sequence[Sequence[Case]],
    workload: Workload,
    options: EstimateOptions,
    table: Hardware,
) -> Iterator[str]:
    if all(of_load[0].unfit for of_load in cases):
        yield (
            "the model expects more communication than fits into the measured step, so the job communicates less or"
            " faster than the plan and the log say: its actual communication is cut to the step"
        )
    unknown = min(of_load[0].unknown for of_load in cases)
    if options.step_seconds is not None and unknown > TELLING * options.step_seconds:
        yield (
            f"{unknown:.2g} s of the measured step are explained by neither computing nor communicating: it waits for"
            " something else (data, checkpoints), or its tokens and parameters are others"
        )
    if workload.flops is not None and options.step_seconds is not None:
        most = options.mfu or table.training.mfu_at_most
        least = min(workload.flops / (load.tflops * 1e12 * most) for load in loads)
        if least > options.step_seconds:
            yield (
                f"at {most:.0%} of its rate a GPU computes {least:.3g} s for these tokens and parameters, longer than"
                " the measured step: they do not fit together"
            )
