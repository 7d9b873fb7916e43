"""A job as flags tell it, and every configuration that fits: what is not told stays open, or is assumed and said.

That NVLS and GPUDirect RDMA work where the hardware has them is taken for granted, because the question is what a
healthy job gets; what the job's hardware is, is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ncclcheck.estimate import config as fields
from ncclcheck.estimate.candidates import NVLS_SINCE, Candidates, candidates, is_rdma
from ncclcheck.estimate.config import Config
from ncclcheck.estimate.figures import ASSUMED, TABLE, Given
from ncclcheck.estimate.hardware import Hardware
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.estimate.quantities import parse_size, size_text
from ncclcheck.estimate.questions.racks import in_racks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.measured import binary_size
from ncclcheck.facts.shape import JobShape

TRANSPORTS = {
    "ib": "ib", "infiniband": "ib", "roce": "roce", "efa": "efa", "slingshot": "slingshot", "cxi": "slingshot",
    "tcpx": "tcpx", "tcpxo": "tcpxo", "fastrak": "tcpxo", "socket": "socket", "sockets": "socket", "tcp": "socket",
    "ipoib": "socket", "ethernet": "socket", "ena": "socket", "fastsocket": "socket", "mnnvl": "mnnvl",
}  # fmt: skip
COLLECTIVES = {
    **{name: name for name in fields.COLLECTIVES},
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "bcast": "broadcast",
    "alltoall": "all_to_all", "alltoallv": "all_to_all", "send_recv": "sendrecv",
}  # fmt: skip
PATHS = {name: name for name in fields.INTRA if name != "mixed"}
ALGORITHMS = {**{name: name for name in fields.ALGORITHMS if name}, "nvlstree": "nvls"}
PROTOCOLS = {name: name for name in fields.PROTOCOLS if name}
_NETWORK_NAMES = {"ib": "IB", "roce": "RoCE", "efa": "EFA", "slingshot": "Slingshot", "tcpx": "TCPX", "tcpxo": "TCPXO"}

# What NCCL may be made to use; messages between chosen peers have no algorithm.
_USABLE = {
    "all_reduce": ("ring", "tree", "nvls", "collnet"),
    "all_gather": ("ring", "nvls", "collnet", "pat"),
    "reduce_scatter": ("ring", "nvls", "collnet", "pat"),
    "broadcast": ("ring",),
    "reduce": ("ring",),
}

_MOST_RANKS = 10_000_000


def chosen(text: str, known: Mapping[str, str]) -> str:
    """A name without regard to case. Raises ValueError that lists what is known."""
    name = text.strip().lower().removesuffix("_perf")
    found = known.get(name) or known.get(name.replace("-", "_")) or known.get(name.replace("_", "-"))
    if found is None:
        raise ValueError(f"{text!r} is not known; known: {', '.join(dict.fromkeys(known.values()))}")
    return found


def parse_release(text: str) -> tuple[int, int, int]:
    """ "2.19.3" or "2.19". Raises ValueError."""
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?", text.strip(), re.ASCII)
    if found is None:
        raise ValueError(f"cannot read {text!r} as a release of NCCL; write 2.19.3")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def parse_message(text: str) -> int:
    """Bytes of a message: "8G" is 8 GiB, as nccl-tests reads -b and -e; "8GB" is 8 x 10^9. Raises ValueError."""
    letters = text.strip()
    binary = letters[-1:].lower() in tuple("kmgt") and letters[:-1].strip()
    try:
        size = round(parse_size(f"{letters}iB" if binary else letters))
    except ValueError:
        size = 0
    if not 1 <= size <= 2**50:
        raise ValueError(f"cannot read {text!r} as a message size; write 8G (8 GiB), 8GB (8 x 10^9 bytes) or 1048576")
    return size


def message_text(size: int) -> str:
    """Bytes in the units in which they are a round number: "64 KiB", "8 GiB", "8 GB", "1000 B"."""
    text = binary_size(size)
    return text if float(text.split()[0]) * 4 % 1 == 0 else size_text(size)


@dataclass(frozen=True, slots=True)
class Job:
    """What is told of a job; None and "" are not told. Names as in Config.

    network: "mnnvl", too: NVLink joins the nodes of a rack. release: of NCCL, (2, 17) brought NVLS.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    gpu: str | None = None
    network: str = ""
    nics: int | None = None
    nic_gbit: float | None = None
    intra: str = ""
    pcie_gen: int | None = None
    cpu: str | None = None
    channels: int | None = None
    algorithm: str = ""
    protocol: str = ""
    release: tuple[int, int, int] | None = None
    collective: str = "all_reduce"


@dataclass(frozen=True, slots=True)
class Setup:
    """Every configuration that fits a job, where its inputs come from, and the flags that would narrow it."""

    configs: tuple[Config, ...]
    givens: tuple[Given, ...]
    narrowing: tuple[str, ...]

    @property
    def assumed(self) -> tuple[Given, ...]:
        return tuple(given for given in self.givens if given.origin == ASSUMED)


