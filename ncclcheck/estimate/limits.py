"""What can hold a job back: the ring inside a node, and what a node can put on the network.

A limit is a range, and the lowest of several limits is the lowest of their low, expected and high values: what might
bind counts as well as what is expected to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware import Cpu, Gpu, Hardware
from ncclcheck.estimate.quantities import rate_text
from ncclcheck.estimate.ranges import Range, exactly, least

ALL = exactly(1.0)


class Limit(NamedTuple):
    """A named upper bound in GB/s, and the product it came from ("": a constant of the table)."""

    name: str
    gbps: Range
    product: str = ""

    def times(self, share: float) -> Limit:
        inner = f"({self.product})" if self.product else rate_text(self.gbps.expected)
        return Limit(self.name, self.gbps.scale(share), f"{share:.3g} x {inner}")

    def left(self, factor: Range) -> Limit:
        """What an effect leaves of it."""
        return self if factor == ALL else self.times(factor.expected)._replace(gbps=self.gbps.times(factor))

    def __str__(self) -> str:
        rate = rate_text(self.gbps.expected)
        return " ".join(filter(None, (self.name, self.product, "=" if self.product else "", rate)))


class Factors(NamedTuple):
    """What is left (0 to 1) of the fabric between NICs, of a node's network, and of everything."""

    fabric: Range = ALL
    node: Range = ALL
    all: Range = ALL


def known_limit(table: Hardware, name: str, gbps: float, product: str = "") -> Limit:
    """A limit with the range of its kind."""
    low, high = table.ranges[name]
    return Limit(name, Range(low * gbps, gbps, high * gbps), product)


def lowest(limits: Sequence[Limit]) -> Limit:
    """The one that is expected to bind; its range is that of the minimum of all."""
    binding = min(limits, key=lambda limit: limit.gbps.expected)
    return binding._replace(gbps=least(limit.gbps for limit in limits))


def gpu_of(config: Config, table: Hardware) -> Gpu:
    try:
        return table.gpus[config.gpu]
    except KeyError:
        raise NotModelledError(f"no constants for the GPU {config.gpu!r}") from None


def cpu_of(config: Config, table: Hardware) -> Cpu:
    try:
        return table.cpus[config.cpu]
    except KeyError:
        known = ", ".join(table.cpus)
        raise NotModelledError(f"no constants for the CPU {config.cpu!r}; known: {known}") from None


def slot_gbps(config: Config, table: Hardware) -> tuple[int, float]:
    """PCIe generation and raw rate (GB/s, one direction) of a GPU's slot."""
    gpu = gpu_of(config, table)
    gen, width = config.pcie_gen or gpu.pcie_gen, config.pcie_width or gpu.pcie_width
    if gen not in table.pcie.raw_x16_gbps:
        raise NotModelledError(f"no constants for PCIe generation {gen}")
    return gen, table.pcie.raw_gbps(gen, width)


def slowest_path(config: Config, table: Hardware) -> str:
    """How the slowest edge of a ring inside a node goes: a value of Config.intra."""
    gpu, path = gpu_of(config, table), config.intra
    if path == "nvlink" and gpu.nvlink is None:
        raise NotModelledError(f"{gpu.name} has no NVLink")
    if path == "nvlink" and gpu.bridged and config.gpus_per_node > 2:
        # Pairs joined over PCIe load each slot one way only: no slower than a ring over PCIe alone, and no published
        # run tells by how much.
        path = "pcie-switch" if gpu.p2p else "mixed"
    return "pcie-cpu" if path == "pcie-switch" and config.redirect == "acs" else path


def inside_node(config: Config, table: Hardware) -> Limit:
    """Ring bus bandwidth inside a node; infinite with one GPU per node."""
    if config.gpus_per_node == 1:
        return Limit("", exactly(inf))
    gpu, path = gpu_of(config, table), slowest_path(config, table)
    if path == "nvlink" and gpu.nvlink is not None:
        links = gpu.nvlinks if config.nvlinks is None else config.nvlinks
        rate, share = gpu.nvlink.link_gbps, gpu.nvlink.ring_share
        return known_limit(table, "nvlink ring", links * rate * share, f"{links} x {rate:g} x {share:g}")
    gen, raw = slot_gbps(config, table)
    if path == "shm" and config.cpu:
        known = cpu_of(config, table).shm_share
        return Limit("shm", known.scale(raw), f"{raw:.3g} x {known.expected:g}")
    name, share = {
        "pcie-switch": ("pcie switch", table.pcie.ring_switch),
        "pcie-cpu": ("pcie via cpu", table.pcie.ring_cpu),
        "shm": ("shm", table.pcie.ring_shm[gen]),
        "mixed": ("mixed", table.pcie.ring_mixed),
    }[path]
    return known_limit(table, name, raw * share, f"{raw:.3g} x {share:g}")


