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


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (RAILS.replace("\t400\t", "\t1e-300\t"), "nic_gbps"),
        (RAILS.replace("\t8\t400\t", "\t1e18\t400\t"), "nics_per_node"),
        (RAILS.replace("8589934592", "1e17"), "size_bytes"),
        (RAILS.replace("\n", "\tlost\n"), "more cells than columns: 'lost'"),
    ],
)
def test_rows_that_make_no_sense(row: str, why: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + row + RAILS, encoding="utf-8")
    assert run(["estimate", "--batch", str(table), "--output-format", "json"]) == 3
    broken, whole = json.loads(capsys.readouterr().out)
    assert broken["busbw"] is None and why in broken["error"]
    assert whole["busbw"]


@pytest.mark.parametrize("gpu", ["H100", "RTX 4090", "T4"])
@pytest.mark.parametrize("transport", ["IB", "socket"])
def test_a_row_and_flags_get_one_answer(
    gpu: str, transport: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, row = HEADER.strip(), f"a\tall_reduce\t4\t2\t{gpu}\t1\t100\t{transport}\t8589934592"
    inside = {"H100": "nvlink", "RTX 4090": "shm", "T4": "pcie-cpu"}[gpu]
    table.write_text(f"{header}\tintra_node_link\talgo\n{row}\t{inside}\ttree\n", encoding="utf-8")
    assert run(["estimate", "--batch", str(table), "--output-format", "json"]) == 0
    batch = json.loads(capsys.readouterr().out)[0]["busbw"]["expected"]
    flags = f"--nodes 4 --gpus-per-node 2 --nics 1 --nic-gbps 100 --transport {transport} --algo tree --intra {inside}"
    assert run(["estimate", "--gpu", gpu, *flags.split(), "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"][0]["expected"] == pytest.approx(batch)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_of_spreadsheets(encoding: str, end: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_bytes((HEADER + RAILS).replace("\n", f"\t{end}").encode(encoding))
    assert run(["estimate", "--batch", str(table)]) == 0
    assert capsys.readouterr().out.startswith("rails  ")


def test_a_column_that_is_there_twice(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER.replace("size_bytes", "nodes") + RAILS, encoding="utf-8")
    assert run(["estimate", "--batch", str(table)]) == 2
    assert "the column nodes is there twice" in capsys.readouterr().err


def test_the_table_is_not_overwritten(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + RAILS, encoding="utf-8")
    assert run(["estimate", "--batch", str(table), "--output-file", str(table)]) == 2
    assert table.read_text(encoding="utf-8") == HEADER + RAILS
    assert "one of the inputs" in capsys.readouterr().err


def test_one_long_name_does_not_widen_every_line(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(HEADER + RAILS + RAILS.replace("rails", "r" * 10_000), encoding="utf-8")
    assert run(["estimate", "--batch", str(table)]) == 0
    assert len(capsys.readouterr().out.splitlines()[0]) < 200


def test_standard_input_that_is_closed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["estimate", "--batch", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


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
