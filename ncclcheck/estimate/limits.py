"""What can hold a job back: the ring inside a node, and what a node can put on the network."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import NamedTuple

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware import Gpu, Hardware


class Limit(NamedTuple):
    """A named upper bound in GB/s, and the product it came from ("": a constant of the table)."""

    name: str
    gbps: float
    product: str = ""

    def times(self, share: float) -> Limit:
        inner = f"({self.product})" if self.product else rate_text(self.gbps)
        return Limit(self.name, share * self.gbps, f"{share:.3g} x {inner}")

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.product, "=" if self.product else "", rate_text(self.gbps))))


def rate_text(gbps: float) -> str:
    """Three digits, no exponent."""
    return f"{gbps:.0f}" if gbps >= 100 else f"{gbps:.3g}"


class Factors(NamedTuple):
    """What is left (0 to 1) of the fabric between NICs, of a node's network, and of everything."""

    fabric: float = 1.0
    node: float = 1.0
    all: float = 1.0


def gpu_of(config: Config, table: Hardware) -> Gpu:
    try:
        return table.gpus[config.gpu]
    except KeyError:
        raise NotModelledError(f"no constants for the GPU {config.gpu!r}") from None


def slot_gbps(config: Config, table: Hardware) -> tuple[int, float]:
    """PCIe generation and raw rate (GB/s, one direction) of a GPU's slot."""
    gpu = gpu_of(config, table)
    gen, width = config.pcie_gen or gpu.pcie_gen, config.pcie_width or gpu.pcie_width
    if gen not in table.pcie.raw_x16_gbps:
        raise NotModelledError(f"no constants for PCIe generation {gen}")
    return gen, table.pcie.raw_gbps(gen, width)


def inside_node(config: Config, table: Hardware) -> Limit:
    """Ring bus bandwidth inside a node; infinite with one GPU per node."""
    if config.gpus_per_node == 1:
        return Limit("", inf)
    gpu = gpu_of(config, table)
    path = config.intra
    if path == "nvlink":
        if gpu.nvlink is None:
            raise NotModelledError(f"{gpu.name} has no NVLink")
        if gpu.bridged and config.gpus_per_node > 2:
            path = "mixed"
        else:
            links = gpu.nvlinks if config.nvlinks is None else config.nvlinks
            rate, share = gpu.nvlink.link_gbps, gpu.nvlink.ring_share
            return Limit("nvlink ring", links * rate * share, f"{links} x {rate:g} x {share:g}")
    if path == "pcie-switch" and config.redirect == "acs":
        path = "pcie-cpu"
    name, share = {
        "pcie-switch": ("pcie switch", table.pcie.ring_switch),
        "pcie-cpu": ("pcie via cpu", table.pcie.ring_cpu),
        "shm": ("shm", table.pcie.ring_shm),
        "mixed": ("mixed", table.pcie.ring_mixed),
    }[path]
    _, raw = slot_gbps(config, table)
    return Limit(name, raw * share, f"{raw:.3g} x {share:g}")


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
    lowest = min(limits, key=lambda limit: limit.gbps)
    share = factors.node / together
    return lowest if share == 1.0 else lowest.times(share)


def _socket(config: Config, table: Hardware, factors: Factors) -> list[Limit]:
    tcp = table.tcp
    if config.tcp_tuned:
        limits = [Limit("tcp tuned", tcp.tuned_gbps)]
    else:
        many = config.gpus_per_node >= tcp.many_gpus_from
        limits = [Limit("tcp flow", tcp.many_gpus_gbps if many else tcp.few_gpus_gbps)]
    if config.tcp_gbit is not None:
        line = config.tcp_gbit / 8 * tcp.line_share * factors.fabric
        limits.append(Limit("tcp line", line, f"{config.tcp_gbit:g} Gb/s x {tcp.line_share:g}"))
    return limits


def _rdma(config: Config, table: Hardware, factors: Factors) -> list[Limit]:
    if config.network not in table.networks:
        raise NotModelledError("several nodes, and no network between them")
    if config.nics < 1 or config.nic_gbit <= 0:
        raise NotModelledError("several nodes, and no NICs")
    network, gpu = table.networks[config.network], gpu_of(config, table)
    used = config.nics if config.channels is None else min(config.nics, config.channels)
    pairs = min(used, config.gpus_per_node)
    rail = config.nic_gbit / 8 * network.share
    gen, raw = slot_gbps(config, table)
    nics = f"{used} x {config.nic_gbit / 8:g} x {network.share:g}"
    limits = [
        Limit(
            network.limit,
            used * rail * factors.fabric,
            nics if factors.fabric == 1.0 else f"{nics} x {factors.fabric:.3g}",
        )
    ]
    if not config.gdr:
        if gpu.c2c:
            share = table.bounce.c2c_share
            return [*limits, Limit("bounce c2c", used * rail * share, f"{nics} x {share:g}")]
        pair_share = table.bounce.pair_share[gen]
        return [
            *limits,
            Limit("bounce", pairs * raw * pair_share, f"{pairs} x {raw:.3g} x {pair_share:g}"),
            Limit("bounce node", table.bounce.node_gbps),
        ]
    if not gpu.c2c:
        share = table.pcie.gpu_slot
        slots = config.gpus_per_node
        limits.append(Limit("gpu slot", slots * raw * share, f"{slots} x {raw:.3g} x {share:g}"))
    if config.redirect:
        limits.append(Limit("root complex", table.redirect.node_gbps))
    if config.redirect == "acs":
        share = table.redirect.acs_rail_share
        limits.append(Limit("acs rail", used * rail * share, f"{nics} x {share:g}"))
    return limits
