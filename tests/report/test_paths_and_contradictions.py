"""What the head of a report says of tables of paths and of outputs that disagree."""

from __future__ import annotations

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.nearness import GpuSeat, Nearness
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Contradiction, Value
from ncclcheck.report.machines import write_machines
from ncclcheck.report.page import Page

AT = Evidence("topo.txt", 3, "")


def text(tables: tuple[Nearness, ...] = (), differ: tuple[Contradiction, ...] = (), verbose: bool = False) -> str:
    page = Page(400, False)
    write_machines(page, tables, differ, verbose)
    return page.text()


def seats(*nics: str, path: str = "PIX", links: int | None = 18) -> tuple[GpuSeat, ...]:
    return tuple(GpuSeat(f"GPU{i}", (nic,) if nic else (), path, links) for i, nic in enumerate(nics))


def test_each_gpu_has_its_nic() -> None:
    rails = ("mlx5_3", "mlx5_7")
    table = Nearness("topo", seats(*rails), rails, ("mlx5_8",), (("GPU0",), ("GPU1",)), AT)
    assert text((table,)) == (
        "paths  topo.txt:3: 2 GPUs, 18 NVLinks each; one NIC per GPU: 0 mlx5_3 (PIX), 1 mlx5_7 (PIX);"
        " near no GPU: mlx5_8\n"
    )


def test_a_flat_guest_does_not_tell() -> None:
    table = Nearness("topo", seats("", "", path="PHB", links=0), (), (), (), AT)
    assert text((table,)) == (
        "paths  topo.txt:3: 2 GPUs; every NIC is equally far (PHB): the table does not tell which is near\n"
    )


def test_rows_that_are_cut_are_counted() -> None:
    table = Nearness("topo", (*seats("mlx5_0"), GpuSeat("GPU1", (), "", 0)), ("mlx5_0",), (), (("GPU0",),), AT)
    assert "NVLinks 18/0; nearest NICs: 0 mlx5_0 (PIX); the rows of 1 GPU are not whole" in text((table,))


def test_both_sides_of_a_contradiction_are_shown() -> None:
    values = (
        Value("16", 16.0, "nvidia-smi-q", Evidence("q.txt", 12, "")),
        Value("8", 8.0, "lspci", Evidence("lspci.txt", 40, "")),
    )
    one = Contradiction(Place("n4"), "gpu", "0000:1b:00.0", "pcie_lanes_max", values)
    assert text(differ=(one,)) == (
        "differ gpu 0000:1b:00.0 of n4, pcie_lanes_max: 16 (nvidia-smi-q, q.txt:12) or 8 (lspci, lspci.txt:40)\n"
    )
    assert "2 more that differ (-v shows them)" in text(differ=(one,) * 5)
    assert text(differ=(one,) * 5, verbose=True).count("differ") == 5
