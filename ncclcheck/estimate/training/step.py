"""What the collectives of a training step take, and what slow ones cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.estimates import MEASURED
from ncclcheck.estimate.figures import ASSUMED, Given
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.model import Model, call_seconds
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.quantities import size_text
from ncclcheck.estimate.ranges import Range, spread, total
from ncclcheck.estimate.training.money import Loss, loss
from ncclcheck.estimate.training.parallelism import Place
from ncclcheck.estimate.training.step_time import Calls, Load, Timed, Timing, timing_of
from ncclcheck.estimate.training.workload import Collective, Workload
from ncclcheck.facts.busbw import busbw_factor

RINGS = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}  # each carried by one ring


@dataclass(frozen=True, slots=True)
class CollectiveSeconds:
    """One collective of a step: seconds of all its calls by one rank.

    place: where the ranks lie, for people. limit_*: what binds. formula: the arithmetic, healthy and actual.
    """

    name: str
    op: str
    nbytes: float
    calls: float
    ranks: int
    place: str
    healthy: Range
    actual: Range
    limit_healthy: str
    limit_actual: str
    formula: str


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Communication of one step (per_step) or of the calls that the log saw, in seconds of one rank, and what follows.

    timing: None where neither the step time nor the compute time is known. loss: None without a timing.
    """

    per_step: bool
    collectives: tuple[CollectiveSeconds, ...]
    comm_healthy: Range
    comm_actual: Range
    timing: Timing | None = None
    loss: Loss | None = None
    inputs: tuple[Given, ...] = ()
    remarks: tuple[str, ...] = ()


class Reached(NamedTuple):
    """Bus bandwidth in GB/s that a collective of the whole job was measured to reach."""

    op: str
    busbw: Range


def group_of(config: Config, collective: Collective) -> tuple[Config, Place]:
    """The configuration of the ranks that a collective is among, and where they lie in the job's."""
    place = collective.place(config.gpus_per_node)
    group = replace(
        config,
        nodes=place.nodes,
        gpus_per_node=place.gpus_per_node,
        sharing=place.sharing if place.nodes > 1 else 1,
        collective=collective.op,
    )
    return group, place


def timed(model: Model, config: Config, collective: Collective, measured: Reached | None = None) -> Timed:
    """The calls of one rank on a job of this configuration. Raises NotModelledError.

    measured: what the whole job reaches. Between nodes it holds for the same collective, for all that rings carry where
    rings were measured, and no other reaches more.
    """
    group, place = group_of(config, collective)
    modelled = model.at(group, max(1, round(collective.nbytes)))
    busbw, limit = modelled.busbw, modelled.limit
    if measured is not None and (place.nodes > 1 or config.nodes == 1):
        share = measured.busbw.scale(1 / group.sharing)
        if _is_of(measured, collective.op, model, config) or share.expected < busbw.expected:
            busbw, limit = share, MEASURED
    factor = busbw_factor(collective.op, collective.ranks)
    seconds = call_seconds(busbw, collective.calls * collective.nbytes, collective.op, collective.ranks)
    text = (
        f"{collective.calls:.4g} x {size_text(collective.nbytes)} x {factor:.4g} / {busbw.expected:.3g} GB/s ({limit},"
        f" {place}) = {seconds.expected:.3g} s"
    )
    return Timed(seconds, place, limit, text)


def _is_of(measured: Reached, op: str, model: Model, config: Config) -> bool:
    """Does this collective go the way that was measured?"""
    if measured.op == op:
        return True
    whole = model.plateau(replace(config, collective=measured.op))
    return whole.algorithm == "ring" and {measured.op, op} <= RINGS


def of_configs(
    sides: Sequence[tuple[Config, Config]],
    workload: Workload,
    options: EstimateOptions,
    model: Model,
    actual: Reached | None = None,
    healthy: Reached | None = None,
) -> StepEstimate:
    """The step on every configuration that fits, before and after a change.

    actual, healthy: what was measured of the job as it is, and as it should be. Raises NotModelledError where the model
    has no number for any of them.
    """
    loads: dict[Load, None] = {}
    refused = NotModelledError("no configuration fits")
    one_of = lru_cache(maxsize=None)(partial(timed, model))  # configurations differ in what some collectives never see
    for before, after in sides:
        try:
            calls = tuple(
                Calls(one, one_of(before, one, healthy), one_of(after, one, actual)).never_faster()
                for one in workload.collectives
            )
        except NotModelledError as error:
            refused = error
            continue
        loads[Load(calls, model.table.gpus[after.gpu].bf16_tflops)] = None
    if not loads:
        raise refused
    return estimate(list(loads), workload, options, model.table)


def estimate(loads: Sequence[Load], workload: Workload, options: EstimateOptions, table: Hardware) -> StepEstimate:
    """From the collectives on every configuration that fits. loads: one at least."""
    collectives = tuple(_joined([load.calls[at] for load in loads]) for at in range(len(workload.collectives)))
    healthy, actual = (
        spread([total([getattr(calls, side).seconds for calls in load.calls]) for load in loads])
        for side in ("healthy", "actual")
    )
    result = StepEstimate(
        workload.per_step, collectives, healthy, actual, inputs=workload.givens, remarks=workload.remarks
    )
    if not workload.per_step:
        return result
    if options.step_seconds is None and workload.flops is None:
        needs = "the time of a step and its cost need --step-time, or --tokens-per-gpu to estimate its compute time"
        return replace(result, remarks=(*workload.remarks, needs))
    timing, lost = timing_of(loads, workload, options, table)
    day_share = 1.0 if options.day_share is None else options.day_share
    priced = [
        Given("share of the day in such steps", f"{day_share:g}", "--day-share" if options.day_share else ASSUMED)
    ]
    if options.gpu_price is not None:
        priced.append(Given("price of a GPU and hour", f"${options.gpu_price:g}", "--gpu-price"))
    return replace(
        result,
        timing=timing,
        loss=loss(lost, workload.ranks, day_share, options.gpu_price, table.training.stops_from),
        inputs=(*workload.givens, *timing.inputs, *priced),
        remarks=(*workload.remarks, *timing.remarks),
    )


def _joined(same: Sequence[Calls]) -> CollectiveSeconds:
    """One collective over all configurations; the arithmetic is that of the middle one."""
    one = same[0].collective
    healthy, actual = (spread([getattr(calls, side).seconds for calls in same]) for side in ("healthy", "actual"))
    middle = min(same, key=lambda calls: abs(calls.actual.seconds.expected - actual.expected))
    texts = dict.fromkeys((middle.healthy.formula, middle.actual.formula))
    return CollectiveSeconds(
        name=one.name,
        op=one.op,
        nbytes=one.nbytes,
        calls=one.calls,
        ranks=one.ranks,
        place=str(middle.actual.place),
        healthy=healthy,
        actual=actual,
        limit_healthy=middle.healthy.limit,
        limit_actual=middle.actual.limit,
        formula=" -> ".join(texts) + (f"; {one.volume}" if one.volume else ""),
    )
