"""Exit codes: what a batch script may build on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncclcheck.rules.model import Finding

CLEAN = 0
FINDINGS = 1
WRONG_CALL = 2
NOTHING_TO_JUDGE = 3
INTERRUPTED = 130

FAIL_ON = ("error", "warning", "info", "never")


def exit_code(findings: Iterable[Finding], fail_on: str, nothing_to_judge: bool, exit_zero: bool) -> int:
    """Findings at or above `fail_on` win over an input that could not be judged; `exit_zero` silences both."""
    if exit_zero:
        return CLEAN
    if fail_on != "never":
        from ncclcheck.rules.model import Severity

        threshold = Severity(fail_on).rank
        if any(finding.severity.rank >= threshold for finding in findings):
            return FINDINGS
    return NOTHING_TO_JUDGE if nothing_to_judge else CLEAN
