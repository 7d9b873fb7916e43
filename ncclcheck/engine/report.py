"""The report: all that a run has to say, before anybody decides how to print it."""

from __future__ import annotations

from dataclasses import dataclass

from ncclcheck.estimate.estimates import Expected
from ncclcheck.estimate.training.step import StepEstimate
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.nearness import Nearness
from ncclcheck.facts.parts import Contradiction
from ncclcheck.facts.picture import JobPicture
from ncclcheck.rules.model import Finding


@dataclass(frozen=True, slots=True)
class InputSummary:
    """One input: which kinds of evidence it held and how many of its lines were understood.

    kinds: "nccl-log", "topo-matrix", ... lines: all lines. recognised / unrecognised: NCCL records.
    error: why it could not be read, or None.
    """

    path: str
    kinds: tuple[str, ...]
    lines: int
    recognised: int
    unrecognised: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """How one rule ended: "fail", "pass" or "not_evaluated" with what it needs."""

    code: str
    name: str
    verdict: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Warnings:
    """NCCL WARN records that no finding speaks of: how many, and the first of them."""

    count: int
    first: Evidence


@dataclass(frozen=True, slots=True)
class Measurement:
    """A plateau of nccl-tests beside what the model has for its situation (None: nothing)."""

    measured: Measured
    expected: Expected | None


@dataclass(frozen=True, slots=True)
class Report:
    """inputs, the picture of the job, a verdict per rule, findings by cost (worst first), warnings left over, what was
    measured with nccl-tests.

    site: constants that are a site's own, for people; "" where none is.
    step: a training step of the job as it is, or the calls that the log saw; no_step_because: where options describe a
    step and it has no numbers.
    nearness: NICs and NVLinks of GPUs by tables of paths. contradictions: what outputs of tools disagree about.
    """

    version: str
    inputs: tuple[InputSummary, ...]
    job: JobPicture
    rules: tuple[RuleVerdict, ...]
    findings: tuple[Finding, ...]
    unexplained: Warnings | None = None
    measurements: tuple[Measurement, ...] = ()
    step: StepEstimate | None = None
    no_step_because: str | None = None
    site: str = ""
    nearness: tuple[Nearness, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
