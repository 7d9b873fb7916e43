"""Gradient synchronisation of data parallelism: bytes, bandwidth, seconds, and the part that a step cannot hide.

One all_reduce of all gradients, or of one bucket after the other. Bandwidth comes from the model for the job that the
flags describe, or from a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

from ncclcheck.estimate.figures import Answer, Sheet
from ncclcheck.estimate.model import Model, call_seconds
from ncclcheck.estimate.options import DTYPE_BYTES
from ncclcheck.estimate.quantities import LONGEST_SECONDS, between, count_text, duration_text, rate_text, size_text
from ncclcheck.estimate.questions.bandwidth import bandwidth
from ncclcheck.estimate.questions.changes import Change
from ncclcheck.estimate.questions.job import Job
from ncclcheck.estimate.ranges import Range, exactly, over

LEAST_OVERLAP = 0.01  # below, no length of a step hides anything worth a number


@dataclass(frozen=True, slots=True)
class Sync:
    """A model whose gradients are synchronised, and the job that does it. None: not told.

    gpus: of the whole job. bucket_bytes: of one all_reduce; None: all gradients at once. busbw_gbps: measured.
    overlap: share of the computation that synchronisation can hide behind. compute_seconds: of a step.
    Raises ValueError on impossible values.
    """

    params: float
    dtype: str = "bf16"
    job: Job = field(default_factory=Job)
    gpus: int | None = None
    bucket_bytes: float | None = None
    busbw_gbps: float | None = None
    overlap: float | None = None
    compute_seconds: float | None = None

    def __post_init__(self) -> None:
        between(self.params, 1, 1e15, "--params")
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"--dtype: unknown data type {self.dtype!r}; known: {', '.join(DTYPE_BYTES)}")
        for flag, value, low, high in (
            ("--gpus", self.gpus, 2, 1e7),
            ("--bucket in bytes", self.bucket_bytes, 1, 1e16),
            ("--busbw", self.busbw_gbps, 1e-6, 1e6),
            ("--overlap", self.overlap, 0, 1),
            ("--compute-time in seconds", self.compute_seconds, 1e-6, LONGEST_SECONDS),
        ):
            if value is not None:
                between(value, low, high, flag)

    @property
    def bytes(self) -> int:
        return max(1, round(self.params * DTYPE_BYTES[self.dtype]))

    def whole_job(self) -> Job:
        """The job with nodes and GPUs per node, as far as they are told. Raises ValueError if they contradict."""
        job = self.job
        if self.gpus is None:
            return job
        for flag, parts in (("--gpus-per-node", job.gpus_per_node), ("--nodes", job.nodes)):
            if parts and self.gpus % parts:
                raise ValueError(f"--gpus {self.gpus} cannot be divided by {flag} {parts}")
        if job.nodes and job.gpus_per_node and job.nodes * job.gpus_per_node != self.gpus:
            raise ValueError(
                f"--gpus {self.gpus} is not --nodes {job.nodes} x --gpus-per-node {job.gpus_per_node}; "
                "two of the three are enough"
            )
        if job.gpus_per_node:
            return replace(job, nodes=self.gpus // job.gpus_per_node)
        return replace(job, gpus_per_node=self.gpus // job.nodes) if job.nodes else job

    def ranks(self) -> int | None:
        job = self.whole_job()
        return self.gpus or (job.nodes * job.gpus_per_node if job.nodes and job.gpus_per_node else None)


class _Reached(NamedTuple):
    """busbw in GB/s, seconds of one all_reduce, where both come from, the limit that binds ("": measured)."""

    busbw: Range
    seconds: Range
    formula: str
    seconds_formula: str
    limit: str


def exposed(sync: Range, compute: float, overlap: Range) -> Range:
    """Seconds of the synchronisation that stay when the overlappable share of the computation hides the rest."""
    return Range(
        max(0.0, sync.low - overlap.high * compute),
        max(0.0, sync.expected - overlap.expected * compute),
        max(0.0, sync.high - overlap.low * compute),
    )


def synchronisation(ask: Sync, model: Model, changes: Sequence[Change] = ()) -> Answer:
    """The whole answer. changes: what-ifs put on the job. Raises ValueError with a sentence for people."""
    sheet, size = Sheet(), ask.bytes
    each = DTYPE_BYTES[ask.dtype]
    sheet.given("parameters", count_text(ask.params), "--params")
    sheet.given("data type of gradients", ask.dtype, "--dtype, default" if ask.dtype == "bf16" else "--dtype")
    text = f"{count_text(ask.params)} x {each} B = {size_text(size)}"
    sheet.figure("gradients", exactly(size / 1e9), "GB", text)

    message = size if ask.bucket_bytes is None else min(size, round(ask.bucket_bytes))
    messages = ceil(size / message)
    reached = _measured(ask, message, sheet) if ask.busbw_gbps else _modelled(ask, message, model, changes, sheet)
    sheet.details |= {"bytes": size, "limit": reached.limit}
    sheet.figure("busbw", reached.busbw, "GB/s", reached.formula)
    total = reached.seconds.scale(size / message)
    formula = reached.seconds_formula
    if messages > 1:
        sheet.given("bucket", size_text(message), "--bucket")
        formula = f"{size / message:.4g} x ({formula}) = {duration_text(total.expected)}"
    sheet.figure("gradient sync", total, "s", formula)
    if reached.limit:
        sheet.remark(f"The limit is {reached.limit}.")
    _hidden(ask, total, model, sheet)
    ranks = ask.ranks()
    where = "" if ranks is None else f" over {ranks} GPUs"
    what_if = "".join(f", {change.name}" for change in changes)
    title = f"Gradient synchronisation of {count_text(ask.params)} parameters in {ask.dtype}{where}{what_if}"
    return sheet.answer(title)


def _measured(ask: Sync, message: int, sheet: Sheet) -> _Reached:
    ranks = ask.ranks()
    if ranks is None:
        raise ValueError("how large is the job? Give --gpus, or --nodes and --gpus-per-node")
    if ranks < 2:
        raise ValueError("one GPU has nobody to synchronise with")
    busbw = exactly(ask.busbw_gbps or 0.0)
    sheet.given("GPUs", str(ranks), "--gpus" if ask.gpus else "--nodes x --gpus-per-node")
    sheet.given("busbw", f"{busbw.expected:g} GB/s", "--busbw, measured")
    seconds = call_seconds(busbw, message, "all_reduce", ranks)
    formula = (
        f"{size_text(message)} x 2 x {ranks - 1}/{ranks} / {rate_text(busbw.expected)} GB/s = "
        f"{duration_text(seconds.expected)}"
    )
    return _Reached(busbw, seconds, f"measured {busbw.expected:g} GB/s", formula, "")


def _modelled(ask: Sync, message: int, model: Model, changes: Sequence[Change], sheet: Sheet) -> _Reached:
    job = ask.whole_job()
    if job.nodes == 1 and job.gpus_per_node == 1:
        raise ValueError("one GPU has nobody to synchronise with")
    if ask.gpus and job.nodes is None:
        raise ValueError("how are the GPUs laid out? Give --gpus-per-node or --nodes beside --gpus, or --busbw")
    found = bandwidth(job, message, model, changes)
    sheet.givens += found.answer.givens
    for change in changes:
        sheet.given("what if", change.name, "--with, --without")
    sheet.remarks += found.answer.remarks
    point = found.after or found.before
    suffix = " after" if found.after else ""
    texts = {one.name: one.formula for one in found.answer.figures}
    return _Reached(point.busbw, point.seconds, texts["busbw" + suffix], texts["time" + suffix], point.limit)


def _hidden(ask: Sync, total: Range, model: Model, sheet: Sheet) -> None:
    """How much of it a step cannot hide, or how long a step has to compute to hide it."""
    if ask.overlap is None:
        share = model.table.overlap["ddp"]
        text = f"{100 * share.low:g} to {100 * share.high:g} % of the computation"
        sheet.constant("overlap", text, model.table.sources["overlap"])
    else:
        share = exactly(ask.overlap)
        sheet.given("overlap", f"{100 * ask.overlap:g} % of the computation", "--overlap")
    if ask.compute_seconds is None:
        if share.low >= LEAST_OVERLAP:
            hides = Range(total.low / share.high, total.expected / share.expected, total.high / share.low)
            text = f"{duration_text(total.expected)} / {share.expected:g} = {duration_text(hides.expected)}"
            sheet.figure("computation that hides it", hides, "s", text)
        return
    compute = ask.compute_seconds
    sheet.given("computation of a step", duration_text(compute), "--compute-time")
    left = exposed(total, compute, share)
    text = (
        f"max(0, {duration_text(total.expected)} - {share.expected:g} x {duration_text(compute)}) = "
        f"{duration_text(left.expected) if left.expected else '0 s'}"
    )
    sheet.figure("exposed", left, "s", text)
    step = over(lambda seconds: compute + seconds, left)
    text = f"{duration_text(compute)} + {left.expected:.3g} s = {duration_text(step.expected)}"
    sheet.figure("step", step, "s", text)
    kept = over(lambda seconds: compute / seconds, step)
    text = f"{duration_text(compute)} / {duration_text(step.expected)} = {100 * kept.expected:.3g} %"
    sheet.figure("scaling efficiency", kept.scale(100), "%", text)
