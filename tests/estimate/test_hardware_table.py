"""The table of constants: complete, sourced, and found by the names people and logs use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ncclcheck.estimate.hardware_table as module
from ncclcheck.estimate.hardware_table import hardware

RAW: dict[str, Any] = tomllib.loads((Path(module.__file__).parent / "hardware.toml").read_text(encoding="utf-8"))


def test_every_table_has_a_source() -> None:
    for name, table in RAW.items():
        if name == "sources":
            continue
        if name in RAW["sources"] or "source" in table:
            continue
        assert all(row["source"] for row in table.values()), name


def test_every_source_has_a_year() -> None:
    told = [*RAW["sources"].values()]
    tables: list[Any] = [RAW]
    while tables:
        for value in tables.pop().values():
            if isinstance(value, dict):
                tables.append(value)
                told += [value["source"]] if "source" in value else []
    assert len(told) > 50
    assert [source for source in told if not re.search(r"\b(19|20)\d\d\b", source)] == []


def test_every_limit_has_a_range_around_one() -> None:
    for name, (low, high) in hardware().ranges.items():
        assert 0 < low < 1 < high, name
    limits = {network.limit for network in hardware().networks.values()}
    assert limits <= set(hardware().ranges)


@pytest.mark.parametrize("row", RAW["printed"], ids=lambda row: row["example"])
def test_no_pattern_is_hidden_by_an_earlier_one(row: dict[str, list[str]]) -> None:
    assert hardware().classes_of_name(str(row["example"])) == tuple(row["gpus"])
    assert set(row["gpus"]) <= set(hardware().gpus)


@pytest.mark.parametrize("name", [name for row in RAW["nvlink_total"] for name in row["gpus"]])
def test_totals_name_known_classes(name: str) -> None:
    assert hardware().gpus[name].nvlink is not None


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", ("H100 SXM",)),
        ("NVIDIA H100 PCIe", ("H100 PCIe",)),
        ("NVIDIA A100-SXM4-80GB", ("A100 SXM",)),
        ("NVIDIA A100 80GB PCIe", ("A100 PCIe",)),
        ("Tesla V100-SXM2-16GB", ("V100 SXM",)),
        ("Tesla V100S-PCIE-32GB", ("V100 PCIe",)),
        ("NVIDIA A10G", ("A10G",)),
        ("NVIDIA GeForce RTX 4090 D", ("RTX 4090",)),
        ("Quadro P400", ()),
        ("", ()),
    ],
)
def test_printed_names(printed: str, expected: tuple[str, ...]) -> None:
    assert hardware().classes_of_name(printed) == expected


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("H100", ("H100 SXM",)),
        ("h100-sxm", ("H100 SXM",)),
        ("H100 pcie", ("H100 PCIe",)),
        ("rtx4090", ("RTX 4090",)),
        ("gb200", ("GB200",)),
        ("l4", ("L4",)),
    ],
)
def test_flag(flag: str, expected: tuple[str, ...]) -> None:
    assert hardware().classes_of_flag(flag) == expected


def test_a_family_gives_several_and_nonsense_lists_what_is_known() -> None:
    assert len(hardware().classes_of_flag("hopper")) > 3
    with pytest.raises(ValueError, match="H100 SXM"):
        hardware().classes_of_flag("TPU v5")


@pytest.mark.parametrize(
    ("total", "release", "expected"),
    [
        (370.8, (2, 27, 3), {"H100 SXM", "H200 SXM", "H20", "GH200"}),
        (360.0, (2, 18, 3), {"H100 SXM", "H200 SXM", "H20", "GH200", "B200 SXM"}),
        (240.0, (2, 12, 12), {"A100 SXM", "A100 PCIe"}),
        (240.0, (2, 21, 5), {"A100 SXM", "A100 PCIe", "H100 PCIe", "H100 NVL"}),
        (120.0, None, {"V100 SXM"}),
        (200.0, None, set()),
    ],
)
def test_nvlink_total(total: float, release: tuple[int, int, int] | None, expected: set[str]) -> None:
    assert set(hardware().classes_of_total(total, release)) == expected
