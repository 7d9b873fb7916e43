"""`ncclcheck estimate step`: a training step before the job runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ncclcheck.cli.main import run

Capture = pytest.CaptureFixture[str]

HARDWARE = "--nodes 32 --gpus-per-node 8 --gpu H100 --nics 8 --nic-gbps 400 --transport IB"
MODEL = "--params 70B --layers 80 --hidden 8192 --zero 3 --tokens-per-gpu 8192"
PLAN = "--parallel dp=32,tp=8"


def asked(arguments: str, capsys: Capture) -> dict[str, Any]:
    assert run(["estimate", "step", *arguments.split(), "--output-format", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def figures(answer: dict[str, Any]) -> dict[str, float]:
    return {one["name"]: one["expected"] for one in answer["figures"]}


def test_a_healthy_step(capsys: Capture) -> None:
    got = asked(f"{HARDWARE} {MODEL} {PLAN}", capsys)
    found = figures(got)
    parts = sum(found[name] for name in ("all_gather of FSDP", "reduce_scatter of FSDP", "all_reduce of TP"))
    assert found["communication"] == pytest.approx(parts)
    assert found["step time"] >= found["compute time"]
    assert found["tokens"] == pytest.approx(8192 * 256 / found["step time"])
    assert "lost share" not in found
    origins = {given["name"]: given["origin"] for given in got["inputs"]}
    assert origins["layers"] == "--layers"
    assert origins["MFU"] == "assumed"


def test_what_a_fault_costs(capsys: Capture) -> None:
    found = figures(asked(f"{HARDWARE} {MODEL} {PLAN} --with sockets --gpu-price 2.5", capsys))
    assert found["lost share"] > 0.8
    assert found["lost GPU-hours"] == pytest.approx(24 * 256 * found["lost share"])
    assert found["lost money"] == pytest.approx(2.5 * found["lost GPU-hours"])


def test_text_has_both_sides_and_explains(capsys: Capture) -> None:
    assert run(["estimate", "step", *f"{HARDWARE} {MODEL} {PLAN} --without gdr --explain-estimate".split()]) == 0
    out = capsys.readouterr().out
    assert "256 GPUs, dp=32,tp=8,pp=1, without gdr: a training step\n" in out
    assert out.count("    without gdr") >= 3
    assert "8.75B parameters of a rank x 2 B" in " ".join(out.split())


@pytest.mark.parametrize(
    "arguments",
    [
        MODEL,
        f"{HARDWARE} --params 70B --parallel dp=8,ep=4",
        f"{HARDWARE} {MODEL} --mfu 2",
        f"{HARDWARE} {MODEL} --step-time never",
        f"{HARDWARE} {MODEL} --gpu-price 0",
        f"{HARDWARE} {MODEL} --without luck",
        f"{HARDWARE} {MODEL} --dtype int4",
        f"--nodes 1 --gpus-per-node 8 {MODEL} --parallel dp=64",
        f"--nodes 2 {MODEL}",
        HARDWARE,
    ],
)
def test_wrong_calls(arguments: str, capsys: Capture) -> None:
    assert run(["estimate", "step", *arguments.split()]) == 2
    assert "Traceback" not in capsys.readouterr().err
