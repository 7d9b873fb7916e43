"""What should a job get, and what would a change leave: bandwidth and time of a message, with reasons.

Bandwidth is in GB/s of 10^9 bytes, as nccl-tests counts it; seconds are those of one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ncclcheck.estimate.comparison import one_of
from ncclcheck.estimate.config import Config
from ncclcheck.estimate.figures import Answer, Figure, Given
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.model import Model, Plateau
from ncclcheck.estimate.quantities import rate_text, size_text
from ncclcheck.estimate.questions.changes import WITH, Change
from ncclcheck.estimate.questions.job import Job, Setup, message_text, set_up
from ncclcheck.estimate.questions.what_if import Compared, Point, Rung, rungs
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.sources import constants
from ncclcheck.facts.busbw import busbw_factor

SIZES = tuple(1024 * 4**step for step in range(13))  # 1 KiB to 16 GiB


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """before, after: at the size that was asked for; after and slowdown are None without a change.

    beside: a job on sockets as a change of the same job with RDMA, if its NICs are told.
    """

    answer: Answer
    before: Point
    curve: tuple[Point, ...]
    after: Point | None = None
    slowdown: Range | None = None
    curve_after: tuple[Point, ...] = ()
    ladder: tuple[Rung, ...] = ()
    beside: Bandwidth | None = None


def bandwidth(job: Job, size: int, model: Model, changes: Sequence[Change] = ()) -> Bandwidth:
    """The whole answer. size: bytes of the message. Raises ValueError with a sentence for people."""
    setup = set_up(job, model.table)
    if not changes:
        whole = Compared(model, setup.configs, ())
        before, _ = whole.at(size)
        curve = tuple(whole.at(one)[0] for one in SIZES)
        document, beside = _document(whole, size, curve), None
        if job.network == "socket" and job.nodes != 1 and job.nics and job.nic_gbit:
            beside = bandwidth(replace(job, network="ib"), size, model, (WITH["sockets"],))
            document["what_if"] = beside.answer.details["what_if"]
        answer = _answer(job, setup, size, whole, _figures(whole, size), document)
        return Bandwidth(answer, before, curve, beside=beside)
    whole = Compared(model, setup.configs, changes)
    before, after = whole.at(size)
    curves = [whole.at(one) for one in SIZES]
    curve, curve_after = tuple(one for one, _ in curves), tuple(one for _, one in curves)
    ladder = tuple(rungs(whole, setup.configs, size)) if len(changes) > 1 else ()
    slowdown = whole.slowdown(size)
    document = _document(whole, size, curve)
    document["what_if"] = {
        "changes": [change.name for change in changes],
        "before": _row(before),
        "after": _row(after),
        "slowdown": slowdown._asdict(),
        "config": asdict(whole.middle(size).after),
        "curve": [_row(point) for point in curve_after],
        "ladder": [
            {"change": rung.change.name, "alone": _row(rung.alone), "mended": _row(rung.mended)} for rung in ladder
        ],
    }
    answer = _answer(job, setup, size, whole, _figures_of_change(whole, size, slowdown), document)
    return Bandwidth(answer, before, curve, after, slowdown, curve_after, ladder)


def _answer(
    job: Job, setup: Setup, size: int, whole: Compared, figures: tuple[Figure, ...], document: dict[str, Any]
) -> Answer:
    remarks = []
    if setup.assumed:
        remarks.append("assumed: " + "; ".join(f"{given.name} {given.value}" for given in setup.assumed))
    remarks += _on_racks(job, setup, whole.model.table)
    if setup.narrowing:
        remarks.append(f"{' '.join(setup.narrowing)} would narrow the range")
    if job.network not in ("", "mnnvl") and all(config.nodes == 1 for config in setup.configs):
        remarks.append("one node: the network plays no part")
    sides = whole.sides(size)
    if job.algorithm and not any(job.algorithm in side.healthy.algorithm for side in sides):
        remarks.append(f"the model has no number for {job.algorithm} here: it is that of {sides[0].healthy.algorithm}")
    changed = [Given(change.what, change.told, f"--{change.name.partition(' ')[0]}") for change in whole.changes]
    used = [config for side in sides for config in (side.before, side.after)]
    return Answer(
        title=f"{job.collective} of {message_text(size)} on {_job_text(job, setup)}",
        figures=figures,
        givens=(
            *setup.givens,
            *changed,
            *constants(used, [plateau for side in sides for plateau in (side.healthy, side.actual)], whole.model.table),
        ),
        remarks=tuple(remarks),
        details=document,
    )


def _on_racks(job: Job, setup: Setup, table: Hardware) -> Iterator[str]:
    """NCCL's node is the rack where NVLink joins the nodes of one; flags cannot tell unless they are told."""
    one = setup.configs[0]
    if job.network == "mnnvl":
        racks = f"{one.nodes} NVLink rack{'' if one.nodes == 1 else 's'} of {one.gpus_per_node} GPUs"
        yield f"{job.nodes} nodes of {job.gpus_per_node} GPUs are {racks}, each one node for NCCL"
    elif table.gpus[one.gpu].in_rack and one.nodes > 1 and one.gpus_per_node <= table.racks.tray_gpus:
        yield "if NVLink joins these nodes in a rack, say --transport MNNVL"


