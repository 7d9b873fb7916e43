"""`ncclcheck estimate sync`, `inference` and `checkpoint` from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ncclcheck.cli.main import run

Capture = pytest.CaptureFixture[str]

SYNC = "sync --params 70B --gpus 256 --gpus-per-node 8 --gpu H100 --nics 8 --nic-gbps 400 --transport IB"
INFERENCE = "inference --params 70B --layers 80 --kv-heads 8 --head-dim 128 --context 8192 --tp 8 --gpu H100"
CHECKPOINT = "checkpoint --params 70B --write-gbps 2 --writers 8 --mtbf 6h --gpus 256 --gpu-price 2.50"
ALL = pytest.mark.parametrize("call", [SYNC, INFERENCE, CHECKPOINT], ids=["sync", "inference", "checkpoint"])


def document(call: str, capsys: Capture) -> dict[str, Any]:
    assert run(["estimate", *call.split(), "--output-format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def figure(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["figures"] if one["name"] == name)


@ALL
def test_every_figure_has_a_formula_and_every_input_an_origin(call: str, capsys: Capture) -> None:
    found = document(call, capsys)
    assert found["schema"] == "ncclcheck-estimate/1"
    assert all(any(digit.isdigit() for digit in one["formula"]) for one in found["figures"])
    assert all(one["origin"] for one in found["inputs"])
    assert run(["estimate", *call.split(), "--explain-estimate"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "hardware table" in text
    for one in found["figures"]:
        assert " ".join(one["formula"].split())[:20] in text
    assert run(["estimate", *call.split()]) == 0
    assert "hardware table" not in capsys.readouterr().out


def test_sync(capsys: Capture) -> None:
    found = document(SYNC, capsys)
    assert 0.72 <= figure(found, "gradient sync")["expected"] <= 0.79
    assert figure(found, "gradients")["expected"] == 140


def test_inference(capsys: Capture) -> None:
    assert document(INFERENCE, capsys)["fits"] is True
    assert document(f"{INFERENCE} --batch 256", capsys)["fits"] is False


def test_checkpoint(capsys: Capture) -> None:
    found = document(CHECKPOINT, capsys)
    assert found["can_finish"] is True
    assert figure(found, "state")["high"] == pytest.approx(1120)
    four = CHECKPOINT.replace("--mtbf 6h", "--preemptions-per-day 4")
    assert figure(document(four, capsys), "best interval") == figure(found, "best interval")


@pytest.mark.parametrize(("flag", "size"), [("14", 980), ("16", 1120), ("1.1TB", 1100), ("500GB", 500)])
def test_state_per_parameter_or_whole(flag: str, size: float, capsys: Capture) -> None:
    found = document(f"checkpoint --params 70B --state-bytes {flag}", capsys)
    assert figure(found, "state")["expected"] == pytest.approx(size)


@pytest.mark.parametrize(("notice", "word"), [("aws", "fits into"), ("google", "does not fit"), ("1s", "does not fit")])
def test_notice(notice: str, word: str, capsys: Capture) -> None:
    assert run(["estimate", "checkpoint", "--write-time", "60s", "--notice", notice]) == 0
    assert word in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("sync", "Missing option '--params'"),
        ("sync --params 70X", "cannot read '70X' as a number of parameters"),
        ("sync --params 70B --gpus 250 --gpus-per-node 8", "--gpus 250 cannot be divided by --gpus-per-node 8"),
        ("sync --params 70B --nodes 0", "0 is not in the range"),
        ("sync --params 70B --nodes 2 --gpus-per-node 8 --overlap -1", "--overlap is a number from 0 to 1"),
        ("sync --params 70B --nodes 2 --gpus-per-node 8 --nic-gbps nan", "--nic-gbps"),
        ("sync --params 70B --nodes 2 --gpus-per-node 8 --transport carrier-pigeon", "--transport"),
        ("sync --params 70B --nodes 2 --gpus-per-node 8 --compute-time 1e30", "as a duration"),
        ("inference", "nothing to count"),
        ("inference --params 7B --tp 0", "--tp is a number from 1"),
        ("inference --params 7B --gpu H900", "unknown GPU 'H900'"),
        ("inference --params 7B --gpu-memory 80", "--gpu-memory"),
        ("inference --params 7B --dtype int3", "unknown data type 'int3'"),
        ("checkpoint", "nothing to count"),
        ("checkpoint --params 70B --mtbf 6h --preemptions-per-day 4", "say the same thing"),
        ("checkpoint --params 70B --mtbf -6h", "as a duration"),
        ("checkpoint --params 70B --gpu-price 0", "as a price per GPU and hour"),
        ("checkpoint --params 70B --write-gbps 1e30", "--write-gbps is a number"),
        ("checkpoint --params 70B --notice gcp", "as a duration"),
    ],
)
def test_a_wrong_call_is_a_sentence(call: str, sentence: str, capsys: Capture) -> None:
    assert run(["estimate", *call.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err and "Traceback" not in err
