"""From a job's shape to what a change costs: bandwidth, slowdown, seconds per gradient synchronisation, GPU-hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import floor, isfinite, log, log10
from typing import Any

from ncclcheck.estimate.candidates import Candidates, candidates
from ncclcheck.estimate.config import COLLECTIVES, Config, NotModelledError
from ncclcheck.estimate.estimates import Cost, Estimate, Expected
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.model import Model, Plateau, busbw_factor, shipped_model
from ncclcheck.estimate.options import DTYPE_BYTES, EstimateOptions
from ncclcheck.estimate.quantities import parse_params, size_text
from ncclcheck.estimate.ranges import Range, exactly, spread
from ncclcheck.estimate.training.step import Reached, StepEstimate, of_configs
from ncclcheck.estimate.training.workload import Workload, of_plan
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

__all__ = ["DTYPE_BYTES", "EstimateOptions", "Estimator", "parse_params", "two_digits"]

MEASURED = "measured"
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

Changes = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One candidate before and after a change."""

    before: Config
    after: Config
    healthy: Plateau
    actual: Plateau
    ranks: int

    @property
    def no_effect(self) -> bool:
        if self.actual.algorithm == MEASURED:  # as fast as the model has it healthy: the cost does not show
            return self.actual.busbw.expected >= self.healthy.busbw.expected
        return self.healthy.busbw == self.actual.busbw and self.healthy.limit == self.actual.limit

    def slowdown(self) -> Range:
        """healthy / actual, no lower than 1: a change that the model rates as a gain is no slowdown."""
        if self.no_effect:
            return Range(1.0, 1.0, 1.0)
        h, a = self.healthy.busbw, self.actual.busbw
        expected = max(1.0, h.expected / a.expected)
        return Range(max(1.0, h.low / a.high), expected, max(expected, h.high / a.low))

    def seconds(self, busbw: Range, size: int) -> Range:
        """One all_reduce of `size` bytes at a bus bandwidth in GB/s."""
        work = size * busbw_factor("all_reduce", self.ranks) / 1e9
        return Range(work / busbw.high, work / busbw.expected, work / busbw.low)

    def extra_seconds(self, size: int) -> Range:
        if self.no_effect:
            return Range(0.0, 0.0, 0.0)
        h, a = self.seconds(self.healthy.busbw, size), self.seconds(self.actual.busbw, size)
        expected = max(0.0, a.expected - h.expected)
        return Range(max(0.0, a.low - h.high), expected, max(expected, a.high - h.low))


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
        inputs, assumed = self._inputs(found, pairs, healthy, actual)
        estimate = self._estimate(pairs, FROM_ASSUMPTIONS if assumed else FROM_LOG, inputs)
        estimate = replace(estimate, healthy_changes=healthy, actual_changes=actual)
        measured = self.shape.measured
        if measured is None or estimate.slowdown.expected < _FELT or not self._is_measured(pairs, actual):
            return replace(estimate, step=self._step(sides))
        point = Range(measured.least, measured.busbw, measured.most)
        modelled = estimate.actual
        inputs["actual by the model"] = f"{two_digits(modelled.expected)} ({_ends(modelled)}) GB/s for this alone"
        estimate = self._estimate([_measured(pair, point, measured.where) for pair in pairs], MEASURED, inputs)
        return replace(
            estimate,
            healthy_changes=healthy,
            actual_changes=actual,
            step=self._step(sides, Reached(measured.collective, point)),
        )

    def _is_measured(self, pairs: Sequence[_Pair], actual: Changes) -> bool:
        """Is the measurement one of these configurations? Of a collective of rings it is where a ring is used."""
        measured, shape = self.shape.measured, self.shape
        here = {"nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node, "collective": "all_reduce"}
        if any(name in actual and actual[name] != value for name, value in here.items()):
            return False
        rings = all(pair.actual.algorithm == "ring" for pair in pairs)
        return measured is not None and (measured.collective == "all_reduce" or rings)

    def against(self, measured_gbps: float, healthy: Changes | None = None) -> Estimate | None:
        """A measured plateau busbw in GB/s against the model of the job with `healthy` put on it."""
        if not (isfinite(measured_gbps) and measured_gbps > 0):
            self._why_not = "the measured bandwidth is not a positive number"
            return None
        changes = healthy or {}
        found, modelled, sides = self._pairs(changes, changes)
        if not modelled:
            return None
        point = exactly(measured_gbps)
        row = Plateau(point, MEASURED, "", f"measured {two_digits(measured_gbps)}")
        pairs = [replace(pair, actual=row) for pair in modelled]
        inputs, _ = self._inputs(found, pairs, changes, changes)
        return replace(self._estimate(pairs, MEASURED, inputs), step=self._step(sides, Reached("all_reduce", point)))

    def expect(self, changes: Changes | None = None) -> Expected | None:
        """The plateau busbw of a collective, all_reduce if `changes` names none, of the job with them put on it."""
        changes = changes or {}
        found, pairs, _ = self._pairs(changes, changes)
        if not pairs:
            return None
        inputs, assumed = self._inputs(found, pairs, changes, changes)
        busbw = spread([pair.healthy.busbw for pair in pairs])
        return Expected(
            busbw,
            _limits([pair.healthy for pair in pairs]),
            FROM_ASSUMPTIONS if assumed else FROM_LOG,
            _middle([pair.healthy for pair in pairs], busbw.expected).formula,
            inputs,
        )

    def expect_of(self, measured: Measured) -> Expected | None:
        """What the model has for the situation of a measurement: its collective, ranks and nodes."""
        self._why_not = None
        changes: dict[str, object] = {"collective": measured.collective}
        nodes, ranks = measured.nodes, measured.ranks
        if nodes and ranks and ranks % nodes == 0:
            changes |= {"nodes": nodes, "gpus_per_node": ranks // nodes}
        elif ranks != self._ranks() and measured != self.shape.measured:
            self._why_not = "the table does not tell on how many nodes it was measured"
        if measured.collective not in COLLECTIVES:
            self._why_not = f"the model has no number for {measured.collective}"
        return None if self._why_not else self.expect(changes)

    def step(self) -> StepEstimate | None:
        """The training step, or the calls that the log saw, on the job as it is. None: see `why_no_step`."""
        _, pairs, sides = self._pairs({}, {})
        self._why_no_step = self._why_not
        measured = self.shape.measured
        if measured is None or not self._is_measured(pairs, {}):
            return self._step(sides) if pairs else None
        reached = Reached(measured.collective, Range(measured.least, measured.busbw, measured.most))
        return self._step(sides, reached, reached)

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
        price, taken = self.options.gpu_price, Range(seconds, seconds, seconds)
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

    def _pairs(self, healthy: Changes, actual: Changes) -> tuple[Candidates, list[_Pair], list[tuple[Config, Config]]]:
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
        pairs: dict[tuple[Plateau, Plateau, int], _Pair] = {}  # configurations with equal numbers count once
        sides: list[tuple[Config, Config]] = []
        refusal = ""
        for base in found.configs:
            for before, after in product(_variants(base, healthy, kind), _variants(base, actual, kind)):
                try:
                    rates = self.model.plateau(before), self.model.plateau(after)
                except NotModelledError as error:
                    refusal = refusal or str(error)
                    continue
                pair = _Pair(before, after, *rates, self._ranks() or before.ranks)
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

    def _estimate(self, pairs: Sequence[_Pair], basis: str, inputs: Mapping[str, str]) -> Estimate:
        healthy, actual = [pair.healthy for pair in pairs], [pair.actual for pair in pairs]
        slowdown, size = spread([pair.slowdown() for pair in pairs]), self.options.sync_bytes
        before, after = spread([one.busbw for one in healthy]), spread([one.busbw for one in actual])
        middle = min(
            pairs,
            key=lambda pair: (
                abs(log(pair.healthy.busbw.expected / before.expected))
                + abs(log(pair.actual.busbw.expected / after.expected))
            ),
        )
        more = f" [1 of {len(pairs)} configurations that fit the input]" if len(pairs) > 1 else ""
        return Estimate(
            healthy=before,
            actual=after,
            slowdown=slowdown,
            limit_healthy=_limits(healthy),
            limit_actual=_limits(actual),
            basis=basis,
            formula=f"healthy {middle.healthy.formula}; actual {middle.actual.formula}{more}",
            inputs=inputs,
            sync_bytes=size,
            sync_seconds_healthy=spread([pair.seconds(pair.healthy.busbw, size) for pair in pairs]),
            sync_seconds_actual=spread([pair.seconds(pair.actual.busbw, size) for pair in pairs]),
            extra_seconds=spread([pair.extra_seconds(size) for pair in pairs]),
        )

    def _inputs(
        self, found: Candidates, pairs: Sequence[_Pair], healthy: Changes, actual: Changes
    ) -> tuple[dict[str, str], bool]:
        """What the numbers rest on, by name, and whether any of it had to be assumed."""
        given = healthy.keys() & actual.keys()
        inputs, assumed = {"site": self.model.site} if self.model.site else {}, False
        for name, entry in found.inputs.items():
            if given.issuperset(entry.fields) or not _matters(entry.fields[0], pairs):
                continue
            inputs[name] = str(entry)
            assumed |= entry.origin == "assumed" and (len(pairs) > 1 or len(entry.values) == 1)
        for name, changes in (("healthy", healthy), ("actual", actual)):
            if changes:
                inputs[name] = ", ".join(f"{key} = {_text(value)}" for key, value in changes.items())
        for name in {name for pair in pairs for name in pair.after.effects}:
            effect = self.hardware.effects[name]
            inputs[f"factor {name}"] = (
                f"{effect.factor.low:g} / {effect.factor.expected:g} / {effect.factor.high:g} ({effect.source})"
            )
            assumed |= not effect.measured
        if any(pair.after.crossing_share for pair in pairs):
            m = self.hardware.effects["crossing"].factor
            inputs["factor crossing"] = f"{m.low:g} / {m.expected:g} / {m.high:g} of the rate (assumed)"
            assumed = True
        return inputs, assumed


def _measured(pair: _Pair, busbw: Range, text: str) -> _Pair:
    """The pair with a measurement for its actual side; the limit stays what the model says it is."""
    return replace(pair, actual=Plateau(busbw, pair.actual.limit, MEASURED, text))


def _ends(value: Range) -> str:
    return f"{two_digits(value.low)}-{two_digits(value.high)}"


def _variants(base: Config, changes: Changes, kind: str) -> Iterator[Config]:
    """`base` with the changes put on it, once for each combination of alternatives."""
    alternatives = [value if isinstance(value, tuple) else (value,) for value in changes.values()]
    for values in product(*alternatives):
        fields: dict[str, Any] = dict(zip(changes, values, strict=True))
        if fields.get("network") == "rdma":
            fields["network"] = kind
        yield replace(base, **fields)


def _matters(field: str, pairs: Sequence[_Pair]) -> bool:
    """Does this Config field enter any of the pairs?"""
    sides = [config for pair in pairs for config in (pair.before, pair.after)]
    between = [config for config in sides if config.nodes > 1]
    if field == "intra":
        return any(config.gpus_per_node > 1 for config in sides)
    if field == "nvls":
        return any(config.intra == "nvlink" and config.gpus_per_node > 1 for config in sides)
    if field == "network":
        return bool(between)
    if field in ("nics", "nic_gbit", "gdr"):
        return any(config.network != "socket" for config in between)
    if field == "tcp_gbit":
        return any(config.network == "socket" for config in between)
    return True


def _middle(plateaus: Sequence[Plateau], expected: float) -> Plateau:
    return min(plateaus, key=lambda one: abs(log(one.busbw.expected / expected)))


def _limits(plateaus: Sequence[Plateau]) -> str:
    """The limits that bind, most common first, three at most."""
    return " or ".join(name for name, _ in Counter(one.limit for one in plateaus).most_common(3))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " or ".join(map(_text, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value) or "none"


def two_digits(value: float) -> str:
    """Two significant digits, no exponent: 0.0123 -> "0.012", 3 -> "3.0", 487 -> "490"."""
    if not isfinite(value) or value == 0:
        return "0" if value == 0 else str(value)
    digits = 1 - floor(log10(abs(value)))
    rounded = round(value, digits)
    digits = 1 - floor(log10(abs(rounded)))  # 99.6 became 100
    return f"{rounded:.{max(digits, 0)}f}"
