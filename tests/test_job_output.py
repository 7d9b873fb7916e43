"""Inputs without a line of NCCL: what stands around it is judged, other text is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ncclcheck.cli.main import run

STDERR = "step 7\n[rank1]: ValueError: no\nsrun: error: n2: task 1: Exited with exit code 1\n"


@pytest.mark.parametrize(
    ("text", "code", "kinds", "found"), [(STDERR, 1, ["job-output"], ["RUN010"]), ("step 7\nstep 8\n", 3, [], [])]
)
def test_job_output(
    text: str, code: int, kinds: list[str], found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stderr.log"
    path.write_text(text)
    assert run([str(path), "--output-format", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["inputs"][0]["kinds"] == kinds
    assert [finding["code"] for finding in document["findings"]] == found