def _job_text(job: Job, setup: Setup) -> str:
    """`2 x 8 H100 SXM, 8 x 400 Gb/s IB`."""
    values = {given.name: given.value for given in setup.givens}
    text = f"{values['nodes']} x {values['GPUs per node']} {values['GPU']}"
    if "network" in values:
        nics = f"{values['NICs per node']} x {values['NIC rate']} " if "NIC rate" in values else ""
        text += f", {nics}{values['network']}"
    return text


def _figures(whole: Compared, size: int) -> tuple[Figure, ...]:
    point, _ = whole.at(size)
    side, more = whole.middle(size), one_of(len(whole.sides(size)))
    return (
        Figure("busbw", point.busbw, "GB/s", side.healthy.formula + more),
        Figure("algbw", point.algbw, "GB/s", _algbw_formula(side.before, side.healthy) + more),
        Figure("time", point.seconds, "s", _seconds_formula(side.before, side.healthy, size) + more),
    )


def _figures_of_change(whole: Compared, size: int, slowdown: Range) -> tuple[Figure, ...]:
    before, after = whole.at(size)
    side, more = whole.middle(size), one_of(len(whole.sides(size)))
    h, a = side.healthy.busbw.expected, side.actual.busbw.expected
    return (
        Figure("busbw before", before.busbw, "GB/s", side.healthy.formula + more),
        Figure("busbw after", after.busbw, "GB/s", side.actual.formula + more),
        Figure("slowdown", slowdown, "x", f"{rate_text(h)} / {rate_text(a)} GB/s = {h / a:.3g}{more}"),
        Figure("time before", before.seconds, "s", _seconds_formula(side.before, side.healthy, size) + more),
        Figure("time after", after.seconds, "s", _seconds_formula(side.after, side.actual, size) + more),
    )


def _algbw_formula(config: Config, reached: Plateau) -> str:
    factor, busbw = busbw_factor(config.collective, config.ranks), reached.busbw.expected
    return f"{rate_text(busbw)} GB/s / {factor:.4g} = {rate_text(busbw / factor)} GB/s"


def _seconds_formula(config: Config, reached: Plateau, size: int) -> str:
    factor, busbw = busbw_factor(config.collective, config.ranks), reached.busbw.expected
    return f"{size_text(size)} x {factor:.4g} / {rate_text(busbw)} GB/s = {size * factor / 1e9 / busbw:.3g} s"


def _document(whole: Compared, size: int, curve: Sequence[Point]) -> dict[str, Any]:
    side = whole.middle(size)
    return {
        "bytes": size,
        **{key: value for key, value in _row(whole.at(size)[0]).items() if key in ("limit", "algorithm")},
        "config": asdict(side.before),
        "configurations": len({one.before for one in whole.sides(size)}),
        "curve": [_row(point) for point in curve],
    }


def _row(point: Point) -> dict[str, Any]:
    return {
        "bytes": point.size,
        "seconds": point.seconds._asdict(),
        "algbw_gbps": point.algbw._asdict(),
        "busbw_gbps": point.busbw._asdict(),
        "limit": point.limit,
        "algorithm": point.algorithm,
    }
