"""Checkpoints, preemption, watchdog: how long writing takes, how often to write, what an event and a day cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from ncclcheck.estimate.figures import Answer, Sheet
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.quantities import LONGEST_SECONDS, between, count_text, duration_text, size_text
from ncclcheck.estimate.questions.young_daly import daly, rework_seconds, shares, work_kept, young
from ncclcheck.estimate.ranges import Range, exactly, over

_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Checkpointing:
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
        return _DAY_SECONDS / self.preemptions_per_day if self.preemptions_per_day else self.mtbf_seconds


def checkpoint(ask: Checkpointing, table: Hardware) -> Answer:
    """Everything that the given inputs allow."""
    sheet = Sheet(details={"can_finish": None})
    write = _write(ask, table, sheet)
    if write is not None:
        _notice(ask, write, sheet)
    down = _down(ask, table, sheet)
    mtbf = _event(ask, sheet)
    if ask.gpus is not None:
        sheet.given("GPUs", str(ask.gpus), "--gpus")
    if ask.gpu_price is not None:
        sheet.given("price", f"${ask.gpu_price:.2f} per GPU and hour", "--gpu-price")
    if write is not None and mtbf is not None:
        best = _best_interval(write, mtbf, table, sheet)
        _losses(ask, write, mtbf, down, best, table.training.stops_from, sheet)
    elif ask.interval_seconds is not None:
        sheet.given("interval", duration_text(ask.interval_seconds), "--interval")
        if write is not None:
            _can_finish(ask.interval_seconds, write, sheet)
    _watchdog(ask, table, sheet)
    _missing(ask, write, sheet)
    what = "" if ask.params is None else f" of a model of {count_text(ask.params)} parameters"
    where = "" if ask.gpus is None else f" on {ask.gpus} GPUs"
    return sheet.answer(f"Checkpoints{what}{where}")


def _write(ask: Checkpointing, table: Hardware, sheet: Sheet) -> Range | None:
    """Seconds that a checkpoint takes."""
    state: Range | None = None
    if ask.state_bytes is not None:
        state = exactly(ask.state_bytes)
        sheet.given("state", size_text(ask.state_bytes), "--state-bytes")
        sheet.figure("state", state.scale(1e-9), "GB", f"{size_text(ask.state_bytes)} as told")
    elif ask.params is not None:
        each = table.checkpoint.state_bytes if ask.state_per_param is None else exactly(ask.state_per_param)
        sheet.given("parameters", count_text(ask.params), "--params")
        if ask.state_per_param is None:
            sheet.constant("state per parameter", f"{each.low:g} to {each.high:g} B", table.checkpoint.source)
        else:
            sheet.given("state per parameter", f"{each.expected:g} B", "--state-bytes")
        state = each.scale(ask.params)
        text = f"{count_text(ask.params)} x {each.expected:g} B = {size_text(state.expected)}"
        sheet.figure("state", state.scale(1e-9), "GB", text)
    if ask.write_seconds is not None:
        write = exactly(ask.write_seconds)
        sheet.given("writing a checkpoint", duration_text(ask.write_seconds), "--write-time")
        return write
    if state is None or ask.write_gbps is None:
        return None
    sheet.given("rate of a writer", f"{ask.write_gbps:g} GB/s", "--write-gbps")
    sheet.given("writers", str(ask.writers), "--writers, default" if ask.writers == 1 else "--writers")
    write = state.scale(1 / (ask.write_gbps * 1e9 * ask.writers))
    text = f"{size_text(state.expected)} / ({ask.writers} x {ask.write_gbps:g} GB/s) = {duration_text(write.expected)}"
    sheet.figure("writing a checkpoint", write, "s", text)
    return write


def _notice(ask: Checkpointing, write: Range, sheet: Sheet) -> None:
    if ask.notice_seconds is None:
        return
    sheet.given("notice", duration_text(ask.notice_seconds), ask.notice_from)
    took, notice = duration_text(write.expected), duration_text(ask.notice_seconds)
    if write.high <= ask.notice_seconds:
        sheet.remark(
            f"A last checkpoint of {took} fits into the notice of {notice}: what it saves need not be done again."
        )
    else:
        sheet.remark(f"A last checkpoint of {took} does not fit into the notice of {notice}: count on the one before.")


def _down(ask: Checkpointing, table: Hardware, sheet: Sheet) -> Range:
    """Seconds from an event to the next step."""
    restart = table.checkpoint.restart_seconds
    if ask.restart_seconds is None:
        text = f"{duration_text(restart.low)} to {duration_text(restart.high)}"
        sheet.constant("restart", text, table.checkpoint.source)
    else:
        restart = exactly(ask.restart_seconds)
        sheet.given("restart", duration_text(ask.restart_seconds), "--restart")
    return over(lambda seconds: seconds + (ask.timeout_seconds or 0.0), restart)


def _event(ask: Checkpointing, sheet: Sheet) -> float | None:
    mtbf = ask.event_seconds
    if mtbf is not None:
        origin = "--mtbf"
        if ask.preemptions_per_day:
            origin = f"--preemptions-per-day {ask.preemptions_per_day:g}"
        sheet.given("time between events", duration_text(mtbf), origin)
    return mtbf


def _best_interval(write: Range, mtbf: float, table: Hardware, sheet: Sheet) -> Range:
    simple, full = young(write.expected, mtbf), daly(write.expected, mtbf)
    if full <= simple * (1 + table.checkpoint.young_below):
        best, name = over(lambda seconds: young(seconds, mtbf), write), "Young"
        text = f"sqrt(2 x {write.expected:.4g} s x {mtbf:.5g} s) = {best.expected:.4g} s (Young)"
    else:
        best, name = over(lambda seconds: daly(seconds, mtbf), write), "Daly"
        text = (
            f"sqrt(2 x {write.expected:.4g} s x {mtbf:.5g} s) x (1 + s/3 + s^2/9), s = sqrt({write.expected:.4g} / "
            f"(2 x {mtbf:.5g})): {best.expected:.4g} s (Daly; Young's {simple:.4g} s is too short here)"
        )
        if write.expected >= 2 * mtbf:
            text = f"{mtbf:.5g} s + {write.expected:.4g} s = {best.expected:.4g} s (Daly, for long checkpoints)"
    sheet.details["interval_by"] = name
    sheet.figure("best interval", best, "s", text)
    return best


def _losses(
    ask: Checkpointing, write: Range, mtbf: float, down: Range, best: Range, stops_from: float, sheet: Sheet
) -> None:
    """Shares of the time, an event, a day; at the given interval, else at the best."""
    interval = best
    if ask.interval_seconds is not None:
        interval = exactly(ask.interval_seconds)
        sheet.given("interval", duration_text(ask.interval_seconds), "--interval")
        _lost_share("lost at the best interval", best, write, mtbf, down, sheet)
    if not _can_finish(interval.expected, write, sheet):
        sheet.figure(
            "lost share", exactly(100.0), "%", f"{write.expected:.4g} s / {interval.expected:.4g} s: nothing is left"
        )
        return
    lost = _lost_share("lost share", interval, write, mtbf, down, sheet)
    three = [shares(t, w, mtbf, d) for t, w, d in zip(interval, write, down, strict=True)]
    t, w, d = interval.expected, write.expected, down.expected
    up, kept = exp(-d / mtbf), work_kept(t, mtbf)
    for name, part, text in zip(
        ("- writing", "- work done again", "- restarts"),
        zip(*three, strict=True),
        (f"{up:.4g} x {kept:.4g} x {w:.4g} / {t:.4g}", f"{up:.4g} x (1 - {kept:.4g})", f"1 - {up:.4g}"),
        strict=True,
    ):
        value = Range(min(part), part[1], max(part)).scale(100)
        sheet.figure(name, value, "%", f"{text} = {value.expected:.3g} %")
    if lost.expected > stops_from:
        sheet.remark("The job in effect stands still: next to none of its time is left for new work.")

    rework = over(lambda seconds: rework_seconds(seconds, mtbf), interval)
    event = over(lambda again, waiting: again + waiting, rework, down)
    text = f"{rework.expected:.4g} s of work + {down.expected:.4g} s until the next step = {event.expected:.4g} s"
    sheet.figure("lost per event", event, "s of each GPU", text)
    if ask.gpus is not None:
        _cost(ask, "per event", event.scale(1 / 3600), f"{event.expected:.4g} s / 3600", sheet)
        _cost(ask, "per day", lost.scale(24), f"24 h x {100 * lost.expected:.3g} %", sheet)


def _can_finish(interval: float, write: Range, sheet: Sheet) -> bool:
    """Is a checkpoint done before the next one begins?"""
    every, took = duration_text(interval), duration_text(write.expected)
    sheet.details["can_finish"] = done = write.expected < interval
    if not done:
        sheet.remark(f"An interval of {every} cannot even finish: writing a checkpoint takes {took}.")
    elif write.high >= interval:
        sheet.remark(f"An interval of {every} may not even finish: writing takes up to {duration_text(write.high)}.")
    return done


def _lost_share(name: str, interval: Range, write: Range, mtbf: float, down: Range, sheet: Sheet) -> Range:
    """The share itself; the figure is in %."""
    t, w, d = interval.expected, write.expected, down.expected
    lost = over(lambda *values: shares(values[0], values[1], mtbf, values[2]).lost, interval, write, down)
    first = w / t + t / (2 * mtbf) + d / mtbf
    text = (
        f"1 - (1 - {w:.4g} / {t:.4g}) x x/(e^x - 1) x e^(-{d:.4g} / {mtbf:.5g}), x = {t:.4g} / {mtbf:.5g}: "
        f"{100 * lost.expected:.3g} %; to first order {w:.4g} / {t:.4g} + {t:.4g} / (2 x {mtbf:.5g}) + {d:.4g} / "
        f"{mtbf:.5g} = {100 * first:.3g} %"
    )
    sheet.figure(name, lost.scale(100), "%", text)
    return lost


def _cost(ask: Checkpointing, when: str, hours: Range, text: str, sheet: Sheet) -> None:
    """GPU-hours and dollars of a time that all GPUs of the job lose."""
    if ask.gpus is None:
        return
    gpu_hours = hours.scale(ask.gpus)
    sheet.figure(
        f"GPU-hours {when}", gpu_hours, "GPU-hours", f"{ask.gpus} x {text} = {gpu_hours.expected:.4g} GPU-hours"
    )
    if ask.gpu_price is not None:
        dollars = gpu_hours.scale(ask.gpu_price)
        formula = f"{gpu_hours.expected:.4g} GPU-hours x ${ask.gpu_price:.2f} = ${dollars.expected:.4g}"
        sheet.figure(f"cost {when}", dollars, "$", formula)


def _watchdog(ask: Checkpointing, table: Hardware, sheet: Sheet) -> None:
    """What it costs that a dead peer is noticed by the watchdog only."""
    if ask.gpus is None:
        return
    seconds = table.watchdog.seconds
    if ask.timeout_seconds is None:
        sheet.constant("timeout of the watchdog", duration_text(seconds), table.watchdog.source)
        sheet.remark("What the watchdog waits is not in the other figures: --timeout adds it to every event.")
    else:
        seconds = ask.timeout_seconds
        sheet.given("timeout of the watchdog", duration_text(seconds), "--timeout")
    _cost(ask, "per timeout", exactly(seconds / 3600), f"{seconds:.4g} s / 3600", sheet)


def _missing(ask: Checkpointing, write: Range | None, sheet: Sheet) -> None:
    missing = []
    if write is None and (ask.params or ask.state_bytes):
        missing.append("--write-gbps or --write-time")
    elif write is None:
        missing.append("--params and --write-gbps, or --write-time")
    if ask.event_seconds is None:
        missing.append("--mtbf or --preemptions-per-day")
    if ask.gpus is None:
        missing.append("--gpus")
    elif ask.gpu_price is None:
        missing.append("--gpu-price")
    if missing:
        sheet.remark(f"Not told, so what needs it is left out: {', '.join(missing)}.")
