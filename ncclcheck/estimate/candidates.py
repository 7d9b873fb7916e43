"""Every configuration that the input allows: what is proven is taken, what is unknown stays a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ncclcheck.estimate.config import NETWORKS, Config
from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.shape import JobShape

NVLS_SINCE = (2, 17)  # the NCCL release that brought NVLS
SWITCH_PATHS = ("PIX", "PXB")
BRIDGED = 2  # GPUs that a bridge of NVLink between cards joins
CPU_PATHS = ("PHB", "NODE", "SYS")


@dataclass(slots=True)
class Input:
    """Where the values of one or more Config fields come from: "input", "--gpu", "--nic-gbps" or "assumed"."""

    fields: tuple[str, ...]
    origin: str
    values: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{' or '.join(self.values)} ({self.origin})"


@dataclass(frozen=True, slots=True)
class Candidates:
    """configs: each fits the input. inputs: by a name for people. missing: why there are none."""

    configs: tuple[Config, ...] = ()
    inputs: Mapping[str, Input] = field(default_factory=dict)
    missing: str | None = None


def is_rdma(network: str) -> bool:
    return network not in ("", "socket")


def candidates(
    shape: JobShape, options: EstimateOptions, table: Hardware, *, kind: str, networked: bool, split: bool
) -> Candidates:
    """kind: the RDMA network whose NICs are meant. networked: the question is about traffic between nodes.

    split: the question puts several nodes where the job may have one.
    """
    search = _Search(shape, options, table, kind)
    sizes = search.sizes(networked or bool(shape.network))
    if not sizes:
        return Candidates(missing="the input does not tell how many nodes and GPUs the job has")
    rows: list[dict[str, Any]] = [
        {"nodes": nodes, "gpus_per_node": per_node, "gpu": gpu.name}
        for nodes, per_node in sizes
        for gpu in search.gpus()
    ]
    for axis in (search.intra, search.nvls):
        rows = [{**row, **choice} for row in rows for choice in axis(row)]
    for axis in (search.nics, search.rates, search.network, search.tcp):
        rows = [{**row, **choice} for row in rows for choice in (axis(row) if split or row["nodes"] > 1 else [{}])]
    if not rows:
        if options.gpu is not None:
            return Candidates(missing=f"--gpu {options.gpu} contradicts what the input shows of GPUs and their links")
        return Candidates(missing="what the input says about GPUs and their links fits no class in the hardware table")
    return Candidates(tuple(dict.fromkeys(Config(**row) for row in rows)), search.inputs)


class _Search:
    """One method per unknown; each gives the values that fit a row of earlier choices, and notes their origin."""

    def __init__(self, shape: JobShape, options: EstimateOptions, table: Hardware, kind: str) -> None:
        self.shape, self.options, self.table = shape, options, table
        self.kind = kind
        self.inputs: dict[str, Input] = {}
        self.gpu_assumed = False
        # A matrix or topology file alone: of what a job will have on this machine only the hardware is told.
        self.before_a_run = not (shape.network or shape.release or shape.intra or shape.measured)

    def note(self, name: str, fields: tuple[str, ...], origin: str, value: str) -> None:
        entry = self.inputs.setdefault(name, Input(fields, origin))
        if origin == "assumed":
            entry.origin = origin
        if value not in entry.values:
            entry.values.append(value)

    def sizes(self, networked: bool) -> list[tuple[int, int]]:
        """(nodes, GPUs per node); empty if the input tells neither."""
        ranks, nodes, per_node = self.shape.nranks, self.shape.nodes, self.shape.gpus_per_node
        if nodes and not per_node and ranks:
            per_node = -(-ranks // nodes)
        if per_node and not nodes and ranks:
            nodes = -(-ranks // per_node)
        assumed = self.table.assumed
        sizes: list[tuple[int, int]] = []
        if ranks and not nodes:
            splits = [(ranks // guess, guess) for guess in (*assumed.gpus_per_node, 2, 1) if ranks % guess == 0]
            sizes = [split for split in splits if not networked or split[0] > 1 or ranks == 1][:2]
        elif nodes or per_node:
            sizes = [
                (k, g)
                for k in ((nodes,) if nodes else assumed.nodes if networked else (1,))
                for g in ((per_node,) if per_node else assumed.gpus_per_node)
            ]
        for k, g in sizes:
            self.note("nodes", ("nodes",), "input" if nodes else "assumed", str(k))
            self.note("GPUs per node", ("gpus_per_node",), "input" if per_node else "assumed", str(g))
        return sizes

    def gpus(self) -> list[Gpu]:
        """GPU classes, one of each set whose constants are equal."""
        names, origin = self._gpu_names()
        known = [self.table.gpus[name] for name in names]
        shape = self.shape
        for fits in (
            (lambda gpu: gpu.nvls is not None) if shape.nvls is Answer.YES else None,
            (lambda gpu: gpu.c2c is (shape.c2c is Answer.YES)) if shape.c2c is not Answer.UNKNOWN else None,
            (lambda gpu: gpu.nvlink is not None) if shape.nvlink is Answer.YES else None,
            (lambda gpu: not gpu.bridged)
            if shape.intra_path == "NVL" and (shape.gpus_per_node or 0) > BRIDGED
            else None,
        ):
            known = [gpu for gpu in known if fits is None or fits(gpu)] or known
        groups: dict[Gpu, list[Gpu]] = {}
        for gpu in known:
            groups.setdefault(gpu.same_numbers(), []).append(gpu)
            self.note("GPU", ("gpu",), origin, gpu.name)
        return [group[0] for group in groups.values()]

    def _gpu_names(self) -> tuple[Sequence[str], str]:
        table, shape = self.table, self.shape
        if self.options.gpu is not None:
            return table.classes_of_flag(self.options.gpu), "--gpu"
        printed = tuple(dict.fromkeys(gpu for name in shape.gpu_names for gpu in table.classes_of_name(name)))
        if printed:
            return printed, "input"
        if shape.nvlink_total_gbps is not None:
            fitting = table.classes_of_total(shape.nvlink_total_gbps, shape.release)
            if fitting:
                return self._built_for(fitting), "input"
        for links in shape.nvlinks:
            fitting = tuple(gpu.name for gpu in table.gpus.values() if gpu.nvlinks == links)
            if fitting:
                return self._built_for(fitting), "input"
        self.gpu_assumed = True
        if shape.c2c is Answer.YES:
            return table.assumed.c2c_gpus, "assumed"
        common = table.assumed.nvls_gpus if shape.nvls is Answer.YES else table.assumed.gpus
        return self._built_for(common), "assumed"

    def _built_for(self, names: Sequence[str]) -> Sequence[str]:
        """Those that the CUDA of this NCCL has code for."""
        built, gpus = self.shape.cuda, self.table.gpus
        return [name for name in names if built is None or gpus[name].cuda_since <= built] or names

    def intra(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        gpu = self.table.gpus[row["gpu"]]
        if row["gpus_per_node"] == 1:
            return [{"intra": "nvlink" if gpu.nvlink else "pcie-cpu"}]
        paths, proven = self._paths(gpu)
        for path in paths:
            self.note("path between GPUs", ("intra",), "input" if proven else "assumed", path)
        return [{"intra": path} for path in paths]

    def _paths(self, gpu: Gpu) -> tuple[tuple[str, ...], bool]:
        """Paths that fit, and whether the input proves them. No path: this GPU class does not fit the input."""
        shape = self.shape
        if "SHM" in shape.intra and ("P2P" not in shape.intra or shape.nvlink is not Answer.YES):
            return ("shm",), True
        if shape.nvlink is Answer.YES or (shape.nvlink is Answer.UNKNOWN and shape.intra_path == "NVL"):
            if gpu.nvlink is None:
                return (), True
            return (("mixed",) if "SHM" in shape.intra else ("nvlink",)), True
        if shape.nvlink is Answer.UNKNOWN and gpu.nvlink is not None:
            return (("nvlink", "pcie-cpu") if gpu.bridged or self.gpu_assumed else ("nvlink",)), False
        p2p_seen = "P2P" in shape.intra
        if not p2p_seen and not gpu.p2p:
            return ("shm",), False
        if shape.intra_path in SWITCH_PATHS:
            return ("pcie-switch",), p2p_seen
        if shape.intra_path in CPU_PATHS:
            return (("pcie-cpu",), True) if p2p_seen else (("pcie-cpu", "shm"), False)
        return (("pcie-switch", "pcie-cpu") if p2p_seen else ("pcie-switch", "pcie-cpu", "shm")), False

    def nvls(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self.table.gpus[row["gpu"]].nvls is None:
            return [{"nvls": False}]
        shape = self.shape
        if shape.nvls is Answer.UNKNOWN and (shape.release is None or shape.release >= NVLS_SINCE):
            values, origin = [True] if self.before_a_run else [True, False], "assumed"
        else:
            values, origin = [shape.nvls is Answer.YES], "input"
        for value in values:
            self.note("NVLS", ("nvls",), origin, "on" if value else "off")
        return [{"nvls": value} for value in values]

    def nics(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        shape, gpu, assumed = self.shape, self.table.gpus[row["gpu"]], self.table.assumed
        by_product = self.table.networks[self.kind].nics
        counts: Sequence[int]
        if (is_rdma(shape.network) or self.before_a_run) and shape.nics_per_node:
            counts, origin = [shape.nics_per_node], "input"
        elif by_product is not None:
            counts, origin = [by_product], "input"
        elif gpu.nvlink is None or gpu.bridged:
            counts, origin = assumed.nics_with_cards, "assumed"
        else:
            counts, origin = [max(1, round(row["gpus_per_node"] * share)) for share in assumed.nics_per_gpu], "assumed"
        for count in counts:
            self.note("NICs per node", ("nics",), origin, str(count))
        return [{"nics": count} for count in dict.fromkeys(counts)]

    def rates(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        shape, network, link = self.shape, self.table.networks[self.kind], self.table.gpus[row["gpu"]].nvlink
        by_product = network.rates_of.get(link.generation if link else "", network.rates_gbit)
        rates: Sequence[float]
        if self.options.nic_gbit is not None:
            rates, origin = [self.options.nic_gbit], "--nic-gbps"
        elif is_rdma(shape.network) and shape.nic_gbit:
            rates, origin = [min(shape.nic_gbit)], "input"
        else:
            rates, origin = by_product, "input" if len(by_product) == 1 else "assumed"
        for rate in rates:
            self.note("NIC rate", ("nic_gbit",), origin, f"{rate:g} Gb/s")
        return [{"nic_gbit": rate} for rate in rates]

    def network(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        shape = self.shape
        seen = shape.network in NETWORKS[1:]
        network = shape.network if seen else self.kind
        self.note("network", ("network",), "input" if seen else "assumed", network)
        if not is_rdma(network):
            return [{"network": network, "gdr": True}]
        unknown = shape.gdr is Answer.UNKNOWN
        values = [True, False] if unknown else [shape.gdr is Answer.YES]
        if self.before_a_run:
            values = [True]
        for value in values:
            self.note("GPUDirect RDMA", ("gdr",), "assumed" if unknown else "input", "on" if value else "off")
        return [{"network": network, "gdr": value} for value in values]

    def tcp(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The socket interface's line. NCCL prints one fixed rate where it cannot read the line: no proof."""
        lines: list[float | None]
        seen = self.shape.nic_gbit if self.shape.network == "socket" else ()
        if seen and set(seen) != {self.table.tcp.unreadable_gbit}:
            lines, origin = [min(seen)], "input"
        elif self.shape.network == "socket" and self.options.nic_gbit is not None:
            lines, origin = [self.options.nic_gbit], "--nic-gbps"
        else:
            lines, origin = [*dict.fromkeys(seen), None], "assumed"
        for line in lines:
            self.note(
                "socket line", ("tcp_gbit",), origin, "faster than NCCL's sockets" if line is None else f"{line:g} Gb/s"
            )
        return [{"tcp_gbit": line} for line in lines]
