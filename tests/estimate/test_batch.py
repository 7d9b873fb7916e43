"""Rows as people write them down, read into configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.questions.batch import CONDITIONS, FORCED, answer, read_row

TWO_NODES = {
    "id": "a", "collective": "all_reduce", "nodes": "2", "gpus_per_node": "8", "gpu_model": "H100",
    "intra_node_link": "NVSwitch", "nvlinks_per_gpu": "18", "pcie_gen": "5", "nics_per_node": "8", "nic_gbps": "400",
    "transport": "IB", "gdr": "yes", "algo": "nvlstree", "condition": "none", "nccl_version": "NA",
    "size_bytes": "8589934592",
}  # fmt: skip
HEALTHY = Config(
    2, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400, algorithm="nvls", nvlinks=18, pcie_gen=5
)  # fmt: skip


def config(**cells: str) -> Config:
    return read_row({**TWO_NODES, **cells}, hardware()).config


def test_a_row_is_a_configuration() -> None:
    assert config() == HEALTHY
    assert read_row(TWO_NODES, hardware()).size == 8 << 30


@pytest.mark.parametrize(
    ("cells", "change"),
    [
        ({"condition": "nvls_off"}, {"nvls": False}),
        ({"condition": "acs"}, {"redirect": "acs"}),
        ({"condition": "acs,proto_ll"}, {"redirect": "acs", "protocol": "ll"}),
        ({"condition": "roce_lossy+fec"}, {"effect": "roce-lossy+fec"}),
        ({"nccl_version": "2.16.2"}, {"nvls": False}),
        ({"gdr": "no"}, {"gdr": False}),
        ({"algo": "NA"}, {"algorithm": ""}),
        ({"collective": "alltoall_perf"}, {"collective": "all_to_all", "algorithm": ""}),
        ({"transport": "RoCE"}, {"network": "roce"}),
        ({"transport": "TCP", "nic_gbps": "25"}, {"network": "socket", "nic_gbit": 25, "tcp_gbit": 25, "gdr": False}),
        ({"condition": "tcp_tuned"}, {"network": "socket", "tcp_gbit": 400, "gdr": False, "tcp_tuned": True}),
        ({"gpu_model": "A100?", "pcie_gen": "4"}, {"gpu": "A100 SXM", "pcie_gen": 4}),
    ],
)
def test_cells(cells: dict[str, str], change: dict[str, object]) -> None:
    assert config(**cells) == replace(HEALTHY, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("link", "gpu", "path"),
    [
        ("NVLink mesh", "A100", "nvlink"),
        ("NVLink pairs + SHM between pairs", "RTX A6000", "mixed"),
        ("PCIe, SHM through host", "RTX 5090", "shm"),
        ("PCIe switch P2P", "RTX PRO 6000", "pcie-switch"),
        ("PCIe P2P via CPU", "L40S", "pcie-cpu"),
        ("", "RTX 4090", "shm"),
        ("", "H200", "nvlink"),
    ],
)
def test_paths_inside_the_node(link: str, gpu: str, path: str) -> None:
    assert config(intra_node_link=link, gpu_model=gpu, nodes="1").intra == path


def test_trays_of_a_rack_are_one_node() -> None:
    rack = config(gpu_model="GB200", nodes="18", gpus_per_node="4", nics_per_node="4", transport="MNNVL")
    assert (rack.nodes, rack.gpus_per_node, rack.network) == (1, 72, "")
    racks = config(gpu_model="GB200", nodes="36", gpus_per_node="4", nics_per_node="4", transport="MNNVL+IB")
    assert (racks.nodes, racks.gpus_per_node, racks.nics, racks.network) == (2, 72, 72, "ib")


def test_unknown_nics_widen_the_range() -> None:
    known, _ = answer(TWO_NODES, shipped_model())
    assumed, notes = answer({**TWO_NODES, "nics_per_node": "NA", "nic_gbps": ""}, shipped_model())
    assert notes == ["NICs: taken as 4 or 8 per node at 100 or 200 or 400 Gb/s"]
    assert assumed.busbw.low < known.busbw.low / 3
    assert assumed.busbw.high == known.busbw.high
    assert answer({**TWO_NODES, "transport": "TCP", "nic_gbps": ""}, shipped_model())[1] == []


def test_what_is_assumed_is_told() -> None:
    row = read_row({"id": "b", "nodes": "2", "gpus_per_node": "4", "nics_per_node": "4", "nic_gbps": "200"}, hardware())
    assert row.notes == ["GPU not given: taken as H100 SXM", "transport not given: taken as InfiniBand-class"]
    assert read_row({**TWO_NODES, "condition": "moonlight"}, hardware()).notes == [
        "condition 'moonlight' is not modelled"
    ]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ({"nodes": ""}, "nodes"),
        ({"nodes": "-1"}, "nodes"),
        ({"nodes": "2.5"}, "nodes"),
        ({"gpus_per_node": "0"}, "gpus_per_node"),
        ({"nic_gbps": "fast"}, "nic_gbps"),
        ({"nic_gbps": "nan"}, "nic_gbps"),
        ({"size_bytes": "1e30"}, "size_bytes"),
        ({"collective": "gossip"}, "collective"),
        ({"pcie_gen": "9"}, "PCIe generation 9"),
        ({"nics_per_node": "0"}, "no NICs"),
        ({"nodes": "1", "gpus_per_node": "1"}, "nobody to talk to"),
    ],
)
def test_rows_without_a_number_say_why(cells: dict[str, str], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        answer({**TWO_NODES, **cells}, shipped_model())


@pytest.mark.parametrize(
    "condition", [*FORCED, *(word for word, put in CONDITIONS.items() if all(one.loses for one in put))]
)
def test_no_condition_makes_it_faster(condition: str) -> None:
    healthy = answer({**TWO_NODES, "algo": ""}, shipped_model())[0].busbw
    faulty = answer({**TWO_NODES, "algo": "", "condition": condition}, shipped_model())[0].busbw
    assert all(after <= before for after, before in zip(faulty, healthy, strict=True))
