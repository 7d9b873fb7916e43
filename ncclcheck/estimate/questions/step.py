"""The training step of a job that flags tell of, before it runs: `ncclcheck estimate step`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ncclcheck.estimate.config import NotModelledError
from ncclcheck.estimate.figures import Answer, Figure
from ncclcheck.estimate.model import Model
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.questions.changes import Change, apply
from ncclcheck.estimate.questions.job import Job, set_up
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.step import StepEstimate, of_configs
from ncclcheck.estimate.training.workload import of_plan


def planned_step(job: Job, options: EstimateOptions, model: Model, changes: Sequence[Change] = ()) -> Answer:
    """With the changes, before and after them. Raises ValueError with a sentence where too little is told."""
    if options.params is None:
        raise ValueError("a step needs --params: the parameters of the model")
    setup = set_up(job, model.table)
    ranks = {config.ranks for config in setup.configs}
    if options.plan is None and len(ranks) > 1:
        raise ValueError("how many ranks? Give --nodes and --gpus-per-node, or --parallel")
    workload = of_plan(options, model.table.training, ranks.pop() if len(ranks) == 1 else None)
    try:
        sides = [(before, after) for before in setup.configs for after in apply(changes, before, model.table)]
        step = of_configs(sides, workload, options, model)
    except NotModelledError as error:
        raise ValueError(f"the model has no number for this step: {error}") from None
    told = " and ".join(change.name for change in changes)
    return Answer(
        title=f"{workload.ranks} GPUs, {options.plan or 'data parallel'}{f', {told}' if told else ''}: a training step",
        figures=tuple(_figures(step, told)),
        givens=(*setup.givens, *step.inputs),
        remarks=(*step.remarks, *_unpriced(options, told)),
    )


def _unpriced(options: EstimateOptions, told: str) -> Iterator[str]:
    if options.gpu_price is not None and not told:
        yield "The price is that of a change: --without or --with tells which."


def _figures(step: StepEstimate, told: str) -> Iterator[Figure]:
    """told: the changes by their names; "" for none, and then there is one side only."""
    for one in step.collectives:
        yield from _sides(one.name, one.healthy, one.actual, "s", one.formula, told)
    whole = " + ".join(f"{one.actual.expected:.3g}" for one in step.collectives)
    yield from _sides("communication", step.comm_healthy, step.comm_actual, "s", f"{whole} s", told)
    timing, lost = step.timing, step.loss
    if timing is None or lost is None:
        return
    yield Figure("compute time", timing.compute, "s", timing.compute_formula)
    yield from _sides("step time", timing.step_healthy, timing.step_actual, "s", timing.formula, told)
    share = "1 - (compute and idle time) / step time"
    yield from _sides("exposed share", timing.exposed_healthy, timing.exposed_actual, "of the step", share, told)
    efficiency = "compute time / step time"
    yield from _sides("scaling efficiency", timing.efficiency_healthy, timing.efficiency_actual, "", efficiency, told)
    before, after = timing.tokens_per_second_healthy, timing.tokens_per_second_actual
    if before is not None and after is not None:
        yield from _sides("tokens", before, after, "per second", "tokens of a step / step time", told)
    if told:
        yield Figure("lost share", lost.share, "of the time", "1 - step time before / after")
        yield Figure("lost GPU-hours", lost.gpu_hours, "per day", lost.formula)
        if lost.dollars is not None:
            yield Figure("lost money", lost.dollars, "$ per day", lost.formula)


def _sides(name: str, healthy: Range, actual: Range, unit: str, formula: str, told: str) -> Iterator[Figure]:
    yield Figure(name, healthy, unit, formula)
    if told and actual != healthy:
        yield Figure(f"  {told}", actual, unit, formula)
