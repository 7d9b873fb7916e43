"""The rows of `hardware.toml`, typed: constants of the model. `hardware_table` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ncclcheck.estimate.ranges import Range

TOTAL_TOLERANCE_GBPS = 0.6  # NCCL prints NVLink totals with one decimal; old releases round


class NvLink(NamedTuple):
    """One NVLink generation: what NCCL counts per link (GB/s, one direction) and the share a ring reaches."""

    generation: str
    link_gbps: float
    ring_share: float
    source: str


class Nvls(NamedTuple):
    """In-switch reduction: GB/s a GPU sends and receives, and the name of that limit."""

    gbps: float
    limit: str
    source: str


class Gpu(NamedTuple):
    """A GPU class. nvlink None: no NVLink; bridged: NVLink joins pairs of cards; nvls None: no in-switch reduction.

    unified: CPU and GPU share one memory.
    memory_gbytes: 10^9 bytes; memory_gbps: GB/s; bf16_tflops: dense, fp16 before Ampere; all as data sheets have them.
    cuda_since: the first CUDA release that compiles for it; empty: any in use.
    """

    name: str
    memory_gbytes: float
    memory_gbps: float
    bf16_tflops: float
    nvlink: NvLink | None
    nvlinks: int
    bridged: bool
    nvls: Nvls | None
    p2p: bool
    c2c: bool
    unified: bool
    pcie_gen: int
    pcie_width: int
    cuda_since: tuple[int, ...]

    @property
    def in_rack(self) -> bool:
        """Is a whole rack of them one NVLink domain?"""
        return self.nvls is not None and self.nvls.limit == "nvl72"

    def same_numbers(self) -> Gpu:
        """This class without its name: classes that are equal here give equal bandwidth."""
        return self._replace(name="", memory_gbytes=0.0, memory_gbps=0.0, bf16_tflops=0.0, cuda_since=())


class Network(NamedTuple):
    """A kind of network. share: of the sold rate; nics: per node, where the product fixes it; rates in Gb/s.

    rates_of: rates beside GPUs of a generation, where the product fixes them; else rates_gbit.
    tree_gain_not: generations of GPUs of which two nodes do not reach more than the ring's number here.
    """

    share: float
    limit: str
    rates_gbit: tuple[float, ...]
    rates_of: Mapping[str, tuple[float, ...]]
    nics: int | None
    tree_gain_not: tuple[str, ...]
    source: str


class Effect(NamedTuple):
    """A change known only as a factor. on: "fabric", "node" or "all". measured False: reasoned, say so."""

    factor: Range
    on: str
    measured: bool
    source: str


class NvlinkTotal(NamedTuple):
    """NVLink totals per GPU (GB/s) that NCCL prints in releases [since, before), and the classes they may be."""

    totals_gbps: tuple[float, ...]
    gpus: tuple[str, ...]
    since: tuple[int, ...]
    before: tuple[int, ...]


class Algorithms(NamedTuple):
    """Shares of NCCL's algorithms and protocols; tree_egress counts messages for 2, 3 and 4 or more nodes.

    tree_few_gpus: up to so many GPUs per node a tree on two nodes has the share tree_two_nodes_few.
    """

    tree_two_nodes: float
    tree_two_nodes_few: float
    tree_few_gpus: int
    tree_more_nodes: float
    tree_small: float
    tree_egress: tuple[float, ...]
    tree_intra: float
    nvlstree: float
    collnet_network: float
    collnet_intra: float
    collnet_nvls: float
    pat: float
    ll_share: float
    source: str


class Racks(NamedTuple):
    """NVLink domains of more than gpus_from GPUs: how many GPUs a rack and one of its trays have, and channels that
    leave it."""

    gpus: int
    tray_gpus: int
    gpus_from: int
    network_channels: int
    source: str


class Pcie(NamedTuple):
    """raw_x16_gbps by generation (GB/s, one direction); the rest are shares of it."""

    raw_x16_gbps: Mapping[int, float]
    ring_switch: float
    ring_cpu: float
    ring_shm: Mapping[int, float]
    ring_mixed: float
    gpu_slot: float
    source: str

    def raw_gbps(self, gen: int, width: int) -> float:
        return self.raw_x16_gbps[gen] * width / 16


class Cpu(NamedTuple):
    """Host memory of a kind of CPU. shm_share: of raw PCIe, by a ring over it; staging: factor without GPUDirect."""

    shm_share: Range
    staging: Range
    source: str


class Bounce(NamedTuple):
    """Host staging without GPUDirect: share of raw PCIe per GPU and NIC, cap of a node in GB/s."""

    pair_share: Mapping[int, float]
    node_gbps: float
    c2c_share: float
    source: str


class Redirect(NamedTuple):
    """Peer traffic through the root complex: what a rail carries under ACS, what a node does; GB/s."""

    acs_rail_gbps: float
    node_gbps: float
    source: str


class Latency(NamedTuple):
    """us: what a collective of 1 MiB takes beyond its bytes, by the path that it goes; it grows with size^growth.

    hop_us: for each round of the network beyond two nodes. spread: factors of the low and the high latency.
    """

    growth: float
    flat_below_bytes: int
    hop_us: float
    spread: tuple[float, float]
    us: Mapping[str, float]
    source: str


class Tcp(NamedTuple):
    """Socket transport: shares of the line, caps in GB/s, and rates in Gb/s.

    line_share_many: many GPUs per node on a line above shared_from_gbit. unreadable: what NCCL assumes where the
    interface's rate is. wireless: what a wireless link or a VPN carries.
    """

    line_share: float
    line_share_many: float
    shared_from_gbit: float
    few_gpus_gbps: float
    many_gpus_gbps: float
    many_gpus_from: int
    tuned_gbps: float
    unreadable_gbit: float
    wireless_gbit: float
    source: str


class Training(NamedTuple):
    """A training step where nobody says otherwise: operations per parameter and token, share of the GPU's rate that is
    reached while it computes, shape of a transformer, lost share from which a job is said to stand still."""

    flops_per_token: float
    mfu: Range
    mfu_at_least: float
    mfu_at_most: float
    params_per_layer: float
    hidden_per_layer: float
    activation_bytes: float
    micro_batches_per_stage: int
    experts_per_token: int
    stops_from: float
    source: str


class Assumed(NamedTuple):
    """Values evaluated where the input is silent; each widens the range."""

    gpus: tuple[str, ...]
    nvls_gpus: tuple[str, ...]
    c2c_gpus: tuple[str, ...]
    nics_per_gpu: tuple[float, ...]
    nics_with_cards: tuple[int, ...]
    nodes: tuple[int, ...]
    gpus_per_node: tuple[int, ...]
    source: str


class Decode(NamedTuple):
    """Inference: shares of a data sheet's memory bandwidth that are reached and of its memory that stay free; us of one
    small all_reduce by the path; GPUs of a machine."""

    memory_share: Range
    reserve_share: Range
    nvlink_us: Range
    pcie_us: Range
    network_us: Range
    machine_gpus: int
    source: str


class HostLink(NamedTuple):
    """Host memory to GPU, one way, GB/s: achieved over 16 lanes by PCIe generation, raw over NVLink-C2C.

    raw_share: the worst and the best share of the raw rate.
    """

    x16_gbps: Mapping[int, float]
    raw_share: tuple[float, float]
    c2c_gbps: float
    source: str


class Checkpoint(NamedTuple):
    """state_bytes: per parameter. young_below: how far Daly's interval may be from Young's for Young's to be taken."""

    state_bytes: Range
    restart_seconds: Range
    young_below: float
    source: str


