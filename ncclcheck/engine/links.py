"""Which finding explains which: by `Rule.caused_by` on a common host, by a finding's own `causes` anywhere.

A finding and all that it explains are one story, told in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ncclcheck.rules.model import Finding, Rule, Severity


def link(findings: Sequence[Finding], rules: Iterable[Rule]) -> list[Finding]:
    """The same findings, in the same order, with `causes` and `consequences` filled in on both sides.

    What a finding names as its causes counts where an error with that code is found: when one rank fails, those of
    other hosts fall with it.
    """
    caused_by = {rule.code: rule.caused_by for rule in rules}
    causes: list[dict[str, None]] = [{} for _ in findings]
    consequences: list[dict[str, None]] = [dict.fromkeys(finding.consequences) for finding in findings]
    hosts = [frozenset(finding.subject.get("hosts", ())) for finding in findings]
    of_code: dict[str, list[int]] = {}
    for number, finding in enumerate(findings):
        of_code.setdefault(finding.code, []).append(number)

    for number, finding in enumerate(findings):
        for code in dict.fromkeys((*finding.causes, *caused_by.get(finding.code, ()))):
            for other in of_code.get(code, ()):
                anywhere = code in finding.causes and findings[other].severity is Severity.ERROR
                beside = _weighs(findings[other], finding) and share_a_host(hosts[number], hosts[other])
                if other != number and (anywhere or beside):
                    causes[number][code] = None
                    consequences[other][finding.code] = None
    return [
        replace(finding, causes=tuple(causes[number]), consequences=tuple(consequences[number]))
        for number, finding in enumerate(findings)
    ]


def _weighs(cause: Finding, consequence: Finding) -> bool:
    """What is only worth knowing explains nothing that slows or stops the job."""
    return cause.severity is not Severity.INFO or consequence.severity is Severity.INFO


def share_a_host(one: frozenset[str], other: frozenset[str]) -> bool:
    """A finding without hosts speaks of all of them."""
    return not one or not other or not one.isdisjoint(other)


def parents_of(findings: Sequence[Finding]) -> dict[int, int]:
    """For each finding that a shown one explains, the number of that one: on a common host if there is one, and the
    first of a chain before those that follow from it. No circles: each chain ends at a root."""
    hosts = [frozenset(finding.subject.get("hosts", ())) for finding in findings]
    parents: dict[int, int] = {}
    for number, finding in enumerate(findings):
        candidates = [other for other, candidate in enumerate(findings) if candidate.code in finding.causes]
        candidates.sort(key=lambda at: (not share_a_host(hosts[number], hosts[at]), bool(findings[at].causes)))
        for other in candidates:
            ancestor: int | None = other
            while ancestor is not None and ancestor != number:
                ancestor = parents.get(ancestor)
            if ancestor is None:
                parents[number] = other
                break
    return parents


def in_stories(findings: Sequence[Finding], urgency: Callable[[Finding], tuple[float, ...]]) -> list[Finding]:
    """Most urgent first (the smallest), a cause before its consequences and as urgent as the worst of them."""
    parents = parents_of(findings)
    paths: list[list[int]] = []
    for number in range(len(findings)):
        path = [number]
        while path[0] in parents:
            path.insert(0, parents[path[0]])
        paths.append(path)
    worst = [urgency(finding) for finding in findings]
    for number, path in enumerate(paths):
        for ancestor in path:
            worst[ancestor] = min(worst[ancestor], urgency(findings[number]))
    order = sorted(range(len(findings)), key=lambda number: [(worst[step], step) for step in paths[number]])
    return [findings[number] for number in order]
