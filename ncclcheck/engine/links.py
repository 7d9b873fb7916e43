"""Which finding explains which: by `Rule.caused_by` on a common host, by a finding's own `causes` anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
                if other != number and (anywhere or share_a_host(hosts[number], hosts[other])):
                    causes[number][code] = None
                    consequences[other][finding.code] = None
    return [
        replace(finding, causes=tuple(causes[number]), consequences=tuple(consequences[number]))
        for number, finding in enumerate(findings)
    ]


def share_a_host(one: frozenset[str], other: frozenset[str]) -> bool:
    """A finding without hosts speaks of all of them."""
    return not one or not other or not one.isdisjoint(other)