def out_of_node(config: Config, table: Hardware, factors: Factors) -> Limit:
    """What one node can put on the network for one communicator: the lowest of the limits on that path.

    Communicators that share a node share all of its limits, those of its GPUs as well: each has its own.
    """
    together = config.sharing
    whole = replace(
        config,
        gpus_per_node=config.gpus_per_node * together,
        channels=None if config.channels is None else config.channels * together,
        sharing=1,
    )
    limits = _socket(whole, table, factors) if config.network == "socket" else _rdma(whole, table, factors)
    left = lowest(limits).left(factors.node)
    return left if together == 1 else left.times(1 / together)


def _socket(config: Config, table: Hardware, factors: Factors) -> list[Limit]:
    tcp = table.tcp
    many = config.gpus_per_node >= tcp.many_gpus_from
    if config.tcp_tuned:
        limits = [known_limit(table, "tcp tuned", tcp.tuned_gbps)]
    else:
        limits = [known_limit(table, "tcp flow", tcp.many_gpus_gbps if many else tcp.few_gpus_gbps)]
    if config.tcp_gbit is not None:
        # Below a flow's own limit one GPU fills the line; many flows on a fast line get in each other's way.
        share = tcp.line_share_many if many and config.tcp_gbit > tcp.shared_from_gbit else tcp.line_share
        line = known_limit(table, "tcp line", config.tcp_gbit / 8 * share, f"{config.tcp_gbit:g} Gb/s x {share:g}")
        limits.append(line.left(factors.fabric))
    return limits


def _rdma(config: Config, table: Hardware, factors: Factors) -> list[Limit]:
    if config.network not in table.networks:
        raise NotModelledError("several nodes, and no network between them")
    if config.nics < 1 or config.nic_gbit <= 0:
        raise NotModelledError("several nodes, and no NICs")
    network = table.networks[config.network]
    used = config.nics if config.channels is None else min(config.nics, config.channels)
    rail = config.nic_gbit / 8 * network.share
    nics = f"{used} x {config.nic_gbit / 8:g} x {network.share:g}"
    limits = [known_limit(table, network.limit, used * rail, nics).left(factors.fabric)]
    if config.gpus_per_node > table.racks.gpus_from and used > (channels := table.racks.network_channels):
        limits.append(known_limit(table, "rack channels", channels * rail, f"{channels} x {rail:.3g}"))
    return [*limits, *(_through_the_gpu(config, table) if config.gdr else _staged(config, table, used * rail, used))]


def _staged(config: Config, table: Hardware, nics_gbps: float, used: int) -> list[Limit]:
    """Without GPUDirect RDMA every byte goes through host memory on both sides."""
    bounce = table.bounce
    if gpu_of(config, table).c2c:
        share = bounce.c2c_share
        return [known_limit(table, "bounce c2c", nics_gbps * share, f"{nics_gbps:.3g} x {share:g}")]
    gen, raw = slot_gbps(config, table)
    pairs, share = min(used, config.gpus_per_node), bounce.pair_share[gen]
    limits = [
        known_limit(table, "bounce", pairs * raw * share, f"{pairs} x {raw:.3g} x {share:g}"),
        known_limit(table, "bounce node", bounce.node_gbps),
    ]
    return [limit.left(cpu_of(config, table).staging) for limit in limits] if config.cpu else limits


def _through_the_gpu(config: Config, table: Hardware) -> list[Limit]:
    """The NIC reads GPU memory: by the GPU's slot, and up to the root complex where something redirects it."""
    limits = []
    if not gpu_of(config, table).c2c:
        _, raw = slot_gbps(config, table)
        share, slots = table.pcie.gpu_slot, config.gpus_per_node
        limits.append(known_limit(table, "gpu slot", slots * raw * share, f"{slots} x {raw:.3g} x {share:g}"))
    if config.redirect:
        limits.append(known_limit(table, "root complex", table.redirect.node_gbps))
    if config.redirect == "acs":
        rail, used = table.redirect.acs_rail_gbps, config.nics
        limits.append(known_limit(table, "acs rail", used * rail, f"{used} x {rail:g}"))
    return limits
