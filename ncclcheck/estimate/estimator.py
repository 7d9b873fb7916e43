"""From a job's shape to what a change costs: bandwidth, slowdown, seconds per gradient synchronisation, GPU-hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ncclcheck.estimate.candidates import Candidates, candidates
from ncclcheck.estimate.comparison import Pair, busbw, middle, most_common, one_of
from ncclcheck.estimate.config import COLLECTIVES, Config, NotModelledError
from ncclcheck.estimate.estimates import MEASURED, Changes, Cost, Estimate, Expected
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.inputs import inputs_of
from ncclcheck.estimate.model import Model, Plateau, call_seconds, shipped_model
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.quantities import rate_text, size_text, with_range
from ncclcheck.estimate.ranges import Range, exactly, spread
from ncclcheck.estimate.training.latency_share import LatencyShare, latency_share
from ncclcheck.estimate.training.step import Reached, StepEstimate, of_configs
from ncclcheck.estimate.training.workload import Workload, of_plan
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

FROM_LOG = "modelled from log"
FROM_ASSUMPTIONS = "modelled from assumptions"

PRICE_NEEDS = "the price of slow steps needs --params, and --step-time or --tokens-per-gpu"

NETWORK_FIELDS = frozenset(
    {
        "network",
        "gdr",
        "nics",
        "nic_gbit",
        "tcp_gbit",
        "tcp_tuned",
        "redirect",
        "crossing_share",
        "oversubscription",
        "sharp",
        "channels",
        "effect",
    }
)

# Slower than this, and the model sees that a change costs something.
_FELT = 1.01


class Estimator:
    """Numbers for the findings of one job.

    A change is a mapping of Config fields, put on every candidate that the input allows. A value that is a tuple
    stands for "one of these" and widens the range. network="rdma" means the job's own RDMA network, InfiniBand if it
    shows none.
    """

    def __init__(
        self,
        shape: JobShape,
        options: EstimateOptions | None = None,
        model: Model | None = None,
        logged: Workload | None = None,
    ) -> None:
        """model: with the constants of a site; None: with those of the package. logged: calls that the log saw.

        Raises ValueError if options.gpu is not in the hardware table.
        """
        self.shape = shape
        self.model = model or shipped_model()
        self.options = options or EstimateOptions()
        self._why_not: str | None = None
        self._logged = logged
        self._why_no_step: str | None = None
        if self.options.gpu is not None:
            self.hardware.classes_of_flag(self.options.gpu)

    @property
    def why_not(self) -> str | None:
        """Why the last question gave None; a sentence for a finding's `no_estimate_because`."""
        return self._why_not

    @property
    def hardware(self) -> Hardware:
        return self.model.table

    def compare(self, healthy: Changes, actual: Changes) -> Estimate | None:
        """The job with `healthy` put on it against the job as it is, with `actual` put on it. None: see `why_not`.

        Where the job was measured and the model sees that the change costs something, the measurement stands for the
        job as it is.
        """
        found, pairs, sides = self._pairs(healthy, actual)
        if not pairs:
            return None
        inputs, assumed = inputs_of(found, pairs, healthy, actual, self.model)
        estimate = self._estimate(pairs, FROM_ASSUMPTIONS if assumed else FROM_LOG, inputs)
        estimate = replace(estimate, healthy_changes=healthy, actual_changes=actual)
        measured = self.shape.measured
        if measured is None or estimate.slowdown.expected < _FELT or not self._is_measured(pairs, actual):
            return replace(estimate, step=self._step(sides))
        point = Range(measured.least, measured.busbw, measured.most)
        fast = [pair for pair in pairs if pair.healthy.busbw.high >= measured.busbw]
        if fast and len(fast) < len(pairs):  # what cannot reach the measurement is not this job
            inputs["ruled out"] = (
                f"{len(pairs) - len(fast)} of {len(pairs)} configurations: slower than what was measured"
            )
            pairs, sides = fast, self._as_fast(sides, measured.busbw)
            estimate = self._estimate(pairs, estimate.basis, inputs)
        modelled = estimate.actual
        inputs["actual by the model"] = f"{with_range(modelled)} GB/s for this alone"
        estimate = self._estimate([_measured(pair, point, measured.where) for pair in pairs], MEASURED, inputs)
        return replace(
            estimate,
            alone=modelled,
            healthy_changes=healthy,
            actual_changes=actual,
            step=self._step(sides, Reached(measured.collective, point)),
        )

    def _is_measured(self, pairs: Sequence[Pair], actual: Changes) -> bool:
        """Is the measurement one of these configurations? Of a collective of rings it is where a ring is used."""
        measured, shape = self.shape.measured, self.shape
        here = {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, "collective": "all_reduce"}
        if any(name in actual and actual[name] != value for name, value in here.items()):
            return False
        rings = all(pair.actual.algorithm == "ring" for pair in pairs)
        return measured is not None and (measured.collective == "all_reduce" or rings)

    def expect(self, changes: Changes | None = None) -> Expected | None:
        """The plateau busbw of a collective, all_reduce if `changes` names none, of the job with them put on it."""
        changes = changes or {}
        found, pairs, _ = self._pairs(changes, changes)
        if not pairs:
            return None
        inputs, assumed = inputs_of(found, pairs, changes, changes, self.model)
        return Expected(
            busbw([pair.healthy for pair in pairs]),
            most_common(pair.healthy.limit for pair in pairs),
            FROM_ASSUMPTIONS if assumed else FROM_LOG,
            middle(pairs).healthy.formula,
            inputs,
        )

    def measured(self, healthy: Range, actual: float, ranks: int, where: str) -> Estimate:
        """Two measurements of bus bandwidth in GB/s against each other; nothing is modelled."""
        nbytes, slow = self.options.sync_bytes, exactly(actual)
        before, after = (call_seconds(rate, nbytes, "all_reduce", ranks) for rate in (healthy, slow))
        return Estimate(
            healthy=healthy,
            actual=slow,
            slowdown=healthy.scale(1 / actual),
            limit_healthy=MEASURED,
            limit_actual=MEASURED,
            basis=MEASURED,
            formula=f"measured {where}: {rate_text(healthy.expected)} and {rate_text(actual)} GB/s",
            sync_bytes=nbytes,
            sync_seconds_healthy=before,
            sync_seconds_actual=after,
            extra_seconds=Range(*(after.expected - one for one in reversed(before))),
        )

    def expect_of(self, measured: Measured, changes: Changes | None = None) -> Expected | None:
        """What the model has for the situation of a measurement (its collective, ranks and nodes) with the changes put
        on it. None: see `why_not`."""
        situation = self._situation(measured)
        return None if situation is None else self.expect({**situation, **(changes or {})})

    def against(self, measured: Measured) -> Estimate | None:
        """What the model has for the situation of a measurement (healthy) against the measurement. None: see
        `why_not`."""
        situation = self._situation(measured)
        found, pairs, _ = self._pairs(situation or {}, situation or {})
        if situation is None or not pairs:
            return None
        inputs, _ = inputs_of(found, pairs, situation, situation, self.model)
        point = Range(measured.least, measured.busbw, measured.most)
        return self._estimate([_measured(pair, point, measured.where) for pair in pairs], MEASURED, inputs)

    def _situation(self, measured: Measured) -> Changes | None:
        """Collective, nodes and ranks of a measurement, to be put on the job. None: see `why_not`."""
        self._why_not = None
        changes: dict[str, object] = {"collective": measured.collective}
        nodes, ranks = measured.nodes, measured.ranks
        if nodes and ranks and ranks % nodes == 0:
            changes |= {"nodes": nodes, "gpus_per_node": ranks // nodes}
        elif ranks != self._ranks() and measured != self.shape.measured:
            self._why_not = "the table does not tell on how many nodes it was measured"
        if measured.collective not in COLLECTIVES:
            self._why_not = f"the model has no number for {measured.collective}"
        return None if self._why_not else changes

    def step(self) -> StepEstimate | None:
        """The training step, or the calls that the log saw, on the job as it is. None: see `why_no_step`."""
        _, pairs, sides = self._pairs({}, {})
        self._why_no_step = self._why_not
        measured = self.shape.measured
        if measured is None or not self._is_measured(pairs, {}):
            return self._step(sides) if pairs else None
        reached = Reached(measured.collective, Range(measured.least, measured.busbw, measured.most))
        return self._step(self._as_fast(sides, measured.busbw), reached, reached)

    def latency_share(self, workload: Workload) -> LatencyShare | None:
        """How much of the time of these calls is latency, on the job as it is. None: see `why_not`."""
        _, pairs, sides = self._pairs({}, {})
        if not pairs:
            return None
        try:
            return latency_share(self.model, [config for config, _ in sides], workload)
        except NotModelledError as error:
            self._why_not = f"the model has no number for these calls: {error}"
            return None

    def _as_fast(self, sides: list[tuple[Config, Config]], busbw: float) -> list[tuple[Config, Config]]:
        """Those that could reach so many GB/s before the change; all of them if none can."""
        return [side for side in sides if self.model.plateau(side[0]).busbw.high >= busbw] or sides

    @property
    def why_no_step(self) -> str | None:
        """Why the last estimate has no step, although options describe one; None if they do not."""
        if self.options.wants_step:
            return self._why_no_step
        return None if self.options.gpu_price is None else PRICE_NEEDS

    def cost_of(self, estimate: Estimate) -> Cost:
        """Extra seconds that each gradient synchronisation takes, for an estimate that an Estimator made."""
        if estimate.extra_seconds is None:
            raise ValueError("the estimate has no seconds")
        return Cost(f"s per gradient sync of {size_text(estimate.sync_bytes)}", estimate.extra_seconds)

    def stops(self) -> Cost:
        """GPU-hours until someone notices a job that stands still; per GPU where the job's size is unknown."""
        hours, ranks = self.hardware.unnoticed_hours, self._ranks()
        if ranks is None:
            return self._priced("GPU-hours per GPU until noticed", hours)
        return self._priced("GPU-hours until noticed", hours.scale(ranks))

    def stood(self, seconds: float) -> Cost:
        """GPU-hours of a job that stood still for a known time; per GPU where the job's size is unknown."""
        hours, ranks = exactly(seconds / 3600), self._ranks()
        if ranks is None:
            return self._priced("GPU-hours per GPU until the watchdog fired", hours)
        return self._priced("GPU-hours until the watchdog fired", hours.scale(ranks))

    def at_each_init(self, seconds: float, ranks: int) -> Cost:
        """Seconds that so many ranks spend before their first collective, each time a job starts."""
        price, taken = self.options.gpu_price, exactly(seconds)
        return Cost("s at each init", taken, None if price is None else taken.scale(ranks * price / 3600))

    def _priced(self, unit: str, hours: Range) -> Cost:
        price = self.options.gpu_price
        return Cost(unit, hours, None if price is None else hours.scale(price))

    def _ranks(self) -> int | None:
        if self.shape.nranks:
            return self.shape.nranks
        if self.shape.nodes and self.shape.gpus_per_node:
            return self.shape.nodes * self.shape.gpus_per_node
        return None

    def _pairs(self, healthy: Changes, actual: Changes) -> tuple[Candidates, list[Pair], list[tuple[Config, Config]]]:
        """What fits the input, before and after: pairs that differ in their numbers, and all configurations of them."""
        self._why_not = None
        kind = self._rdma_kind(healthy, actual)
        touched = healthy.keys() | actual.keys()
        found = candidates(
            self.shape,
            self.options,
            self.hardware,
            kind=kind,
            networked=bool(NETWORK_FIELDS & touched),
            split="nodes" in touched,
        )
        if found.missing:
            self._why_not = found.missing
            return found, [], []
        pairs: dict[tuple[Plateau, Plateau, int], Pair] = {}  # configurations with equal numbers count once
        sides: list[tuple[Config, Config]] = []
        refusal = ""
        for base in found.configs:
            for before, after in product(_variants(base, healthy, kind), _variants(base, actual, kind)):
                try:
                    rates = self.model.plateau(before), self.model.plateau(after)
                except NotModelledError as error:
                    refusal = refusal or str(error)
                    continue
                pair = Pair(before, after, *rates, self._ranks() or before.ranks)
                pairs.setdefault((*rates, pair.ranks), pair)
                sides.append((before, after))
        if not pairs:
            self._why_not = f"the model has no number for this job: {refusal}"
        return found, list(pairs.values()), sides

    def _step(
        self,
        sides: Sequence[tuple[Config, Config]],
        actual: Reached | None = None,
        healthy: Reached | None = None,
    ) -> StepEstimate | None:
        """actual, healthy: what was measured of the job as it is, and as it should be."""
        workload = self._workload()
        if workload is None:
            return None
        try:
            return of_configs(sides, workload, self.options, self.model, actual, healthy)
        except NotModelledError as error:
            ranks = self._ranks()
            larger = f"{workload.ranks} ranks do not fit what the input shows of {ranks}: " if ranks else ""
            self._why_no_step = f"{larger if workload.ranks != ranks else ''}{error}"
            return None

    def _workload(self) -> Workload | None:
        """What the options describe, else what the log saw."""
        if not self.options.wants_step:
            return self._logged
        ranks = self._ranks()
        if self.options.plan is None and ranks is None:
            self._why_no_step = "the input does not tell how many ranks the job has: --parallel dp=... would"
            return None
        return of_plan(self.options, self.hardware.training, ranks)

    def _rdma_kind(self, healthy: Changes, actual: Changes) -> str:
        """The RDMA network that the question is about: one that a change names, else the job's, else InfiniBand."""
        named = (changes.get("network") for changes in (healthy, actual))
        return next(
            (name for name in (*named, self.shape.network) if isinstance(name, str) and name in self.hardware.networks),
            "ib",
        )

    def _estimate(self, pairs: Sequence[Pair], basis: str, inputs: Mapping[str, str]) -> Estimate:
        nbytes, one = self.options.sync_bytes, middle(pairs)
        return Estimate(
            healthy=busbw([pair.healthy for pair in pairs]),
            actual=busbw([pair.actual for pair in pairs]),
            slowdown=spread([pair.slowdown() for pair in pairs]),
            limit_healthy=most_common(pair.healthy.limit for pair in pairs),
            limit_actual=most_common(pair.actual.limit for pair in pairs),
            basis=basis,
            formula=f"healthy {one.healthy.formula}; actual {one.actual.formula}{one_of(len(pairs))}",
            inputs=inputs,
            sync_bytes=nbytes,
            sync_seconds_healthy=spread([pair.seconds(pair.healthy.busbw, nbytes) for pair in pairs]),
            sync_seconds_actual=spread([pair.seconds(pair.actual.busbw, nbytes) for pair in pairs]),
            extra_seconds=spread([pair.extra_seconds(nbytes) for pair in pairs]),
        )


def _measured(pair: Pair, busbw: Range, text: str) -> Pair:
    """The pair with a measurement for its actual side; the limit stays what the model says it is."""
    return replace(pair, actual=Plateau(busbw, pair.actual.limit, MEASURED, text))


def _variants(base: Config, changes: Changes, kind: str) -> Iterator[Config]:
    """`base` with the changes put on it, once for each combination of alternatives."""
    alternatives = [value if isinstance(value, tuple) else (value,) for value in changes.values()]
    for values in product(*alternatives):
        fields: dict[str, Any] = dict(zip(changes, values, strict=True))
        if fields.get("network") == "rdma":
            fields["network"] = kind
        yield replace(base, **fields)