def set_up(job: Job, table: Hardware) -> Setup:
    """Raises ValueError with a sentence where the job is impossible or too little of it is told."""
    if job.nodes is None and job.gpus_per_node is None:
        raise ValueError("how large is the job? Give --nodes and --gpus-per-node")
    if job.algorithm and job.algorithm not in _USABLE.get(job.collective, ()):
        raise ValueError(f"NCCL has no algorithm {job.algorithm} for {job.collective}")
    if job.network == "mnnvl":
        job = _as_racks(job, table)
    several = job.nodes != 1 and (job.nodes is not None or bool(job.network or job.nics or job.nic_gbit))
    network = job.network or ("ib" if several else "")
    shape = JobShape(
        nodes=job.nodes,
        gpus_per_node=job.gpus_per_node,
        nics_per_node=job.nics,
        network=network if several else "",
        gdr=Answer.YES,
        release=job.release,
    )
    kind = network if is_rdma(network) else "ib"
    options = EstimateOptions(gpu=job.gpu, nic_gbit=job.nic_gbit)
    found = candidates(shape, options, table, kind=kind, networked=several, split=False)
    if found.missing:
        raise ValueError(found.missing)
    configs = tuple(dict.fromkeys(_healthy(config, job, table) for config in found.configs))
    if max(config.ranks for config in configs) > _MOST_RANKS:
        raise ValueError(f"a job of more than {_MOST_RANKS:,} GPUs is not modelled")
    inputs = _found_inputs(job, found, configs)
    narrowing = [_FLAGS[given.name] for given, values in inputs if given.origin == ASSUMED and values > 1]
    givens = (*(given for given, _ in inputs), *_more_givens(job, configs, table))
    return Setup(configs, givens, tuple(dict.fromkeys(narrowing)))


def _as_racks(job: Job, table: Hardware) -> Job:
    """The job with racks as nodes; between racks the network is not told."""
    gpus = [] if job.gpu is None else [table.gpus[name] for name in table.classes_of_flag(job.gpu)]
    if not gpus or not all(gpu.in_rack for gpu in gpus):
        known = [gpu.name for gpu in table.gpus.values() if gpu.in_rack]
        raise ValueError(f"--transport MNNVL is for racks that are one NVLink domain: give --gpu {' or '.join(known)}")
    if job.nodes is None or job.gpus_per_node is None:
        raise ValueError("--transport MNNVL: give --nodes and --gpus-per-node")
    racks, per_rack, nics = in_racks(job.nodes, job.gpus_per_node, job.nics or 0, table)
    return replace(job, nodes=racks, gpus_per_node=per_rack, nics=nics or None, network="")


def _healthy(config: Config, job: Job, table: Hardware) -> Config:
    """With what the flags settle, and with everything on that hardware and release can do."""
    told: dict[str, Any] = {
        name: value
        for name in ("intra", "pcie_gen", "cpu", "channels", "algorithm", "protocol", "collective")
        if (value := getattr(job, name))
    }
    if config.network == "socket":
        told |= {"nics": 0, "nic_gbit": 0.0}
    else:
        told["gdr"] = table.gpus[config.gpu].p2p  # GeForce drivers give no peer access, to NICs neither
    old = job.release is not None and job.release < NVLS_SINCE
    return replace(config, nvls=not old and table.gpus[config.gpu].nvls is not None, **told)


_FLAGS = {
    "nodes": "--nodes",
    "GPUs per node": "--gpus-per-node",
    "GPU": "--gpu",
    "path between GPUs": "--intra",
    "network": "--transport",
    "NICs per node": "--nics",
    "NIC rate": "--nic-gbps",
    "socket line": "--nic-gbps",
}


def _found_inputs(job: Job, found: Candidates, configs: Sequence[Config]) -> list[tuple[Given, int]]:
    """The inputs that candidates vary in and that play a part, each with the number of its values."""
    inside = any(config.gpus_per_node > 1 for config in configs)
    rdma = any(config.nodes > 1 and config.network != "socket" for config in configs)
    sockets = any(config.nodes > 1 and config.network == "socket" for config in configs)
    told = {
        "nodes": job.nodes is not None,
        "GPUs per node": job.gpus_per_node is not None,
        "GPU": job.gpu is not None,
        **({"path between GPUs": bool(job.intra)} if inside else {}),
        **({"network": bool(job.network)} if rdma or sockets else {}),
        **({"NICs per node": job.nics is not None, "NIC rate": job.nic_gbit is not None} if rdma else {}),
        **({"socket line": job.nic_gbit is not None} if sockets else {}),
    }
    rows = []
    for name, by_flag in told.items():
        values = found.inputs[name].values
        if name == "path between GPUs" and job.intra:
            values = [job.intra]
        elif name == "network":
            values = [network_name(value) for value in values]
        # The class of GPU says how its GPUs are joined, a cloud's network how many NICs it has.
        settled = len(values) == 1 and name in ("path between GPUs", "NICs per node", "NIC rate")
        origin = _FLAGS[name] if by_flag else TABLE if settled else ASSUMED
        rows.append((Given(name, " or ".join(values), origin), len(values)))
    return rows


def _more_givens(job: Job, configs: Sequence[Config], table: Hardware) -> Iterator[Given]:
    """What a healthy job has, and what else flags settle."""
    reduces = [config for config in configs if config.collective == "all_reduce" and config.gpus_per_node > 1]
    if any(table.gpus[config.gpu].nvls for config in reduces):
        on = any(config.nvls for config in configs)
        yield Given("NVLS", "on" if on else "off", "--nccl" if job.release else ASSUMED)
    rdma = [config for config in configs if config.nodes > 1 and config.network != "socket"]
    if rdma:
        on = any(config.gdr for config in rdma)
        yield Given("GPUDirect RDMA", "on" if on else "off", ASSUMED if on else TABLE)
    for name, flag, value in (
        ("algorithm", "--algo", job.algorithm),
        ("protocol", "--proto", job.protocol),
        ("channels", "--channels", job.channels),
        ("PCIe generation", "--pcie-gen", job.pcie_gen),
        ("CPU", "--cpu", job.cpu),
    ):
        if value:
            yield Given(name, str(value), flag)


def network_name(network: str) -> str:
    return _NETWORK_NAMES.get(network, network)
