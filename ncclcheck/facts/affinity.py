"""Which CPUs may NCCL's threads use, GPU by GPU?

NCCL binds its threads for a GPU to the CPUs that the process may use *and* that lie on the GPU's NUMA node. Until
2.27.7 it prints that set as a mask, and nothing where it is empty; from 2.28.3 as a list, beside the two it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# More CPUs than any machine has: a number beyond is a torn line.
_MOST_CPUS = 1 << 14

_PARTS = re.compile(r"\(GPU affinity = ([^;)]*?) *(?:; CPU affinity = ([^;)]*?) *)?\)")


class Binding(NamedTuple):
    """NCCL's threads for one GPU. cpus: those they may use; empty: none of the process's CPUs is near the GPU, and the
    threads stay where the process is. near: the GPU's CPUs. allowed: the process's. None: not printed."""

    gpu: int
    cpus: frozenset[int]
    near: frozenset[int] | None
    allowed: frozenset[int] | None
    evidence: Evidence


class Layout(NamedTuple):
    """Machines that print the same bindings. machines: empty where the records have no host. places: how many."""

    machines: tuple[str, ...]
    places: int
    bindings: tuple[Binding, ...]


@question
def layouts(facts: Printed) -> tuple[Layout, ...]:
    """The bindings of all machines that print any; lines that cannot be read are left out."""
    printed = facts["affinities"].filter(pl.col("gpu").is_not_null() & pl.col("mask").is_not_null())
    if printed.height == 0:
        return ()
    rows = printed.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    rows = rows.with_columns(
        place=pl.coalesce("machine", pl.format("process {}", "proc")), text=pl.col("text").fill_null("")
    )
    rows = rows.unique(["place", "gpu", "mask", "text"], keep="first", maintain_order=True)
    look = pl.format("{} {} {}", "gpu", "mask", "text").sort().str.join("|")
    looks = rows.group_by("place", maintain_order=True).agg(pl.col("machine").first(), look=look)
    kinds = looks.group_by("look", maintain_order=True).agg(
        pl.col("machine").drop_nulls().sort(), pl.col("place").first(), places=pl.len()
    )
    shown = rows.join(kinds.select("place"), on="place", how="semi").sort("gpu", maintain_order=True)
    by_place: dict[str, list[Binding]] = {}
    for row in shown.iter_rows(named=True):
        binding = _binding(row["gpu"], row["mask"], row["text"], facts.evidence(row["source"], row["line"]))
        if binding is not None:
            by_place.setdefault(row["place"], []).append(binding)
    return tuple(
        Layout(tuple(kind["machine"]), kind["places"], tuple(by_place[kind["place"]]))
        for kind in kinds.iter_rows(named=True)
        if kind["place"] in by_place
    )


def _binding(gpu: int, mask: str, text: str, evidence: Evidence) -> Binding | None:
    parts = _PARTS.search(text)
    near, allowed = (cpu_list(parts[1]), cpu_list(parts[2] or "")) if parts else (None, None)
    if mask.rstrip(",.") == "empty":
        return Binding(gpu, frozenset(), near, allowed, evidence)
    cpus = cpu_list(mask) if text else cpu_mask(mask)
    return Binding(gpu, cpus, near, allowed, evidence) if cpus else None


def cpu_mask(mask: str) -> frozenset[int] | None:
    """CPUs of a mask in hexadecimal words of 32 bits, the highest first: "ff,00000000" is 32 to 39."""
    words = mask.split(",")
    if len(words) * 32 > _MOST_CPUS or not all(re.fullmatch("[0-9a-fA-F]{1,8}", word) for word in words):
        return None
    bits = int("".join(word.zfill(8) for word in words), 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def cpu_list(text: str) -> frozenset[int] | None:
    """CPUs of a list such as "0-55,112-167"; None where it cannot be read."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if ends is None:
            return None
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last >= _MOST_CPUS or last < first:
            return None
        found.update(range(first, last + 1))
    return frozenset(found)


def list_text(cpus: frozenset[int]) -> str:
    """CPUs as a list: "0-7,64-71"."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def socket_of(node: frozenset[int], nodes: Iterable[frozenset[int]]) -> int | None:
    """Socket of a NUMA node, of all nodes seen on the machine; None where it cannot be told.

    Linux numbers the CPUs socket by socket. More than two NUMA nodes are halves or quarters of two sockets.
    """
    order = sorted({*nodes}, key=min)
    if node not in order or len(order) < 2 or len(order) % 2:
        return None
    return order.index(node) * 2 // len(order)


class FarNics(NamedTuple):
    """Machines on which NCCL's graph reaches its NICs across NUMA nodes. numa_nodes: how many NCCL sees; 0: unknown."""

    machines: tuple[str, ...]
    numa_nodes: int
    evidence: tuple[Evidence, ...]


@question
def far_nics(facts: Printed) -> tuple[FarNics, ...]:
    """By the number of NUMA nodes. The ring's pattern names the farthest path between a GPU and its NIC."""
    ring = (pl.col("pattern") == 4) & (pl.col("nchannels") > 0)
    far = facts["graphs"].filter(ring & (pl.col("type_inter") == "SYS"))
    if far.height == 0:
        return ()
    cpus = (
        facts["topology"].filter(pl.col("node") == "CPU").group_by("proc").agg(pl.col("id").n_unique().alias("nodes"))
    )
    rows = far.join(cpus, on="proc", how="left", maintain_order="left").join(facts.machine_table, on="proc", how="left")
    found = rows.group_by(pl.col("nodes").fill_null(0), maintain_order=True).agg(
        pl.col("machine").drop_nulls().unique().sort(), where=pl.struct("source", "line").head(MAX_EVIDENCE)
    )
    return tuple(
        FarNics(
            tuple(row["machine"]), row["nodes"], tuple(facts.evidence(w["source"], w["line"]) for w in row["where"])
        )
        for row in found.iter_rows(named=True)
    )


@question
def silent_processes(facts: Traffic) -> bool:
    """Is there a process that finished init and prints no affinity? Until 2.27.7 an empty set prints nothing."""
    done = facts.members.filter("completed").select("proc").unique()
    return done.join(facts["affinities"].select("proc"), on="proc", how="anti").height > 0
