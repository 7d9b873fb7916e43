"""A site's constants from its own nccl-tests tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from ncclcheck.estimate.config import COLLECTIVES, Config
from ncclcheck.estimate.fitting import Point, error_of, fit, touched_by
from ncclcheck.estimate.hardware_table import constant, hardware_with
from ncclcheck.estimate.model import Model, shipped_model
from ncclcheck.estimate.questions.changes import Change, apply
from ncclcheck.estimate.questions.job import Job, set_up
from ncclcheck.estimate.site import BOUNDS
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

# A constant that moves further than this is rather that of a fault.
_FAR = 2.0


class Calibration(NamedTuple):
    """constants: those that the points speak of, as fitted. before, after: median error |model / measured - 1|."""

    points: tuple[Point, ...]
    constants: Mapping[str, float]
    before: float
    after: float

    @property
    def far(self) -> list[str]:
        """Constants so far from those of the package that a fault is likelier than the site's own way."""
        return [path for path, value in self.constants.items() if not 1 / _FAR < value / constant(path) < _FAR]


def calibrate(points: Sequence[Point]) -> Calibration:
    """Raises ValueError if no point speaks of a constant that is a site's own."""
    start = {path: constant(path) for path in BOUNDS}
    touched = touched_by(points, start)
    if not touched:
        raise ValueError(
            "the tables speak of none of a site's constants: what binds them is the same everywhere (NVLink, NVLS)"
        )
    found = fit(points, {path: start[path] for path in touched})
    kept = {path: min(max(value, BOUNDS[path][0]), BOUNDS[path][1]) for path, value in found.items()}
    moved = {path: value for path, value in kept.items() if value != start[path]}
    fitted = Model(hardware_with(moved))
    before = median(error_of(point, shipped_model()) for point in points)
    return Calibration(tuple(points), moved, before, median(error_of(point, fitted) for point in points))


def point_of(measured: Measured, shape: JobShape, told: Job, changes: Sequence[Change] = ()) -> Point:
    """A measured plateau and the configuration that it was measured on, from flags (`told`) and from the log around
    it (`shape`). changes: the condition that it was measured in.

    Raises ValueError with a sentence where the table or the configuration will not do.
    """
    if not measured.is_plateau:
        raise ValueError(
            "its largest size is too small to be the plateau (128 MiB on a node, 1 GiB on several), or its busbw is 0"
        )
    if measured.collective not in COLLECTIVES:
        raise ValueError(f"the model has no number for {measured.collective}")
    job = _job(measured, shape, told)
    setup = set_up(job, shipped_model().table)
    configs = [
        made
        for config in setup.configs
        for made in apply(
            changes, replace(config, gdr=config.gdr and shape.gdr is not Answer.NO), shipped_model().table
        )
    ]
    answers = {shipped_model().at(config, measured.size): config for config in configs}
    if len(answers) > 1:
        raise ValueError(f"what it was measured on is not told: give {' '.join(setup.narrowing) or 'more flags'}")
    (config,) = answers.values()
    name = f"{measured.evidence.path}:{measured.evidence.line}"
    return Point(name, measured.evidence.path, config, measured.size, measured.busbw)


def _job(measured: Measured, shape: JobShape, told: Job) -> Job:
    """Flags first, then the table, then the log."""
    nodes, ranks, per_node = told.nodes or measured.nodes, measured.ranks, told.gpus_per_node
    if nodes is None and ranks is not None and per_node and ranks % per_node == 0:
        nodes = ranks // per_node
    if nodes is None or ranks is None or ranks % nodes:
        raise ValueError("it does not tell how many ranks on how many nodes: give --nodes or --gpus-per-node")
    here = shape if shape.nranks == measured.ranks else JobShape()
    names = here.gpu_names or shape.gpu_names
    if told.gpu is None and len(names) != 1:
        raise ValueError("it does not tell one GPU model: give --gpu")
    network, intra = here.network if nodes > 1 else "", ""
    if here.intra == {"SHM"}:
        intra = "shm"
    rates = here.nic_gbit
    return replace(
        told,
        nodes=nodes,
        gpus_per_node=ranks // nodes,
        gpu=told.gpu or names[0],
        network=told.network or network,
        nics=told.nics or (here.nics_per_node if nodes > 1 else None),
        nic_gbit=told.nic_gbit or (min(rates) if rates and nodes > 1 else None),
        intra=told.intra or intra,
        release=told.release or here.release,
        collective=measured.collective,
    )


def config_text(config: Config) -> str:
    """`2 x 8 H100 SXM, 8 x 400 Gb/s ib`."""
    between = ""
    if config.nodes > 1:
        between = f", {config.network}"
        if config.network != "socket":
            between = (
                f", {config.nics} x {config.nic_gbit:g} Gb/s {config.network}{'' if config.gdr else ' without GDR'}"
            )
    return f"{config.nodes} x {config.gpus_per_node} {config.gpu}{between}"
