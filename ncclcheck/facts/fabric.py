"""NVLink domains that span machines (MNNVL): what the driver says of the fabric, and what NCCL makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

if TYPE_CHECKING:
    from ncclcheck.facts.traffic import Traffic

# The first release that joins machines over NVLink, and the first driver (CUDA version) that exports memory to others.
_SINCE_RELEASE, _SINCE_DRIVER = 22003, 12030
# GPUs of a machine of such a domain; more are an HGX board, whose NVSwitches end at its edge.
_GPUS_OF_A_TRAY = 4
# GPUs that a domain can hold; jobs with more ranks need a network.
DOMAIN_GPUS = 144
# GPUs that are sold in such domains, under the names that they print (early ones have none of their own).
_IN_DOMAINS = re.compile(r"\bG[BH]\d00\b|\bVR\d00\b|Rubin|Graphics Device", re.I)

READY = 3  # fabric state "completed"


class FabricState(NamedTuple):
    """What the driver says of the fabric of some GPUs. state 3: ready. cluster: id of the NVLink domain, "" where it is
    zero (the NVSwitches of one machine). health: mask of two-bit answers, None where the line is cut."""

    cluster: str
    clique: str
    state: int
    health: int | None
    machines: tuple[str, ...]
    gpus: int
    evidence: tuple[Evidence, ...]


class Clique(NamedTuple):
    """Ranks of one communicator that NVLink joins over machines. domain: ranks with the same cluster id (2.30.3+)."""

    enabled: bool
    clique: str
    size: int
    domain: int | None
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def fabric_states(facts: Printed) -> tuple[FabricState, ...]:
    """What the driver says of the GPUs' fabric, by what it says."""
    rows = facts["fabric"].filter(pl.col("state").is_not_null())
    return tuple(
        FabricState(
            row["cluster"] or "", row["clique"] or "", row["state"], row["health"],
            row["machines"], row["rows"], row["evidence"],
        )
        for row in _grouped(facts, rows, "cluster", "clique", "state", "health")
    )  # fmt: skip


@question
def cliques(facts: Printed) -> tuple[Clique, ...]:
    """Cliques as NCCL prints them; empty where no communicator spans machines over NVLink."""
    rows = facts["cliques"].filter(pl.col("size").is_not_null())
    return tuple(
        Clique(
            row["enabled"] != 0, row["clique"] or "", row["size"], row["domain"], row["machines"], row["evidence"]
        )
        for row in _grouped(facts, rows, "enabled", "clique", "size", "domain")
    )  # fmt: skip


def _grouped(facts: Printed, rows: pl.DataFrame, *look: str) -> Iterator[dict[str, Any]]:
    """The rows by their look, with `machines`, `rows` and `evidence`."""
    if rows.height == 0:
        return
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    grouped = rows.group_by(look, maintain_order=True).agg(
        pl.col("machine").drop_nulls().unique().sort(),
        pl.len().alias("rows"),
        where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
    )
    for row in grouped.iter_rows(named=True):
        evidence = tuple(facts.evidence(w["source"], w["line"]) for w in row["where"])
        yield {**row, "machines": tuple(row["machine"]), "evidence": evidence}


@question
def nvlink_over_machines(facts: Printed) -> Answer:
    """May NVLink join machines of this job into one node? YES: it does somewhere. NO: hardware, driver, release or
    settings rule it out. UNKNOWN: the input may end before the lines that tell."""
    if _joined(facts):
        return Answer.YES
    ruled_out = _too_old(facts) or _switched_off(facts) or _other_hardware(facts) or _refused(facts)
    return Answer.NO if ruled_out else Answer.UNKNOWN


def _joined(facts: Printed) -> bool:
    edges, said = facts["edges"], facts["cliques"]
    return bool(
        said.select((pl.col("enabled") != 0).any()).item() or edges.select((pl.col("method") == "MNNVL").any()).item()
    )


def _too_old(facts: Printed) -> bool:
    drivers = [int(seen.value) for seen in facts.notes("cuda_driver_version") if seen.value.isdecimal()]
    # releases 2.2 and 2.3 have lines of their own; before 2.16.2 there is no id
    no_id = (pl.col("phase") == "COMPLETE") & pl.col("comm_id").is_null() & pl.col("parent").is_null()
    old_lines = facts["inits"].select(((pl.col("phase") == "RANK") | no_id).any()).item()
    return (
        facts.is_rccl
        or bool(old_lines)
        or bool(facts.releases and facts.releases[-1] < _SINCE_RELEASE)
        or bool(drivers and max(drivers) < _SINCE_DRIVER)
    )


