"""Tables of paths as a careful reader takes them: each expectation is written by hand beside its fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.nearness import Nearness, nearness
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources

FOLDER = Path(__file__).parents[2] / "fixtures" / "nearness"

# file: GPU -> (NICs, class), NVLinks of each GPU, rails, others, in words
EXPECTED = {
    # HGX: a rail for each GPU; a bond and a second NIC of the socket are storage
    "rails-and-storage.txt": (
        "mlx5_2/PXB mlx5_3/PXB mlx5_5/PXB mlx5_6/PXB mlx5_8/PXB mlx5_9/PXB mlx5_10/PXB mlx5_11/PXB",
        [18] * 8,
        "mlx5_2 mlx5_3 mlx5_5 mlx5_6 mlx5_8 mlx5_9 mlx5_10 mlx5_11",
        "mlx5_bond_0 mlx5_14",
        "one NIC per GPU",
    ),
    # DGX A100: four switches of two GPUs and two NICs; two storage NICs far from all; NUMA nodes 3, 1, 7, 5
    "two-gpus-two-nics.txt": (
        "mlx5_0+mlx5_1/PXB mlx5_0+mlx5_1/PXB mlx5_2+mlx5_3/PXB mlx5_2+mlx5_3/PXB"
        " mlx5_4+mlx5_5/PXB mlx5_4+mlx5_5/PXB mlx5_6+mlx5_7/PXB mlx5_6+mlx5_7/PXB",
        [12] * 8,
        "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7",
        "mlx5_8 mlx5_9",
        "2 GPUs share 2 NICs",
    ),
    # DGX-1: six links of each GPU go to four neighbours; a NIC for each pair
    "cube-mesh.txt": (
        "mlx5_0/PIX mlx5_0/PIX mlx5_1/PIX mlx5_1/PIX mlx5_2/PIX mlx5_2/PIX mlx5_3/PIX mlx5_3/PIX",
        [6] * 8,
        "mlx5_0 mlx5_1 mlx5_2 mlx5_3",
        "",
        "2 GPUs share a NIC",
    ),
    # a guest shows every device behind one host bridge: which NIC is near cannot be known
    "guest-all-phb.txt": ("/PHB /PHB /PHB /PHB", [18] * 4, "", "", ""),
    # GB200: each NIC has a PCI domain of its own; SYS says nothing
    "grace-tray.txt": ("/SYS /SYS /SYS /SYS", [18] * 4, "", "", ""),
    # a copy that lost tabs where the terminal wrapped
    "fused-cells.txt": (
        "mlx5_2/PXB mlx5_3/PXB mlx5_5/PXB mlx5_6/PXB mlx5_8/PXB mlx5_9/PXB mlx5_10/PXB mlx5_11/PXB",
        [18] * 8,
        "mlx5_2 mlx5_3 mlx5_5 mlx5_6 mlx5_8 mlx5_9 mlx5_10 mlx5_11",
        "mlx5_bond_0 mlx5_14",
        "one NIC per GPU",
    ),
    # cards with bridges: links to one other GPU only
    "bridged-pairs.txt": (
        "rocep65s0/PIX rocep65s0/PIX rocep193s0/PIX rocep193s0/PIX",
        [12] * 4,
        "rocep65s0 rocep193s0",
        "",
        "2 GPUs share a NIC",
    ),
    # an issue form cut it after GPU2, legend and all: nothing is told of the others' NICs
    "cut-after-three-rows.txt": (
        "NIC0/PXB NIC1/PXB NIC3/PXB / / / / /",
        [18] * 8,
        "NIC0 NIC1 NIC3",
        "",
        "",
    ),
    # names of devices run against the numbers of GPUs; a storage NIC on no GPU's switch
    "dump-names-run-backwards.xml": (
        "mlx5_7/PIX mlx5_6/PIX mlx5_5/PIX mlx5_4/PIX",
        [18] * 4,
        "mlx5_7 mlx5_6 mlx5_5 mlx5_4",
        "mlx5_8",
        "one NIC per GPU",
    ),
    # a cloud's file: switches that do not exist join GPUs and NICs; NVLinks are left to NCCL
    "cloud-skeleton.xml": (
        "0200:00:00.0+0201:00:00.0/PIX 0200:00:00.0+0201:00:00.0/PIX 0202:00:00.0+0203:00:00.0/PIX"
        " 0202:00:00.0+0203:00:00.0/PIX 0204:00:00.0+0205:00:00.0/PIX 0204:00:00.0+0205:00:00.0/PIX"
        " 0206:00:00.0+0207:00:00.0/PIX 0206:00:00.0+0207:00:00.0/PIX",
        [None] * 8,
        "0200:00:00.0 0201:00:00.0 0202:00:00.0 0203:00:00.0 0204:00:00.0 0205:00:00.0 0206:00:00.0 0207:00:00.0",
        "",
        "2 GPUs share 2 NICs",
    ),
    # four V100 of one board, the only NIC on a root port of the first socket: near nobody, but nearer to two
    "mesh-one-nic-no-switch.xml": ("mlx5_0/PHB mlx5_0/PHB mlx5_0/SYS mlx5_0/SYS", [6] * 4, "", "", ""),
}


def read(name: str) -> Nearness:
    source = file_source(str(FOLDER / name), name)
    (found,) = nearness(Facts(read_sources([source]).tables, [source.name]))
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_is_read_as_a_careful_reader_does(name: str) -> None:
    seats, links, rails, others, words = EXPECTED[name]
    found = read(name)
    assert [f"{'+'.join(seat.nics)}/{seat.path}" for seat in found.seats] == seats.split(" ")
    assert [seat.links for seat in found.seats] == links
    assert (" ".join(found.rails), " ".join(found.others), found.sharing) == (rails, others, words)


def test_every_fixture_is_expected() -> None:
    assert set(EXPECTED) == {file.name for file in FOLDER.iterdir()}
