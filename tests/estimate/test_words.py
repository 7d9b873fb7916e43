"""docs/estimate.md explains every word that answers and flags use."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.questions.batch import ALIASES, COLUMNS
from ncclcheck.estimate.questions.changes import WITH, WITHOUT

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "estimate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "word",
    [*hardware().ranges, *(f"--with {what}" for what in WITH), *(f"--without {what}" for what in WITHOUT), *COLUMNS,
     *ALIASES],
)  # fmt: skip
def test_the_page_has_it(word: str) -> None:
    assert f"`{word}`" in PAGE
