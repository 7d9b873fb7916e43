"""The model against a table of published nccl-tests runs, where that table lies beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.model import shipped_model

plateau = shipped_model().plateau

TABLE = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "busbw-measured.tsv"

GPUS = {
    "V100": "V100 SXM",
    "A100": "A100 SXM",
    "A100?": "A100 SXM",
    "H100": "H100 SXM",
    "H200": "H200 SXM",
    "B200": "B200 SXM",
    "H100/A100 PCIe": "A100 PCIe",
}
PATHS = {
    "PCIe switch P2P": "pcie-switch",
    "PCIe P2P via CPU": "pcie-cpu",
    "PCIe, SHM through host": "shm",
    "NVLink pairs + SHM between pairs": "mixed",
}
NETWORKS = {"IB": "ib", "RoCE": "roce", "EFA": "efa", "Slingshot": "slingshot", "TCPXO": "tcpxo", "TCP": "socket"}
ALGORITHMS = {"nvlstree": "nvls", "p2p": "", "NA": ""}


def config_of(row: dict[str, str], *, told_algorithm: bool) -> Config:
    nodes, per_node = int(row["nodes"]), int(row["gpus_per_node"])
    if row["transport"] == "MNNVL":  # one NVLink domain is one node
        nodes, per_node = 1, nodes * per_node
    network = NETWORKS.get(row["transport"], "")
    rate = 0.0 if row["nic_gbps"] == "NA" else float(row["nic_gbps"])
    guest = "passthrough" in row["special_condition"]
    return Config(
        nodes,
        per_node,
        GPUS.get(row["gpu_model"], row["gpu_model"]),
        intra=PATHS.get(row["intra_node_link"], "nvlink"),
        network=network,
        nics=int(row["nics_per_node"]),
        nic_gbit=rate,
        gdr=row["gdr"] != "no",
        nvls=row["condition"] != "nvls_off",
        tcp_gbit=rate if network == "socket" else None,
        tcp_tuned=row["condition"] == "tcp_tuned",
        redirect=("vm" if guest else "acs") if row["condition"] == "acs" else "",
        pcie_gen=int(row["pcie_gen"]),
        algorithm=ALGORITHMS.get(row["algo"], row["algo"]) if told_algorithm else "",
        collective=row["collective"],
    )


@pytest.mark.skipif(not TABLE.exists(), reason="the table of published runs is not here")
@pytest.mark.parametrize("told_algorithm", [True, False])
def test_published_runs(told_algorithm: bool) -> None:
    with TABLE.open(newline="", encoding="utf-8") as lines:
        rows = [
            row
            for row in csv.DictReader(lines, delimiter="\t")
            if row["model_fit"] == "yes" and row["class"] != "curve"
        ]
    errors, inside = [], 0
    for row in rows:
        busbw, measured = plateau(config_of(row, told_algorithm=told_algorithm)).busbw, float(row["busbw_GBps"])
        errors.append(abs(busbw.expected / measured - 1))
        inside += busbw.low <= measured <= busbw.high
    assert median(errors) < 0.04
    assert inside / len(rows) >= 0.9
    assert sum(error <= 0.25 for error in errors) / len(errors) >= 0.8
