"""`ncclcheck estimate`: what it prints, draws and refuses."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ncclcheck.cli.main import run
from ncclcheck.live import nvml

Capture = pytest.CaptureFixture[str]

PAIR = "estimate --nodes 2 --gpus-per-node 8 --gpu H100 --nics 8 --nic-gbps 400 --transport IB"


def told(arguments: str, capsys: Capture) -> str:
    assert run(arguments.split()) == 0
    return capsys.readouterr().out


def document(arguments: str, capsys: Capture) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(told(f"{arguments} --output-format json", capsys))
    return answer


def test_what_should_i_get(capsys: Capture) -> None:
    text = told(f"{PAIR} --collective all_reduce --bytes 8G", capsys)
    assert text.startswith("all_reduce of 8 GiB on 2 x 8 H100 SXM, 8 x 400 Gb/s IB\n")
    assert re.search(r"^  busbw +4\d0 \(4\d0-5\d0\) GB/s$", text, re.MULTILINE)
    assert re.search(r"^  time +3\d \(3\d-3\d\) ms$", text, re.MULTILINE)
    assert "limit nvlstree, algorithm nvlstree" in text
    assert "assumed: NVLS on; GPUDirect RDMA on" in text
    rows = re.findall(r"^ +(\d+[KMG])  +\d+[.\d]* [mu]?s ", text, re.MULTILINE)
    assert (rows[0], rows[-1], len(rows)) == ("1K", "16G", 13)
    assert "┌" in text and "⠤" in text


def test_json(capsys: Capture) -> None:
    answer = document(PAIR, capsys)
    assert answer["schema"] == "ncclcheck-estimate/1"
    assert [one["name"] for one in answer["figures"]] == ["busbw", "algbw", "time"]
    assert (answer["limit"], answer["bytes"], answer["configurations"]) == ("nvlstree", 2**33, 1)
    assert answer["config"]["nics"] == 8 and answer["config"]["gpu"] == "H100 SXM"
    assert [row["bytes"] for row in answer["curve"]] == [1024 * 4**step for step in range(13)]
    assert answer["curve"][0]["limit"] == "latency" and answer["curve"][-1]["limit"] == "nvlstree"
    for row in answer["curve"]:
        for key in ("seconds", "algbw_gbps", "busbw_gbps"):
            assert 0 < row[key]["low"] <= row[key]["expected"] <= row[key]["high"]
        assert row["seconds"]["expected"] * row["algbw_gbps"]["expected"] * 1e9 == pytest.approx(row["bytes"])
    assert {"name": "NICs per node", "value": "8", "origin": "--nics"} in answer["inputs"]


def test_a_change(capsys: Capture) -> None:
    text = " ".join(told(f"{PAIR} --with acs", capsys).split())
    assert re.search(r"4\d0 \(4\d0-5\d0\) -> 180 \(\d+-\d+\) GB/s, 2\.\dx \(.*\) slower, limit nvlstree -> root", text)
    assert "alone" not in text


def test_several_changes_have_a_ladder(capsys: Capture) -> None:
    text = " ".join(told(f"{PAIR} --without gdr,nvls --with acs", capsys).split())
    assert "mending acs alone: 73 -> 73 GB/s, still limited by bounce node" in text
    assert "mending gdr alone: 73 -> 180 GB/s, then limited by root complex" in text
    what_if = document(f"{PAIR} --without gdr --without nvls --with acs", capsys)["what_if"]
    assert what_if["changes"] == ["without gdr", "without nvls", "with acs"]
    assert what_if["after"]["limit"] == "bounce node"
    assert what_if["config"]["gdr"] is False and what_if["config"]["redirect"] == "acs"
    assert len(what_if["curve"]) == 13 and len(what_if["ladder"]) == 3


def test_sockets_say_what_the_nics_could_do(capsys: Capture) -> None:
    text = " ".join(told(PAIR.replace("IB", "TCP"), capsys).split())
    assert "busbw 3.0 (" in text
    assert re.search(r"beside RDMA on the same NICs: 4\d0 .* -> 3\.0 .* slower, limit nvlstree -> tcp flow", text)


def test_formulas_and_origins(capsys: Capture) -> None:
    plain, explained = told(PAIR, capsys), " ".join(told(f"{PAIR} --explain-estimate", capsys).split())
    assert "(--nics)" not in plain
    assert "min(nvlstree" in explained and "NICs per node 8 (--nics)" in explained
    assert "(hardware table: fit over published nccl-tests runs" in explained
    assert "NVLS on (assumed)" in explained


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "Give --nodes and --gpus-per-node"),
        ("--nodes 0 --gpus-per-node 8", "--nodes"),
        ("--nodes -2 --gpus-per-node 8", "--nodes"),
        ("--nodes 1e30 --gpus-per-node 8", "--nodes"),
        ("--nodes 2 --gpus-per-node 8 --nic-gbps nan", "--nic-gbps"),
        ("--nodes 2 --gpus-per-node 8 --nic-gbps 0", "from 0.001 to 10000"),
        ("--nodes 2 --gpus-per-node 8 --nic-gbps 1e-300", "from 0.001 to 10000"),
        ("--nodes 2 --gpus-per-node 8 --nics 0", "--nics"),
        ("--nodes 2 --gpus-per-node 8 --gpu Z9000", "unknown GPU"),
        ("--nodes 2 --gpus-per-node 8 --transport pigeon", "known: ib, roce"),
        ("--nodes 2 --gpus-per-node 8 --collective sum", "known: all_reduce"),
        ("--nodes 2 --gpus-per-node 8 --bytes lots", "8 GiB"),
        ("--nodes 2 --gpus-per-node 8 --algo bush", "known: ring, tree"),
        ("--nodes 2 --gpus-per-node 8 --proto lll", "known: simple"),
        ("--nodes 2 --gpus-per-node 8 --intra mixed", "known: nvlink"),
        ("--nodes 2 --gpus-per-node 8 --pcie-gen 9", "--pcie-gen"),
        ("--nodes 2 --gpus-per-node 8 --nccl new", "2.19.3"),
        ("--nodes 2 --gpus-per-node 8 --without sleep", "known: gdr"),
        ("--nodes 2 --gpus-per-node 8 --transport RoCE --with sharp", "InfiniBand"),
        ("--nodes 2 --gpus-per-node 4 --gpu H100 --transport MNNVL", "GB200"),
        ("--gpus-per-node 4 --gpu GB200 --transport MNNVL", "--nodes"),
        ("--nodes 1 --gpus-per-node 1", "nobody to talk to"),
        ("--nodes 1000000 --gpus-per-node 1000000", "10,000,000"),
        ("--nodes 2 --gpus-per-node 8 --gpu H100 --plot no/such/dir.svg", "no/such/dir.svg"),
        ("--nodes 2 --gpus-per-node 8 --gpu H100 --plot -", "stdout is for the answer"),
        ("--nodes 2 --gpus-per-node 8 --gpu H100 --plot x.svg --output-file x.svg", "the same file"),
        ("--nodes 2 --gpus-per-node 8 --site-file x.toml", "--calibrate"),
        ("--batch x.tsv --nodes 2", "--nodes plays no part in --batch"),
        ("--batch x.tsv --calibrate y.txt", "--calibrate plays no part in --batch"),
        ("--calibrate y.txt --output-format json", "--output-format plays no part in --calibrate"),
        ("--calibrate y.txt --site-file -", "stdout is for the report"),
        ("--calibrate y.txt --site x.toml", "--site plays no part in --calibrate"),
    ],
)
def test_wrong_flags(flags: str, words: str, capsys: Capture) -> None:
    assert run(["estimate", *flags.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Error: " in err and words in err


def test_options_before_a_subcommand_are_not_lost_in_silence(capsys: Capture) -> None:
    assert run(["estimate", "--nodes", "2", "checkpoint", "--params", "70B"]) == 2
    assert "options of checkpoint stand behind its name" in capsys.readouterr().err


def test_every_flag_together(capsys: Capture) -> None:
    answer = document(
        "estimate --nodes 4 --gpus-per-node 8 --gpu h100-sxm --nics 8 --nic-gbps 200 --transport roce --bytes 1GB"
        " --collective allreduce --algo ring --proto simple --channels 4 --intra pcie-switch"
        " --pcie-gen 4 --nccl 2.16.5",
        capsys,
    )
    config = answer["config"]
    assert (config["collective"], config["channels"], config["intra"], config["pcie_gen"]) == (
        "all_reduce", 4, "pcie-switch", 4,
    )  # fmt: skip
    assert answer["bytes"] == 10**9
    assert {row["origin"] for row in answer["inputs"]} >= {"--algo", "--proto", "--channels", "--intra", "--nccl"}


def test_trays_of_a_rack(capsys: Capture) -> None:
    answer = document("estimate --nodes 18 --gpus-per-node 4 --gpu GB200 --transport MNNVL", capsys)
    assert (answer["config"]["nodes"], answer["config"]["gpus_per_node"], answer["limit"]) == (1, 72, "nvl72")
    assert "18 nodes of 4 GPUs are 1 NVLink rack of 72 GPUs, each one node for NCCL" in answer["remarks"]
    apart = told("estimate --nodes 2 --gpus-per-node 4 --gpu GB200 --nics 4 --nic-gbps 400 --transport IB", capsys)
    assert "say --transport MNNVL" in apart


def test_this_machine(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpu_names", lambda: ("NVIDIA H200",) * 8)
    assert document("estimate --gpu local", capsys)["title"] == "all_reduce of 8 GiB on 1 x 8 H200 SXM"

    def no_driver() -> tuple[str, ...]:
        raise nvml.NoDriverError("no driver here")

    monkeypatch.setattr(nvml, "gpu_names", no_driver)
    assert run(["estimate", "--gpu", "local"]) == 2
    assert "--gpu local: no driver here" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [40, 50, 60, 80, 120])
@pytest.mark.parametrize("more", ["", " --without gdr,nvls --with acs --explain-estimate"])
def test_nothing_is_wider_than_the_terminal(
    columns: int, more: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = told(PAIR + more, capsys).splitlines()
    assert columns - 3 <= max(map(len, lines)) <= columns
    assert sum(" us " in f"{line} " for line in lines) >= 5  # rows of the table are whole


def test_a_machine_that_cannot_plot(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotext", None)
    assert "no plot: the library plotext does not load here" in told(PAIR, capsys)


@pytest.mark.parametrize(("option", "colourful"), [("never", False), ("always", True), ("auto", False)])
def test_colour(option: str, colourful: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = told(f"{PAIR} --with acs --color {option}", capsys)
    assert ("\x1b[" in text) is colourful
    words = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]
    assert words == told(f"{PAIR} --with acs --color never", capsys).splitlines()


def test_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    assert run(f"{PAIR} --with acs".split()) == 0
    text = buffer.getvalue().decode("ascii")
    assert "\\u" not in text and "+-" in text and "*" in text


def test_output_file(capsys: Capture, tmp_path: Path) -> None:
    assert told(f"{PAIR} --output-file {tmp_path}/answer.txt", capsys) == ""
    assert "busbw" in (tmp_path / "answer.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("more", ["", " --with acs"])
def test_svg(more: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    told(f"{PAIR}{more} --plot {path}", capsys)
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    places = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert places == {"http://www.w3.org/2000/svg"}
    assert "script" not in text and "href" not in text and "@import" not in text
    words = {element.text for element in root.iter() if element.text}
    assert {"1K", "16G", "message size", "bus bandwidth, GB/s"} <= words
    assert ("after" in words) is bool(more)
    curves = [element for element in root.iter() if "line" in element.get("class", "").split() and element.get("d")]
    assert len(curves) >= 3 * (1 + bool(more))
    told(f"{PAIR}{more} --plot {path}", capsys)
    assert path.read_text(encoding="utf-8") == text


def test_help_names_the_unit_of_sizes(capsys: Capture) -> None:
    assert "8G is 8 GiB" in " ".join(told("estimate --help", capsys).split())
