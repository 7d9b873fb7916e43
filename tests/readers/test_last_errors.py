"""What PyTorch repeats of NCCL counts as a WARN, once."""

from __future__ import annotations

import pytest
from line_samples import lines_of

from ncclcheck.readers.records import parse_records

ABOVE = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
DUPLICATE = "Duplicate GPU detected : rank 5 and rank 1 both on CUDA device 1b000"


def warnings(*lines: str) -> list[tuple[int, str | None]]:
    return [(one["line"], one["event"]) for one in parse_records(lines_of(*lines)) if one["level"] == "WARN"]


@pytest.mark.parametrize("label", ["", "[rank5]: ", "5: ", "[default5]:[rank5]: "])
def test_the_line_below_is_nccls(label: str) -> None:
    assert warnings(label + ABOVE, label + "Last error:", label + DUPLICATE) == [(3, "duplicate_gpu")]


def test_a_wording_that_no_event_has_counts_behind_pytorchs_own_line() -> None:
    assert warnings(ABOVE, "Last error:", "Something new went wrong on rank 3") == [(3, "warn")]
    assert warnings("step 4", "Last error:", "Something new went wrong on rank 3") == []


def test_what_nccl_says_itself_is_not_counted_twice() -> None:
    itself = f"n7:70:71 [3] init.cc:497 NCCL WARN {DUPLICATE}"
    assert warnings(itself, ABOVE, "Last error:", DUPLICATE) == [(1, "duplicate_gpu")]


def test_lines_of_others_and_empty_ones_stay_what_they_are() -> None:
    lines = [ABOVE, "Last error:", "Traceback (most recent call last):", ABOVE, "Last error:", "", ABOVE, "Last error:"]
    assert warnings(*lines) == []
    assert [one["event"] for one in parse_records(lines_of(*lines))] == ["python_traceback"]
