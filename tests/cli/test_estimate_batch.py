"""`ncclcheck estimate --batch`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ncclcheck.cli.main import run

HEADER = "id\tcollective\tnodes\tgpus_per_node\tgpu_model\tnics_per_node\tnic_gbps\ttransport\tsize_bytes\n"
RAILS = "rails\tall_reduce\t4\t8\tH100\t8\t400\tIB\t8589934592\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "points.tsv"


def test_json_keeps_the_order(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + RAILS + RAILS.replace("rails", "one").replace("\t8\t400", "\t1\t400"), encoding="utf-8")
    assert run(["estimate", "--batch", str(table), "--output-format", "json"]) == 0
    rails, one = json.loads(capsys.readouterr().out)
    assert (rails["id"], one["id"]) == ("rails", "one")
    assert 0 < rails["busbw"]["low"] < rails["busbw"]["expected"] < rails["busbw"]["high"]
    assert one["limit"] == "nic"
    assert one["busbw"]["expected"] < rails["busbw"]["expected"] / 6


def test_a_row_without_a_number_is_not_lost(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + RAILS.replace("\t4\t", "\tfour\t") + RAILS, encoding="utf-8")
    assert run(["estimate", "--batch", str(table), "--output-format", "json"]) == 3
    out, err = capsys.readouterr()
    broken, whole = json.loads(out)
    assert broken["busbw"] is None
    assert "nodes" in broken["error"]
    assert whole["busbw"]
    assert "1 of 2 rows" in err


def test_text(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + "short\tall_reduce\t2\t8\n", encoding="utf-8")
    assert run(["estimate", "--batch", str(table)]) == 0
    assert "taken as" in capsys.readouterr().out
    table.write_text(HEADER + RAILS, encoding="utf-8")
    assert run(["estimate", "--batch", str(table)]) == 0
    assert "GB/s" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "\n", "nodes\tgpus\n1\t2\n", "\x00\x01\x02", "id,nodes,gpus_per_node\n"])
def test_no_table(table: Path, content: str) -> None:
    table.write_text(content, encoding="utf-8")
    assert run(["estimate", "--batch", str(table)]) == 2


def test_no_file(tmp_path: Path) -> None:
    assert run(["estimate", "--batch", str(tmp_path / "none.tsv")]) == 2
    assert run(["estimate", "--batch", str(tmp_path)]) == 2


def test_bytes_that_are_no_text(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_bytes(HEADER.encode() + b"\xff\x1b[31m\t" + RAILS.encode().split(b"\t", 1)[1])
    assert run(["estimate", "--batch", str(table)]) == 0
    assert "\x1b" not in capsys.readouterr().out
