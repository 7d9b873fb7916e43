"""How much of the time of a job's collectives is latency, which larger messages would save."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.model import Model, call_seconds
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.step import group_of
from ncclcheck.estimate.training.workload import Collective, Workload


class LatencyShare(NamedTuple):
    """share: of the time of all calls, over the configurations that fit. seconds: of latency in the calls of one rank.
    worst: the collective that has most of it."""

    share: Range
    seconds: Range
    worst: Collective


def latency_share(model: Model, configs: Sequence[Config], workload: Workload) -> LatencyShare:
    """Raises NotModelledError where the model has no number for any configuration."""

    @cache
    def parts(group: Config, collective: Collective) -> tuple[float, float]:
        """Seconds of all calls of a rank, and how many of them are latency."""
        size = max(1, round(collective.nbytes))
        rates = model.at(group, size).busbw, model.plateau(group).busbw
        whole, moving = (
            call_seconds(rate, collective.nbytes * collective.calls, collective.op, collective.ranks).expected
            for rate in rates
        )
        return whole, max(0.0, whole - moving)

    found: list[tuple[float, float, Collective]] = []
    refused = NotModelledError("no configuration fits")
    for config in configs:
        try:
            timed = [(*parts(group_of(config, one)[0], one), one) for one in workload.collectives]
        except NotModelledError as error:
            refused = error
            continue
        whole, latency = sum(one[0] for one in timed), sum(one[1] for one in timed)
        found.append((latency / whole, latency, max(timed, key=lambda one: one[1])[2]))
    if not found:
        raise refused
    found.sort(key=lambda one: one[0])
    shares, seconds = [one[0] for one in found], sorted(one[1] for one in found)
    middle = len(found) // 2
    return LatencyShare(
        Range(shares[0], shares[middle], shares[-1]),
        Range(seconds[0], seconds[middle], seconds[-1]),
        found[middle][2],
    )
