"""The model against a table of published nccl-tests runs, where that table lies beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest

from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.questions.batch import answer

TABLE = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "busbw-measured.tsv"


@pytest.mark.skipif(not TABLE.exists(), reason="the table of published runs is not here")
@pytest.mark.parametrize("told_algorithm", [True, False])
def test_published_runs(told_algorithm: bool) -> None:
    with TABLE.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["model_fit"] == "yes"]
    errors, inside, widths = [], 0, []
    for row in rows:
        if row["class"] == "curve":
            continue
        busbw = answer({**row, "algo": row["algo"] if told_algorithm else ""}, shipped_model())[0].busbw
        measured = float(row["busbw_GBps"])
        errors.append(abs(busbw.expected / measured - 1))
        inside += busbw.low <= measured <= busbw.high
        widths.append(busbw.high / busbw.low)
    assert median(errors) < 0.05
    assert inside / len(errors) >= 0.9
    assert sum(error <= 0.25 for error in errors) / len(errors) >= 0.88
    assert median(widths) <= 1.5