def _switched_off(facts: Printed) -> bool:
    names = ("NCCL_MNNVL_ENABLE", "NCCL_MNNVL", "NCCL_CUMEM_ENABLE")
    return any(seen.value.rstrip(".") == "0" for name in names for seen in facts.settings(name))


def _other_hardware(facts: Printed) -> bool:
    """Cards that are not sold so, x86 hosts, more GPUs than a machine of such a domain has."""
    if facts.gpu_names and not any(_IN_DOMAINS.search(name) for name in facts.gpu_names):
        return True
    arch = facts["topology"].get_column("arch").drop_nulls().unique().to_list()
    if arch and 3 not in arch:  # 3: ARM
        return True
    devices = facts["inits"].select(pl.max_horizontal("nvml_dev", "cuda_dev").max()).item()
    shown = max((len(matrix.gpus) for matrix in facts.matrices if matrix.kind == "topo"), default=0)
    return (devices is not None and devices >= _GPUS_OF_A_TRAY) or shown > _GPUS_OF_A_TRAY


def _refused(facts: Printed) -> bool:
    """The driver names no NVLink domain, or NCCL counts several machines as nodes without one."""
    fabric, inits = facts["fabric"], facts["inits"]
    if fabric.height and fabric.get_column("cluster").null_count() == fabric.height:
        return True
    apart = (pl.col("nnodes") > 1) & (pl.col("mnnvl") == 0) & (pl.col("local_ranks") > 0)
    return len(facts.machines) > 1 and bool(inits.select(apart.any()).item())


class Divided(NamedTuple):
    """Machines of one communicator that share an NVLink domain and are several nodes for NCCL.

    cliques: partitions of the domain that they are in. nranks: of the communicator. ready: is the fabric of all its
    ranks that print it ready.
    """

    machines: tuple[str, ...]
    cliques: int
    nranks: int | None
    ready: bool
    evidence: tuple[Evidence, ...]


class MixedFlags(NamedTuple):
    """One communicator in which some ranks count on NVLink over machines and others do not."""

    without: tuple[str, ...]
    beside: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@question
def divided_domains(facts: Traffic) -> tuple[Divided, ...]:
    """NVLink domains whose machines talk over the network, one entry per domain: that of the largest communicator."""
    fabric = facts["fabric"].filter(pl.col("cluster").is_not_null())
    if fabric.height == 0:
        return ()
    first = fabric.group_by("proc", maintain_order=True).agg(
        pl.col("cluster", "clique", "source", "line").first(), ready=(pl.col("state") == READY).all()
    )
    members = facts.members.filter(
        (pl.col("nnodes") > 1) & (pl.col("mnnvl") == 0) & ~pl.col("ambiguous") & pl.col("machine").is_not_null()
    ).select("cid", "proc", "machine", "nranks")
    domains = (
        members.join(first, on="proc")
        .group_by("cid", "cluster")
        .agg(
            pl.col("machine").unique().sort(),
            pl.col("clique").n_unique().alias("cliques"),
            pl.col("nranks").max(),
            pl.col("ready").all(),
            where=pl.struct("source", "line").sort_by("source", "line").gather([0, -1]).unique(maintain_order=True),
        )
        .filter(pl.col("machine").list.len() > 1)
        .sort("cid", "cluster")
        .unique("cluster", keep="first", maintain_order=True)
    )
    return tuple(
        Divided(
            tuple(row["machine"]), row["cliques"], row["nranks"], row["ready"],
            tuple(facts.evidence(w["source"], w["line"]) for w in row["where"]),
        )
        for row in domains.iter_rows(named=True)
    )  # fmt: skip


@question
def mixed_flags(facts: Traffic) -> tuple[MixedFlags, ...]:
    """Communicators whose ranks disagree on MNNVL."""
    members = facts.members.filter(pl.col("mnnvl").is_not_null() & ~pl.col("ambiguous"))
    joined = pl.col("mnnvl") != 0
    mixed = members.filter(joined.any().over("cid") & ~joined.all().over("cid"))
    found = []
    for rows in mixed.partition_by("cid", maintain_order=True):
        sides = [rows.filter(side) for side in (~joined, joined)]
        names = [tuple(side.get_column("machine").drop_nulls().unique().sort().to_list()) for side in sides]
        lines = [facts.evidence(*side.select("source", "last_line").row(0)) for side in sides]
        found.append(MixedFlags(names[0], names[1], tuple(lines)))
    return tuple(found)
