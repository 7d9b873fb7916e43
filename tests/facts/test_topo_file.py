from itertools import combinations
from pathlib import Path

import pytest
from fact_samples import facts_of

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.topo_file import TopoFile, graph_files, link_gbps, path_tables, rccl_files, topo_files
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "topo_xml"


def facts(name: str) -> Facts:
    source = file_source(str(_FIXTURES / name), name)
    return Facts(read_sources([source]).tables, [name])


def only(name: str) -> TopoFile:
    (file,) = topo_files(facts(name))
    return file


def test_broadcom_chips_below_each_other_are_one_switch() -> None:
    matrix = only("switch-box.xml").matrix
    assert matrix.gpus == ("GPU0", "GPU1", "GPU2", "GPU3") and matrix.nics == ("mlx5_0", "mlx5_2")
    assert [matrix.between("GPU0", other) for other in ("GPU1", "GPU2", "mlx5_0", "mlx5_2")] == [
        "PIX",
        "SYS",
        "PIX",
        "SYS",
    ]


def test_other_switches_below_each_other_are_several() -> None:
    text = (_FIXTURES / "switch-box.xml").read_text(encoding="utf-8").replace('device="0xc030"', 'device="0x9797"')
    matrix = _of_text(text).matrix
    assert matrix.between("GPU0", "GPU1") == "PXB" and matrix.between("GPU0", "mlx5_0") == "PIX"


def test_links_through_switches_are_summed() -> None:
    file = only("nvswitch.xml")
    assert [gpu.links for gpu in file.gpus] == [18, 18, 18, 18]
    assert {file.matrix.between(a, b) for a, b in combinations(file.matrix.gpus, 2)} == {"NV"}
    assert file.matrix.links["GPU0", "GPU3"] == 18 and not file.matrix.nvlink_hidden
    assert file.matrix.best("GPU3") == "PIX"


def test_gpus_with_a_common_neighbour_reach_each_other() -> None:
    file = only("cube.xml")
    assert [gpu.links for gpu in file.gpus] == [3, 3, 3, 3]
    assert file.matrix.links["GPU0", "GPU2"] == 2 and ("GPU0", "GPU3") not in file.matrix.links
    assert file.matrix.between("GPU0", "GPU3") == "NV"


def test_a_skeleton_does_not_tell_of_nvlink() -> None:
    file = only("guest-file.xml")
    assert file.skeleton and file.matrix.nvlink_hidden
    assert file.matrix.between("0011:00:00.0", "0111:00:00.0") == "PIX"
    assert [sign.split(",")[0] for sign, _ in file.guest_signs] == ["GPU at 0011:00:00.0", "switch ffff:ff:01.0"]
    assert facts("guest-file.xml").nvlink is Answer.UNKNOWN


def test_machines_of_one_domain_are_told_apart() -> None:
    first, second = topo_files(facts("two-hosts.xml"))
    assert [gpu.name for gpu in first.gpus] == [gpu.name for gpu in second.gpus] == ["GPU0", "GPU1"]
    assert [gpu.links for gpu in second.gpus] == [18, 18]
    assert not first.guest_signs


def test_what_the_job_takes_from_a_file() -> None:
    known = facts("nvswitch.xml")
    assert known.gpu_names == ("NVIDIA H100 80GB HBM3",)
    shape = known.shape()
    assert (shape.nodes, shape.gpus_per_node, shape.nvlink, shape.nic_gbit) == (1, 4, Answer.YES, (400.0,))
    assert facts("switch-box.xml").nvlink is Answer.NO


def test_files_of_rccl_are_set_aside() -> None:
    known = facts("amd.xml")
    assert topo_files(known) == () and [line.line for line in rccl_files(known)] == [1]
    assert path_tables(known) == ()


def test_a_graph_file() -> None:
    (graph,) = graph_files(facts("rings.xml"))
    assert (graph.channels, graph.gpus, graph.type_intra) == (2, 2, "PIX")


@pytest.mark.parametrize(
    ("speed", "width", "gbps"),
    [
        ("8 GT/s", 16, 12.0),
        ("8.0 GT/s PCIe", 8, 6.0),
        ("16.0 GT/s PCIe", 16, 24.0),
        ("32.0 GT/s PCIe", 16, 48.0),
        ("2.5 GT/s PCIe", 1, 0.1875),
        ("16.0 GT/s", 16, None),
        ("", 16, None),
        ("Unknown", 16, None),
        ("32.0 GT/s PCIe", 0, None),
    ],
)
def test_links_as_nccl_counts_them(speed: str, width: int, gbps: float | None) -> None:
    assert link_gbps(speed, width) == gbps


def _of_text(text: str) -> TopoFile:
    (file,) = topo_files(facts_of(text.split("\n")))
    return file


def test_numbers_that_no_machine_has() -> None:
    text = (_FIXTURES / "nvswitch.xml").read_text(encoding="utf-8")
    hostile = text.replace('count="5"', 'count="5000000000"').replace('speed="400000"', 'speed="9000000000000000000"')
    file = _of_text(hostile.replace('link_width="16"', 'link_width="1000000"'))
    assert [gpu.links for gpu in file.gpus] == [8, 8, 8, 8]
    assert {nic.gbit for nic in file.nics} == {None} and {gpu.pci.gbps for gpu in file.gpus} == {None}


def test_more_gpus_than_any_machine_has() -> None:
    pci = '<pci busid="{:04x}:01:00.0" class="0x030200"><gpu dev="{}" sm="90" rank="0" gdr="1"/></pci>'
    lines = [
        "<system version='1'>",
        "<cpu numaid='0'>",
        *(pci.format(n, n) for n in range(5000)),
        "</cpu>",
        "</system>",
    ]
    assert topo_files(facts_of(lines)) == ()
