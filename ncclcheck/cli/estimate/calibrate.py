"""`ncclcheck estimate --calibrate`: a site's own constants from its own nccl-tests tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ncclcheck.cli.exits import CLEAN, NOTHING_TO_JUDGE
from ncclcheck.cli.output import complain, write_file, write_stdout
from ncclcheck.cli.site import load_site
from ncclcheck.report.escape import clean

if TYPE_CHECKING:
    from ncclcheck.estimate.fitting import Point
    from ncclcheck.estimate.questions.calibration import Calibration
    from ncclcheck.estimate.questions.changes import Change
    from ncclcheck.estimate.questions.job import Job


def run_calibrate(paths: Sequence[str], told: Job, changes: Sequence[Change], site_file: str) -> int:
    """paths: tables, each with the log around it. told, changes: what flags say of all of them."""
    from ncclcheck.estimate.questions.calibration import calibrate
    from ncclcheck.estimate.site import site_text

    if site_file == "-":
        raise click.UsageError("--site-file is the name of a file: stdout is for the report")
    known = _known(site_file)
    points = [point for path in paths for point in _points(path, told, changes)]
    if not points:
        complain("nothing to fit to: no table holds a plateau whose configuration is known")
        return NOTHING_TO_JUDGE
    try:
        found = calibrate(points)
    except ValueError as error:
        complain(str(error))
        return NOTHING_TO_JUDGE
    median = f"median error {found.before:.1%} -> {found.after:.1%} on the plateaus it is fitted to ({len(points)})"
    write_file(site_file, site_text({**known, **found.constants}, (median,)))
    write_stdout("".join(f"{clean(line)}\n" for line in _report(found, site_file, median)))
    return CLEAN


def _report(found: Calibration, site_file: str, median: str) -> list[str]:
    from ncclcheck.estimate.hardware_table import constant, hardware_with
    from ncclcheck.estimate.model import Model, shipped_model
    from ncclcheck.estimate.questions.calibration import config_text

    site = Model(hardware_with(found.constants))
    lines = [f"{site_file}: {median}"]
    for path, value in found.constants.items():
        lines.append(f"  {path:28}  {constant(path):.3g} -> {value:.3g}")
    for point in found.points:
        before, after = (model.at(point.config, point.size).busbw.expected for model in (shipped_model(), site))
        told = f"{point.busbw_gbps:.3g} GB/s measured, model {before:.3g} -> {after:.3g}"
        lines.append(f"  {point.name}: {config_text(point.config)}: {told}")
    for path in found.far:
        lines.append(f"  {path} is far from what others have: a fault? `ncclcheck check` the log of that run")
    return lines


def _points(path: str, told: Job, changes: Sequence[Change]) -> list[Point]:
    """The plateaus of one argument whose configuration is known; for the others stderr says why not."""
    from ncclcheck.cli.pipeline import unused
    from ncclcheck.estimate.questions.calibration import point_of
    from ncclcheck.facts.facts import Facts
    from ncclcheck.inputs.expand import expand
    from ncclcheck.readers.read import read_sources

    sources = expand([path]).sources
    reading = read_sources(sources)
    facts = Facts(reading.tables, [source.name for source in sources])
    for line in [f"{source.name}: {source.error}" for source in sources if source.error] + unused(sources, reading):
        complain(line)
    shape, points = facts.shape(), []
    if not facts.measured:
        complain(f"{path}: holds no row of nccl-tests with a plateau")
    for measured in facts.measured:
        try:
            points.append(point_of(measured, shape, told, changes))
        except ValueError as error:
            complain(f"{measured.evidence.path}:{measured.evidence.line}: not used: {error}")
    return points


def _known(site_file: str) -> Mapping[str, float]:
    """What an earlier calibration found; these tables may speak of other constants. Any other file is let alone."""
    if not os.path.lexists(site_file):
        return {}
    try:
        return load_site(site_file).constants
    except click.UsageError as error:
        raise click.UsageError(f"--site-file would overwrite what is none: {error.message}") from None
