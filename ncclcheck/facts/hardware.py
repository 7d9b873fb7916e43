"""What the input proves about GPUs, NVLink and NICs, as the estimate needs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.fabric import fabric_states
from ncclcheck.facts.hcas import whole_machines
from ncclcheck.facts.matrix import ORDER
from ncclcheck.facts.measurements import of_this_job
from ncclcheck.facts.question import question
from ncclcheck.facts.rdma_ports import rail_layers, rail_rates, sibling_rates
from ncclcheck.facts.seen import Nic
from ncclcheck.facts.shape import JobShape
from ncclcheck.facts.topo_file import path_tables, topo_files

if TYPE_CHECKING:
    from ncclcheck.facts.facts import Facts

# NCCL's path types between GPUs as the matrix names them, near to far.
_PATHS = {
    "NVL": "NV",
    "NVB": "NV",
    "C2C": "C2C",
    "PIX": "PIX",
    "PXB": "PXB",
    "P2C": "P2C",
    "PXN": "PXB",
    "PHB": "PHB",
    "SYS": "SYS",
}
# Some releases print the path type as a number in Pattern lines (2.5).
_MOST_ON_GRACE = 4
_NAMES_OF = {"NV": "NVL"}

# Files that images of virtual machines bring, by name. A file itself is no proof of a guest; these are made for guests.
_GUEST_FILES = re.compile(
    r"virtualTopology|nvidia-topologyd|ndv\d|nd(?:v2|v4|v5)|NDv\d|/azurehpc/|topo-(?:ndv|nc)", re.I
)


@question
def shape_of(facts: Facts) -> JobShape:
    """The job's shape as far as the input proves it."""
    world = facts.world
    per_machine = _ranks_per_machine(facts)
    nranks = world.nranks if world else _ring_size(facts)
    if nranks is not None and nranks < len(facts.machines):
        world, nranks = None, None  # a part of the job: some machine has none of its ranks
    nodes = world.nnodes if world else None
    local = world.local_ranks if world else None
    if nodes is None and facts.crossing.answer is Answer.NO and (world or len(facts.machines) == 1):
        nodes = 1
    if nodes is None and nranks and len(facts.machines) > 1 and per_machine and nranks % per_machine == 0:
        # every machine shows the same number of ranks, and they make up the whole
        nodes = nranks // per_machine if nranks // per_machine >= len(facts.machines) else None
    gpus = local or (nranks // nodes if nranks and nodes and nranks % nodes == 0 else None)
    if gpus is None and nranks is None and len(facts.machines) == 1 and facts.crossing.answer is not Answer.YES:
        # an excerpt: the ranks that print edges, all of them inside the one machine
        inside = facts.edge_table.filter(pl.col("scope") == "inside").select(pl.col("own").n_unique()).item()
        if inside > 1:
            nodes, gpus, nranks = 1, int(inside), int(inside)
    matrix = next((m for m in path_tables(facts) if m.gpus), None)
    if matrix and gpus is None:
        gpus, nodes = len(matrix.gpus), nodes or (1 if nranks is None else None)
    measured = of_this_job(facts)
    if nranks is None and measured is not None:  # nothing but the table tells of a job
        nranks, nodes = measured.ranks, measured.nodes
        gpus = nranks // nodes if nranks and nodes and nranks % nodes == 0 else None
    used = _net_devices(facts) or (min(len(matrix.nics), len(matrix.gpus)) if matrix else None) or None
    release = facts.release
    return JobShape(
        nodes=nodes, gpus_per_node=gpus, nranks=nranks or (gpus if nodes == 1 else None), gpu_names=facts.gpu_names,
        nvlink_total_gbps=_nvlink_total(facts),
        nvlinks=matrix.nvlinks() if matrix else (), nvlink=nvlink(facts), nvls=_nvls(facts),
        c2c=_c2c(facts, max(per_machine or 0, len(matrix.gpus) if matrix else 0)),
        intra=frozenset(group.transport for group in facts.edges if group.scope == "inside"),
        intra_path=intra_path(facts),
        nics_per_node=used, nic_gbit=_rates(facts), network=_network(facts), rdma_seen=bool(facts.rdma_signs),
        gdr=_gdr(facts), nchannels=_channels(facts),
        release=(release // 10000, release // 100 % 100, release % 100) if release else None,
        cuda=_cuda(facts),
        virtual=Answer.YES if facts.guest_signs else Answer.UNKNOWN,
        measured=measured,
    )  # fmt: skip


def _c2c(facts: Facts, gpus: int) -> Answer:
    """gpus: of a machine. Those with Grace CPUs have four at most."""
    if facts.notes("gdr_c2c") or any(one.cluster for one in fabric_states(facts)):
        return Answer.YES  # what NVLink joins over machines are racks of them
    return Answer.NO if gpus > _MOST_ON_GRACE else Answer.UNKNOWN


def _cuda(facts: Facts) -> tuple[int, int] | None:
    built = [seen.value.split(".") for seen in facts.cuda_builds]
    return min(((int(major), int(minor)) for major, minor, *_ in built if minor.isdecimal()), default=None)


def _ranks_per_machine(facts: Facts) -> int | None:
    """Ranks of the largest communicator on a machine, where all machines show equally many."""
    members = facts.members.filter((pl.col("cid") == 0) & pl.col("machine").is_not_null())
    counts = members.group_by("machine").agg(pl.col("rank").n_unique()).get_column("rank").unique().to_list()
    return counts[0] if len(counts) == 1 else None


def _ring_size(facts: Facts) -> int | None:
    sizes = facts["rings"].select(pl.col("ranks").list.len().max())
    return sizes.item() if sizes.height else None


def nvlink(facts: Facts) -> Answer:
    """Do GPUs of one node talk over NVLink? By NCCL's graph, methods that exist on NVLink alone, or a matrix."""
    paths = gpu_paths(facts)
    if "NV" in paths:
        return Answer.YES
    topology = facts["topology"]
    if topology.height and topology.select((pl.col("link") == "NVL").any()).item():
        return Answer.YES
    edges = facts["edges"]
    if (
        edges.height
        and edges.select(
            (pl.col("read").fill_null(False) | (pl.col("method") == "MNNVL").fill_null(False)).any()
        ).item()
    ):
        return Answer.YES  # P2P reads are used between NVLink neighbours only
    if any(seen.value == "true" for seen in facts.notes("nvls_support")):
        return Answer.YES
    return Answer.NO if paths else Answer.UNKNOWN


def gpu_paths(facts: Facts) -> frozenset[str]:
    """Classes of paths between GPUs of one node that some line names (see matrix.ORDER)."""
    found = set()
    paths = facts["paths"].filter(
        pl.col("a").str.starts_with("GPU/") & pl.col("b").str.starts_with("GPU/") & (pl.col("type") != "LOC")
    )
    found.update(paths.get_column("type").unique().to_list())
    graphs = facts["graphs"].filter(pl.col("nchannels") > 0)
    found.update(graphs.get_column("type_intra").drop_nulls().unique().to_list())
    classes = {_PATHS[name] for name in found if name in _PATHS}
    for matrix in path_tables(facts):
        if not matrix.nvlink_hidden:
            classes.update(path for _, _, path in matrix.gpu_pairs() if path in ORDER)
    return frozenset(classes)


def intra_path(facts: Facts) -> str:
    """The worst class of path between GPUs of one node, as JobShape names it; "" where no line tells."""
    paths = gpu_paths(facts)
    worst = max(paths, key=ORDER.index, default="")
    return _NAMES_OF.get(worst, worst)


def _nvlink_total(facts: Facts) -> float | None:
    """Bandwidth of the bond between a GPU and the NVSwitches in the graph dump, GB/s."""
    bonds = facts["topology"].filter((pl.col("link") == "NVL") & (pl.col("node") == "NVS"))
    return bonds.select(pl.col("bw").max()).item() if bonds.height else None


def _nvls(facts: Facts) -> Answer:
    channels = facts["channels"].get_column("nvls").drop_nulls()
    if len(channels):
        return Answer.of(bool((channels > 0).any()))
    said = {seen.value for seen in facts.notes("nvls_support")}
    return Answer.of("true" in said) if said else Answer.UNKNOWN


def _net_devices(facts: Facts) -> int | None:
    """Net devices in use per machine, where all ranks of one show their channels; else those listed."""
    edges = facts.edge_table.filter((pl.col("transport") == "NET") & (pl.col("scope") == "between"))
    if edges.height and facts.rings_connected:
        edges = edges.filter(pl.col("machine").is_in(list(whole_machines(facts))))
        used = edges.group_by("machine").agg(pl.col("device").n_unique()).get_column("device").max()
        if isinstance(used, int):
            return used
    counts = [len(_undivided(nics)) for nics in facts.nic_lists.values()]
    return min(counts) if counts else None


def _undivided(nics: Sequence[Nic]) -> tuple[Nic, ...]:
    """Net devices that NCCL uses: from 2.24.3 on the ports of a merged one (`mlx5_0+mlx5_1`) are listed beside it."""
    merged = {part for nic in nics if "+" in nic.name for part in nic.name.split("+")}
    return tuple(nic for nic in nics if nic.name not in merged)


def _rates(facts: Facts) -> tuple[float, ...]:
    """Rates of net devices that the input proves, Gb/s: those of rails by tools, else what the log and files print."""
    if told := rail_rates(facts):
        return told
    listed = {nic.gbit for nics in facts.nic_lists.values() for nic in _undivided(nics) if nic.gbit is not None}
    dumped = facts["topology"].get_column("net_gbps").drop_nulls().unique().to_list()
    filed = {nic.gbit for file in topo_files(facts) for nic in file.nics if nic.rdma and nic.gbit}
    # 1.25 GB/s is what NCCL takes for a socket interface whose speed it cannot read
    known = {*listed, *filed, *(round(gbps * 8, 1) for gbps in dumped if gbps != 1.25)}
    return tuple(sorted(known)) or sibling_rates(facts)


def _network(facts: Facts) -> str:
    """The kind of network between machines, worst last: sockets win over RDMA where both are used."""
    names = {group.network for group in facts.net_edges()} or {seen.value for seen in facts.networks}
    kinds = {networks.kind(name) for name in names}
    if not kinds or (facts.crossing.answer is Answer.NO and kinds == {"socket"}):
        return ""
    if "efa" in kinds:  # libfabric: the provider tells
        providers = {_of_provider(seen.value) for seen in facts.notes("net_ofi_provider")}
        kinds = (kinds - {"efa"}) | (providers or {"efa"})
    if "socket" in kinds:
        return "socket"
    if kinds == {"ib"}:
        links = {nic.link for nics in facts.nic_lists.values() for nic in nics if nic.link}
        return "roce" if links == {"RoCE"} or (not links and rail_layers(facts) == {"ethernet"}) else "ib"
    return sorted(kinds)[0]


def _of_provider(provider: str) -> str:
    """The kind of network behind a provider of libfabric (`efa`, `cxi`, `tcp;ofi_rxm`)."""
    core = re.split(r"[;, ]", provider.lower())[0]
    return {"efa": "efa", "cxi": "slingshot", "tcp": "socket", "sockets": "socket", "verbs": "ib"}.get(core, "other")


def _gdr(facts: Facts) -> Answer:
    """Is GPUDirect RDMA in use: every RDMA edge between machines says so, or some do not."""
    edges = [group for group in facts.net_edges() if networks.kind(group.network) in networks.RDMA]
    if not edges:
        return Answer.UNKNOWN
    return Answer.of(all(group.gdr for group in edges))


def _channels(facts: Facts) -> int | None:
    counts = facts["channels"].get_column("coll").drop_nulls()
    most = counts.max() if len(counts) else None
    return int(most) if isinstance(most, int) else None


def guest_file(path: str) -> bool:
    """A topology file that is made for virtual machines."""
    return bool(_GUEST_FILES.search(path))
