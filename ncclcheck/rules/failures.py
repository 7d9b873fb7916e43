"""What rules about the life of a run share: which codes can be the first cause, words for ranks and for ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.deaths import Nature, first_death
from ncclcheck.rules.common import stopped
from ncclcheck.rules.model import Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.model import Confidence, Finding, Rule

# Faults that stop a job by themselves, on whatever host; ranks elsewhere fall with it.
STOPPERS = (
    "ENV004", "HST001", "HST002", "HST003", "HST004", "HST005", "HST006", "IB006", "IB007", "IB008", "IB010",
    "NET002", "NET003", "NET004", "NVL003", "NVL004", "RUN001", "RUN002", "RUN007",
)  # fmt: skip
_MOST_RANKS = 6


def first_causes(facts: Facts, *others: str) -> tuple[str, ...]:
    """Codes that may explain that ranks wait or lose their peers."""
    first = first_death(facts)
    died = ("RUN010",) if first is not None and first.nature in (Nature.OWN, Nature.EXIT) else ()
    return (*died, *STOPPERS, *others)


def standstill(
    rule: Rule,
    estimator: Estimator,
    message: str,
    confidence: Confidence,
    fix: str,
    machines: tuple[str, ...],
    ranks: Sequence[int],
    evidence: tuple[Evidence, ...],
    causes: tuple[str, ...],
) -> Finding:
    """These ranks bring the job to a stand."""
    subject = {"hosts": machines, "ranks": folded(ranks)}
    numbers = stopped(estimator)
    return rule.finding(Severity.ERROR, confidence, message, fix, subject, evidence, causes=causes, **numbers)


def ranks_in_words(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-2, 5`, `ranks 1, 3, 5 and 60 more`."""
    runs = folded(ranks)
    shown = ", ".join(runs[:_MOST_RANKS])
    if len(runs) > _MOST_RANKS:
        shown += f" and {len(runs) - _MOST_RANKS} more"
    return f"rank{'' if len(ranks) == 1 else 's'} {shown}"


def folded(ranks: Sequence[int]) -> tuple[str, ...]:
    """`0, 2-7`: runs of ranks in few words."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in runs)
