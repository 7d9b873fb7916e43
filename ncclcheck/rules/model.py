"""What a rule is and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.estimate.estimates import Cost, Estimate
from ncclcheck.facts.evidence import Evidence

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


class Severity(Enum):
    """What being right costs: `error` stops or cripples the job, `warning` slows it, `info` is worth knowing."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return ("info", "warning", "error").index(self.value)


class Confidence(Enum):
    """How sure the input lets us be, apart from severity."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, once, however many hosts and ranks show it.

    message: one sentence. subject: who is meant, stable under reordering; keys in use: "hosts" (tuple of machine
    names), "ranks", "devices", "variable". fix: the command or the change, display only.
    no_estimate_because: why `estimate` is None; one of the two is always given.
    causes: codes that explain this one wherever in the job an error with that code is found; the engine drops those
    that nobody found and adds those of `Rule.caused_by`. consequences: codes, filled in by the engine.
    """

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    fix: str
    subject: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    estimate: Estimate | None = None
    cost: Cost | None = None
    no_estimate_because: str | None = None
    causes: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()


class NotEvaluated(NamedTuple):
    """The rule could not judge; `needs` says which line, file or setting would settle it."""

    needs: str


class Rule(NamedTuple):
    """A rule's metadata and its check.

    The module that defines it carries the documentation page as its docstring, in fixed headings: What it finds,
    Why it costs, Example, How to fix, When it is not a problem, References.
    check: a pure function from facts and estimator to findings. It yields Finding for each fault and NotEvaluated
    for each question that the input leaves open. Verdict: any Finding -> fail; else any NotEvaluated -> not
    evaluated; else pass.
    caused_by: codes of rules whose finding on a common host explains this one.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    check: Callable[[Facts, Estimator], Iterator[Finding | NotEvaluated]]
    since: str
    caused_by: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        return self.code.rstrip("0123456789")

    def finding(
        self,
        severity: Severity,
        confidence: Confidence,
        message: str,
        fix: str,
        subject: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        evidence: tuple[Evidence, ...] = (),
        estimate: Estimate | None = None,
        cost: Cost | None = None,
        no_estimate_because: str | None = None,
        causes: tuple[str, ...] = (),
    ) -> Finding:
        """A finding of this rule."""
        return Finding(
            self.code,
            self.name,
            severity,
            confidence,
            message,
            fix,
            subject,
            evidence,
            estimate,
            cost,
            no_estimate_because,
            causes,
        )
