"""The report for programs. Its keys are a contract: new ones may come, none goes or changes its meaning."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from ncclcheck.engine.report import InputSummary, Measurement, Report, Warnings
from ncclcheck.estimate.estimates import Cost, Estimate, Mended
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.money import Loss
from ncclcheck.estimate.training.step import StepEstimate
from ncclcheck.estimate.training.step_time import Timing
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.nearness import Nearness
from ncclcheck.facts.parts import Contradiction
from ncclcheck.report.coverage import statistics
from ncclcheck.report.escape import json_without_commands
from ncclcheck.report.style import Style
from ncclcheck.rules.model import Finding

SCHEMA = "ncclcheck-report/1"


def render(report: Report, style: Style) -> str:
    document = as_document(report)
    if style.statistics:
        document["statistics"] = statistics(report)
    # ASCII only: whatever a log holds arrives as an escape, and lone surrogates break no encoder.
    return json_without_commands(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False)) + "\n"


def as_document(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": report.version,
        "inputs": [_input(row) for row in report.inputs],
        "job": asdict(report.job),
        "site": report.site or None,
        "measurements": [_measurement(one) for one in report.measurements],
        "paths": [_nearness(one) for one in report.nearness],
        "contradictions": [_contradiction(one) for one in report.contradictions],
        "rules": [
            {"code": rule.code, "name": rule.name, "verdict": rule.verdict, "needs": list(rule.needs)}
            for rule in report.rules
        ],
        "findings": [_finding(finding) for finding in report.findings],
        "unexplained_warnings": None if report.unexplained is None else _warnings(report.unexplained),
        "step": None if report.step is None else _step(report.step),
        "no_step_because": report.no_step_because,
    }


def _nearness(one: Nearness) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "gpus": [
            {"gpu": seat.gpu, "nics": list(seat.nics), "path": seat.path or None, "nvlinks": seat.links}
            for seat in one.seats
        ],
        "rails": list(one.rails),
        "other_nics": list(one.others),
        "sharing": one.sharing or None,
        "path": one.evidence.path,
        "line": one.evidence.line,
    }


def _contradiction(one: Contradiction) -> dict[str, Any]:
    return {
        "host": one.place.machine or None,
        "thing": one.thing,
        "name": one.name,
        "key": one.key,
        "values": [
            {"value": value.text, "kind": value.kind, "path": value.evidence.path, "line": value.evidence.line}
            for value in one.values
        ],
    }


def _measurement(one: Measurement) -> dict[str, Any]:
    measured, expected = one.measured, one.expected
    return {
        "collective": measured.collective,
        "unit": "GB/s",
        "busbw": {"low": measured.least, "expected": measured.busbw, "high": measured.most},
        "bytes": measured.size,
        "smallest_bytes": measured.smallest,
        "enough": measured.enough,
        "checked": measured.checked,
        "ranks": measured.ranks,
        "nodes": measured.nodes,
        "path": measured.evidence.path,
        "line": measured.evidence.line,
        "expected": None
        if expected is None
        else {"busbw": _range(expected.busbw), "limit": expected.limit, "basis": expected.basis},
    }


def _warnings(left: Warnings) -> dict[str, Any]:
    return {"count": left.count, "first": _evidence(left.first)}


def _input(row: InputSummary) -> dict[str, Any]:
    return {
        "path": row.path,
        "kinds": list(row.kinds),
        "lines": row.lines,
        "recognised": row.recognised,
        "unrecognised": row.unrecognised,
        "error": row.error,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "subject": {key: list(values) for key, values in finding.subject.items()},
        "evidence": [_evidence(item) for item in finding.evidence],
        "causes": list(finding.causes),
        "consequences": list(finding.consequences),
        "estimate": None if finding.estimate is None else _estimate(finding.estimate),
        "cost": None if finding.cost is None else _cost(finding.cost),
        "no_estimate_because": finding.no_estimate_because,
        "fix": finding.fix,
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {"path": item.path, "line": item.line, "text": item.text}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    sync = None
    if estimate.sync_seconds_healthy is not None and estimate.sync_seconds_actual is not None:
        sync = {
            "bytes": estimate.sync_bytes,
            "healthy": _range(estimate.sync_seconds_healthy),
            "actual": _range(estimate.sync_seconds_actual),
            "extra": None if estimate.extra_seconds is None else _range(estimate.extra_seconds),
        }
    return {
        "unit": "GB/s",
        "healthy": _range(estimate.healthy),
        "actual": _range(estimate.actual),
        "slowdown": _range(estimate.slowdown),
        "limit": {"healthy": estimate.limit_healthy, "actual": estimate.limit_actual},
        "alone": None if estimate.alone is None else _range(estimate.alone),
        "after_fix": None if estimate.after_fix is None else _after_fix(estimate.after_fix),
        "basis": estimate.basis,
        "formula": estimate.formula,
        "inputs": dict(estimate.inputs),
        "sync_seconds": sync,
        "step": None if estimate.step is None else _step(estimate.step),
    }


def _step(step: StepEstimate) -> dict[str, Any]:
    """Of a step, or of the calls that the log saw ("per_step": false). The job as it is has healthy equal to actual."""
    return {
        "per_step": step.per_step,
        "comm_seconds": _sides(step.comm_healthy, step.comm_actual),
        "collectives": [
            {
                "name": one.name,
                "operation": one.op,
                "bytes_per_call": _number(one.nbytes),
                "calls_per_rank": _number(one.calls),
                "ranks": one.ranks,
                "place": one.place,
                "seconds": _sides(one.healthy, one.actual),
                "limit": {"healthy": one.limit_healthy, "actual": one.limit_actual},
                "formula": one.formula,
            }
            for one in step.collectives
        ],
        **_timing(step.timing),
        **_loss(step.loss),
        "inputs": [given._asdict() for given in step.inputs],
        "remarks": list(step.remarks),
    }


def _timing(timing: Timing | None) -> dict[str, Any]:
    if timing is None:
        return {"step_seconds": None}
    tokens = None
    if timing.tokens_per_second_healthy is not None and timing.tokens_per_second_actual is not None:
        tokens = _sides(timing.tokens_per_second_healthy, timing.tokens_per_second_actual)
    return {
        "step_seconds": _sides(timing.step_healthy, timing.step_actual),
        "compute_seconds": _range(timing.compute),
        "exposed_share": _sides(timing.exposed_healthy, timing.exposed_actual),
        "scaling_efficiency": _sides(timing.efficiency_healthy, timing.efficiency_actual),
        "tokens_per_second": tokens,
        "step_formula": timing.formula,
    }


def _loss(loss: Loss | None) -> dict[str, Any]:
    if loss is None:
        return {"lost_share": None}
    return {
        "lost_share": _range(loss.share),
        "effectively_stops": loss.stops,
        "gpu_hours_per_day": _range(loss.gpu_hours),
        "dollars_per_day": None if loss.dollars is None else _range(loss.dollars),
        "dollars_per_gpu_hour": loss.price,
        "day_share": loss.day_share,
        "loss_formula": loss.formula,
    }


def _sides(healthy: Range, actual: Range) -> dict[str, Any]:
    return {"healthy": _range(healthy), "actual": _range(actual)}


def _cost(cost: Cost) -> dict[str, Any]:
    dollars = None if cost.dollars is None else _range(cost.dollars)
    return {"unit": cost.unit, **_range(cost.amount), "dollars": dollars}


def _after_fix(mended: Mended) -> dict[str, Any]:
    """With the other faults still there."""
    return {"busbw": _range(mended.busbw), "limit": mended.limit, "fault": mended.code}


def _range(value: Range) -> dict[str, float | None]:
    return {"low": _number(value.low), "expected": _number(value.expected), "high": _number(value.high)}


def _number(value: float) -> float | None:
    """JSON has no infinity: what has no bound is null. More digits than six would be noise."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
