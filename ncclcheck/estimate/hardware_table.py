"""Reads `hardware.toml`, once, at first use."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ncclcheck.estimate.hardware import (
    Algorithms,
    Assumed,
    Bounce,
    Checkpoint,
    Cpu,
    Decode,
    Effect,
    Gpu,
    Hardware,
    HostLink,
    Latency,
    Network,
    NvLink,
    NvlinkTotal,
    Nvls,
    Pcie,
    Racks,
    Redirect,
    Tcp,
    Training,
    Watchdog,
)
from ncclcheck.estimate.ranges import Range


@cache
def hardware() -> Hardware:
    """The table that ships with the package."""
    return _build(_raw())


def hardware_with(constants: Mapping[str, float], origin: str = "") -> Hardware:
    """The same table with some numbers replaced, by their path in hardware.toml ("bounce.pair_share.4").

    origin: where they come from, for the sources of their rows. Raises ValueError for a path that names no number.
    """
    raw = dict(_raw())
    for path, value in constants.items():
        constant(path)
        *parents, last = path.split(".")
        table, row = raw, raw
        for name in parents:
            table[name] = table = dict(table[name])
            row = table if "source" in table else row
        table[last] = value
        if origin and "source" in row:
            row["source"] = f"{row['source']}; {path} from {origin}"
    return _build(raw)


def constant(path: str) -> float:
    """A number of the shipped table by its path. Raises ValueError for a path that names none."""
    found: Any = _raw()
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{path!r} is no number of the hardware table")
    return float(found)


@cache
def _raw() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("hardware.toml").read_text(encoding="utf-8"))


def _build(raw: Mapping[str, Any]) -> Hardware:
    links = {name: NvLink(name, **_fields(row)) for name, row in raw["nvlink"].items()}
    nvls = {name: Nvls(**_fields(row)) for name, row in raw["nvls"].items()}
    return Hardware(
        gpus={row["name"]: _gpu(row, links, nvls) for row in raw["gpu"]},
        networks={
            name: Network(
                row["share"],
                row["limit"],
                tuple(row["rates_gbit"]),
                {generation: tuple(rates) for generation, rates in row.get("rates_of", {}).items()},
                row.get("nics"),
                tuple(row.get("tree_gain_not", ())),
                row["source"],
            )
            for name, row in raw["networks"].items()
        },
        effects={
            name: Effect(Range(*row["factor"]), row["on"], row["measured"], row["source"])
            for name, row in raw["effects"].items()
        },
        ranges={name: (row[0], row[1]) for name, row in raw["ranges"].items() if name != "source"},
        sources={**raw["sources"], **{name: raw[name]["source"] for name in ("ranges", "notice", "overlap")}},
        nvlink_totals=tuple(
            NvlinkTotal(
                tuple(row["totals_gbps"]), tuple(row["gpus"]), tuple(row.get("since", ())), tuple(row.get("before", ()))
            )
            for row in raw["nvlink_total"]
        ),
        printed=tuple((re.compile(row["pattern"], re.IGNORECASE), tuple(row["gpus"])) for row in raw["printed"]),
        algorithms=Algorithms(**_fields(raw["algorithms"])),
        racks=Racks(**_fields(raw["racks"])),
        ll_gbps={name: tuple(row) for name, row in raw["protocol_ll"].items() if name != "source"},
        pcie=Pcie(**_fields(raw["pcie"])),
        cpus={name: Cpu(**_triples(row)) for name, row in raw["cpu"].items()},
        bounce=Bounce(**_fields(raw["bounce"])),
        redirect=Redirect(**_fields(raw["redirect"])),
        tcp=Tcp(**_fields(raw["tcp"])),
        latency=Latency(**_fields(raw["latency"])),
        assumed=Assumed(**_fields(raw["assumed"])),
        training=Training(**_triples(raw["training"])),
        decode=Decode(**_triples(raw["decode"])),
        host_link=HostLink(**_fields(raw["host_link"])),
        checkpoint=Checkpoint(**_triples(raw["checkpoint"])),
        watchdog=Watchdog(**raw["watchdog"]),
        notice_seconds={name: row for name, row in raw["notice"].items() if name != "source"},
        overlap={name: row for name, row in _triples(raw["overlap"]).items() if name != "source"},
        unnoticed_hours=Range(*raw["unnoticed"]["hours"]),
    )


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table's values; lists become tuples, tables by generation get integer keys."""
    return {
        key: tuple(value)
        if isinstance(value, list)
        else {int(key) if key.isdigit() else key: one for key, one in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in row.items()
    }


def _triples(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table's values; lists are low, expected, high."""
    return {key: Range(*value) if isinstance(value, list) else value for key, value in row.items()}


def _gpu(row: Mapping[str, Any], links: Mapping[str, NvLink], nvls: Mapping[str, Nvls]) -> Gpu:
    return Gpu(
        name=row["name"],
        memory_gbytes=row["memory_gbytes"],
        memory_gbps=row["memory_gbps"],
        bf16_tflops=row["bf16_tflops"],
        nvlink=links[row["nvlink"]] if "nvlink" in row else None,
        nvlinks=row.get("nvlinks", 0),
        bridged=row.get("bridged", False),
        nvls=nvls[row["nvls"]] if "nvls" in row else None,
        p2p=row.get("p2p", True),
        c2c=row.get("c2c", False),
        unified=row.get("unified", False),
        pcie_gen=row["pcie_gen"],
        pcie_width=row.get("pcie_width", 16),
        cuda_since=tuple(row.get("cuda_since", ())),
    )
