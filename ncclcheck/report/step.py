"""A training step as text: of the job as it is, and what a finding costs of it."""

from __future__ import annotations

from dataclasses import replace

from ncclcheck.engine.report import Report
from ncclcheck.estimate.quantities import two_digits, with_range
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.money import HOURS, Loss
from ncclcheck.estimate.training.step import StepEstimate
from ncclcheck.report.numbers import large, thousands
from ncclcheck.report.page import Page

_COLLECTIVES_SHOWN = 4


def write_step(page: Page, report: Report, explain: bool) -> None:
    """The block in the head of a report. explain: each collective with its arithmetic, and all inputs."""
    step = report.step
    if step is None:
        if report.no_step_because:
            page.labelled("step", f"none: {report.no_step_because}", indent=0)
        return
    label = "step" if step.per_step else "time"
    of = "of communication" if step.per_step else "of a rank for the calls in the log"
    parts = sorted(step.collectives, key=lambda one: -one.actual.expected)
    named = [f"{one.name} {two_digits(one.actual.expected)} s" for one in parts[:_COLLECTIVES_SHOWN]]
    if len(parts) > _COLLECTIVES_SHOWN:
        named.append(f"{len(parts) - _COLLECTIVES_SHOWN} more")
    listed = f": {', '.join(named)}" if parts else ""
    page.labelled(label, (f"{with_range(step.comm_actual)} s {of}", "bold"), listed, indent=0)
    timing = step.timing
    if timing is not None:
        tokens = timing.tokens_per_second_actual
        rate = f"; {thousands(tokens.expected)} tokens per second" if tokens else ""
        page.line(
            f"{with_range(timing.step_actual)} s a step, {_percent(timing.exposed_actual)} of it exposed communication;"
            f" scaling efficiency {_percent(timing.efficiency_actual)}{rate}",
            indent=7,
        )
    for remark in step.remarks:
        page.line(remark, indent=7, hang=2)
    if explain:
        _write_how(page, replace(step, loss=None), indent=7)


def write_change(page: Page, step: StepEstimate, explain: bool) -> None:
    """The lines under the number of a finding: healthy -> actual."""
    timing, lost = step.timing, step.loss
    if timing is not None and lost is not None:
        page.line(
            f"step {with_range(timing.step_healthy)} -> {with_range(timing.step_actual)} s; {_lost(lost)}", indent=9
        )
    else:
        what = "communication of a step" if step.per_step else "calls in the log"
        page.line(f"{what}: {with_range(step.comm_healthy)} -> {with_range(step.comm_actual)} s", indent=9)
    if explain:
        _write_how(page, step, indent=9)


def _lost(lost: Loss) -> str:
    """`5,600 (5,100-5,800) GPU-hours and $14,000 ($13,000-$15,000) a day at $2.50`."""
    price = "" if lost.price is None else f" at ${lost.price:.2f}"
    day = "" if lost.day_share == 1 else f", in such steps {100 * lost.day_share:.3g} % of the day"
    if lost.stops:
        whole = HOURS * lost.gpus * lost.day_share
        dollars = "" if lost.price is None else f" (${thousands(whole * lost.price)}{price})"
        return f"the job effectively stops: nearly all of its {thousands(whole)} GPU-hours a day are lost{dollars}{day}"
    hours = f"{large(lost.gpu_hours)} GPU-hours"
    dollars = "" if lost.dollars is None else f" and {large(lost.dollars, '$')}"
    return f"{hours}{dollars} a day lost{price}{day}"


def _percent(value: Range) -> str:
    low, expected, high = (f"{100 * number:.0f}" for number in value)
    return f"{expected} %" if low == high else f"{expected} ({low}-{high}) %"


def _write_how(page: Page, step: StepEstimate, indent: int) -> None:
    for one in step.collectives:
        page.line(f"{one.name}: {one.formula}", indent=indent, hang=2)
    if step.timing is not None:
        page.line(f"step = {step.timing.formula}", indent=indent, hang=2)
    if step.loss is not None:
        page.line(f"lost = {step.loss.formula}", indent=indent, hang=2)
    inputs = "; ".join(f"{given.name} = {given.value} ({given.origin})" for given in step.inputs)
    if inputs:
        page.line(f"inputs {inputs}", indent=indent, hang=2)
