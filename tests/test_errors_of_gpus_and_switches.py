"""HST004 by Xids, IB006 by cables, NVL004 by SXids, NVL002 by lists of links: what a few lines decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ncclcheck.engine.registry import load_registry
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.facts import Facts
from ncclcheck.readers.read import read_sources
from ncclcheck.rules.model import Finding

SHARED = Path(__file__).parents[2] / "shared" / "samples"


RULES = {entry.rule.code: entry.rule for entry in load_registry().entries}


class Text:
    name = "text"

    def __init__(self, lines: Sequence[str]) -> None:
        self._block = ("\n".join(lines) + "\n").encode()

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        yield self._block, 1


def findings(code: str, lines: Sequence[str]) -> list[Finding]:
    source = Text(lines)
    facts = Facts(read_sources([source]).tables, [source.name])
    said = RULES[code].check(facts, Estimator(facts.shape(), EstimateOptions()))
    return [one for one in said if isinstance(one, Finding)]


@pytest.mark.parametrize(
    ("number", "severity", "words"),
    [
        (64, "error", "could not be replaced"),
        (79, "error", "fallen off the bus"),
        (95, "error", "uncontained"),
        (63, "warning", "waits for a reset"),
        (140, "warning", "ECC error"),
        (143, "warning", "NVLink"),
        (150, "warning", "NVLink"),
        (13, "info", "exception"),
        (92, "info", "many corrected"),
        (142, "info", "not known to stop a job by itself"),
        (151, "info", "not known to stop a job by itself"),
        (154, "info", "recovery action"),
    ],
)
def test_every_xid_is_told(number: int, severity: str, words: str) -> None:
    (by_kernel,) = findings("HST004", [f"[ 812.100000] NVRM: Xid (PCI:0000:3d:00): {number}, pid=4, name=python3, x"])
    (by_nccl,) = findings("HST004", [f"n4:7 NCCL DIAG [INFO] Xid {number} detected 1 time on host n4."])
    for finding in (by_kernel, by_nccl):
        assert finding.severity.value == severity
        assert words in finding.message
    assert "0000:3d:00.0" in by_kernel.message and "A GPU of n4" in by_nccl.message


def test_a_fatal_error_of_a_switch_that_several_logs_tell_is_one() -> None:
    kernel = [
        f"n4: [ 812.100000] nvidia-nvswitch1: SXid (PCI:0000:0b:00.0): 20034, {fatality}, Link {link} LTSSM Fault Up"
        for fatality, link in (("Fatal", 17), ("Fatal", 19), ("Non-fatal", 20))
    ]
    (finding,) = findings("NVL004", kernel)
    assert finding.message == "NVSwitch 0000:0b:00.0 of n4 reports SXid 20034 (fatal)"
    by_nccl = "n4:7 NCCL DIAG [INFO] SXid 20034 detected 2 times (NVSwitch driver reported Fatal) on host n4."
    (finding,) = findings("NVL004", [*kernel, by_nccl])
    assert finding.message == "NVSwitch 0000:0b:00.0 of n4 reports SXid 20034 (fatal)"
    (finding,) = findings("NVL004", [*kernel, kernel[0].replace("0b:00", "0c:00")])
    assert finding.message.endswith("; 1 other fatal SXid")


def links(index: int, states: str, model: str) -> list[str]:
    """states: a character per link, `-` for one that is down."""
    lines = [f"\t Link {n}: {'<inactive>' if state == '-' else '26.562 GB/s'}" for n, state in enumerate(states)]
    return [f"GPU {index}: {model} (UUID: GPU-7f0c5d21-9b3e-4a68-8d17-40c2b6e9f1a{index})", *lines]


H100, LOST = "NVIDIA H100 80GB HBM3", "+" * 9 + "-" + "+" * 8


@pytest.mark.parametrize(
    ("model", "states", "message"),
    [
        (
            H100,
            [LOST] * 4,
            "All 4 GPUs have 17 active NVLinks, the others are inactive; NVIDIA H100 80GB HBM3 is built",
        ),
        (H100, [LOST], "GPU0 has 17 active NVLinks"),
        (H100, [LOST[:12]] * 2, None),  # cut: what follows is unknown
        (H100, ["-" * 18], None),  # one GPU of a guest
        (H100, ["+" * 18] * 2, None),
        ("NVIDIA H800", ["+" * 8 + "-" * 10] * 2, None),
        ("NVIDIA A800-SXM4-80GB", ["+" * 8] * 2, None),
        ("NVIDIA H100 PCIe", ["++++-++++--+++"] * 2, None),  # a bridged card
        ("NVIDIA unheard of", [LOST] * 2, None),
    ],
)
def test_links_that_are_inactive_on_all_gpus(model: str, states: list[str], message: str | None) -> None:
    found = findings("NVL002", [line for index, one in enumerate(states) for line in links(index, one, model)])
    assert [finding.message.startswith(message or "-") for finding in found] == ([True] if message else [])
    assert {finding.confidence.value for finding in found} <= {"medium"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the collection of outputs is not there")
def test_collected_outputs_stay_silent() -> None:
    log = (SHARED / "host" / "fabricmanager.log").read_text().splitlines()
    assert not [finding.message for finding in findings("NVL004", log) if "SXid" in finding.message]
    for name in ("h100pcie.nvlink-s-gaps.txt", "h800.nvlink-s-c-PARTIAL.txt", "h100mig-590.nvlink-s.txt"):
        lines = (SHARED / "nvidia-smi" / name).read_text().splitlines()
        assert not findings("NVL002", lines), name


def test_the_kernel_names_the_cable_of_a_port_that_is_down() -> None:
    log = (Path(__file__).parents[1] / "fixtures" / "rules" / "IB006" / "fail-cable-error.log").read_text()
    cable = "; the kernel says of the cable: error, bad or shorted cable/module"
    lines = log.splitlines()
    (finding,) = findings("IB006", lines)
    assert finding.message.endswith(cable) and "Cable error" in lines[finding.evidence[0].line - 1]
    plugged = "[   99.100000] mlx5_core 0000:4f:00.0: Port module event: module 0, Cable plugged"
    for other in (log + plugged, log.replace("ibp79s0: renamed", "ibp80s0: renamed")):
        (finding,) = findings("IB006", other.splitlines())
        assert cable not in finding.message
