"""What NCCL Inspector timed, by hand-written expectation."""

from __future__ import annotations

import json
from typing import Any

from telemetry_samples import FIXTURES, read


def operations(kind: str, name: str) -> list[dict[str, Any]]:
    return read((FIXTURES / kind / name).read_bytes()).operations


def test_one_operation_per_line_and_the_last_line_is_cut() -> None:
    found = operations("nccl-inspector", "rack2-a-pid901.log")
    assert [(one["line"], one["op"], one["sn"], one["us"]) for one in found] == [
        (1, "all_reduce", 11, 2100),
        (2, "reduce_scatter", 12, 610),
        (3, "send", 3, 55.5),
    ]
    first = found[0]
    assert (first["host"], first["pid"], first["comm"], first["name"]) == ("rack2-a", 901, "0x5d17c0ffee2b", "dp 0")
    assert (first["rank"], first["nranks"], first["nodes"], first["timing"]) == (0, 4, 2, "kernel_gpu")


def test_sizes_are_those_of_nccl_tests() -> None:
    """Inspector prints what one rank gives or gets of a reduce_scatter and an all_gather, nccl-tests all of it."""
    plain = operations("nccl-inspector", "rack2-a-pid901.log")
    assert [one["size"] for one in plain] == [1 << 26, 4 << 22, 1 << 20]
    assert abs(plain[1]["size"] / plain[1]["us"] / 1e3 - plain[1]["algbw"]) < 1e-3


def test_verbose_objects_laid_out_one_after_the_other() -> None:
    found = operations("nccl-inspector", "verbose-laid-out.json")
    assert [(one["op"], one["rank"], one["us"]) for one in found] == [("all_reduce", 2, 1800), ("all_gather", 2, 400)]
    lines = (FIXTURES / "nccl-inspector" / "verbose-laid-out.json").read_text().splitlines()
    assert all("coll_exec_time_us" in lines[one["line"] - 1] for one in found)


def test_the_last_values_of_prometheus() -> None:
    found = operations("nccl-inspector-prom", "tray07.prom")
    assert [(one["op"], one.get("busbw"), one.get("us")) for one in found] == [
        ("all_reduce", 412.5, None),
        ("all_reduce", None, 5210.25),
        ("all_reduce", 409.75, None),
        ("all_reduce", None, 5245.5),
        ("recv", 301.5, None),
    ]
    assert {(one["host"], one["name"], one["nranks"], one["nodes"]) for one in found} == {
        ("tray07", "TP Group 1", 8, 1)
    }
    assert (found[0]["bucket"], found[0]["algo"], found[0]["proto"]) == ("1-2GB", "nvls", "simple")


def test_numbers_that_cannot_be_are_no_operations() -> None:
    whole = json.loads((FIXTURES / "nccl-inspector" / "rack2-a-pid901.log").read_text().splitlines()[0])
    for key, value in (("coll_exec_time_us", 0), ("coll_exec_time_us", -3), ("coll_msg_size_bytes", "big")):
        document = {**whole, "coll_perf": {**whole["coll_perf"], key: value}}
        assert read(json.dumps(document)).operations == []
    assert read(json.dumps(whole).replace("2100", "Infinity")).operations == []