class Watchdog(NamedTuple):
    """Seconds until PyTorch gives up on a collective that does not end."""

    seconds: float
    source: str


class Hardware(NamedTuple):
    """The whole table. ranges: limit name -> (low, high) around the expected plateau; sources: of rows of one kind."""

    gpus: Mapping[str, Gpu]
    networks: Mapping[str, Network]
    effects: Mapping[str, Effect]
    ranges: Mapping[str, tuple[float, float]]
    sources: Mapping[str, str]
    nvlink_totals: tuple[NvlinkTotal, ...]
    printed: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]
    algorithms: Algorithms
    racks: Racks
    ll_gbps: Mapping[str, tuple[float, ...]]
    pcie: Pcie
    cpus: Mapping[str, Cpu]
    bounce: Bounce
    redirect: Redirect
    tcp: Tcp
    latency: Latency
    assumed: Assumed
    training: Training
    decode: Decode
    host_link: HostLink
    checkpoint: Checkpoint
    watchdog: Watchdog
    notice_seconds: Mapping[str, float]
    overlap: Mapping[str, Range]
    unnoticed_hours: Range

    def classes_of_name(self, name: str) -> tuple[str, ...]:
        """Classes a printed device name stands for; empty: not in the table."""
        spaced = " ".join(re.split(r"[\s_-]+", name.strip()))
        return next((gpus for pattern, gpus in self.printed if pattern.search(spaced)), ())

    def classes_of_flag(self, name: str) -> tuple[str, ...]:
        """Classes meant by `--gpu name`: a class ("h100 sxm", "H100-SXM"), else a printed or family name.

        Raises ValueError that lists the known classes.
        """
        squeezed = re.sub(r"[\s_-]+", "", name).casefold()
        exact = tuple(known for known in self.gpus if known.replace(" ", "").casefold() == squeezed)
        found = exact or self.classes_of_name(name)
        if not found:
            raise ValueError(f"unknown GPU {name!r}; known: {', '.join(self.gpus)}")
        return found

    def classes_of_total(self, total_gbps: float, release: tuple[int, int, int] | None) -> tuple[str, ...]:
        """Classes whose NVLink total per GPU NCCL prints like this; empty: lost links or a class not in the table."""
        return tuple(
            dict.fromkeys(
                gpu
                for row in self.nvlink_totals
                if any(abs(total - total_gbps) <= TOTAL_TOLERANCE_GBPS for total in row.totals_gbps)
                and (release is None or row.since <= release)
                and (release is None or not row.before or release < row.before)
                for gpu in row.gpus
            )
        )
