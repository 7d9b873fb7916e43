"""Which rows of the hardware table a number rests on, for people who want to check them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.figures import TABLE, Given
from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.limits import slowest_path
from ncclcheck.estimate.model import Plateau


def constants(configs: Iterable[Config], plateaus: Iterable[Plateau], table: Hardware) -> tuple[Given, ...]:
    """The constants behind these plateaus of these configurations, each once, with the source of its row."""
    given = [row for config in dict.fromkeys(configs) for row in _of_config(config, table)]
    for limit in dict.fromkeys(plateau.limit for plateau in plateaus):
        low, high = table.ranges[limit]
        given.append(_given(f"range of {limit}", f"x {low:g} to {high:g}", table.sources["ranges"]))
    return tuple(dict.fromkeys(given))


def _given(name: str, value: str, source: str) -> Given:
    return Given(name, value, f"{TABLE}: {source}")


def _of_config(config: Config, table: Hardware) -> Iterator[Given]:
    gpu = table.gpus[config.gpu]
    if config.gpus_per_node > 1:
        yield from _inside(config, gpu, table)
    if config.nodes > 1:
        yield from _between(config, gpu, table)
    for name in config.effects:
        effect = table.effects[name]
        yield _given(f"factor {name}", f"x {effect.factor.text}", effect.source)
    if config.crossing_share:
        crossing = table.effects["crossing"]
        share = f"{config.crossing_share:.3g} of the traffic at x {crossing.factor.text}"
        yield _given("traffic that changes rails", share, crossing.source)
    latency = table.latency
    low, high = latency.spread
    value = f"grows with size^{latency.growth:g}, {latency.hop_us:g} us a round, x {low:g} to {high:g}"
    yield _given("latency", value, latency.source)


def _inside(config: Config, gpu: Gpu, table: Hardware) -> Iterator[Given]:
    if gpu.nvlink is not None and slowest_path(config, table) == "nvlink":
        links = gpu.nvlinks if config.nvlinks is None else config.nvlinks
        value = f"{links} x {gpu.nvlink.link_gbps:g} GB/s, a ring reaches {gpu.nvlink.ring_share:g}"
        yield _given(f"NVLink of {gpu.name}", value, gpu.nvlink.source)
        if config.nvls and gpu.nvls is not None:
            yield _given(f"NVLS of {gpu.name}", f"{gpu.nvls.gbps:g} GB/s", gpu.nvls.source)
    else:
        gen, width = config.pcie_gen or gpu.pcie_gen, config.pcie_width or gpu.pcie_width
        yield _given(f"PCIe {gen} x{width}", f"{table.pcie.raw_gbps(gen, width):g} GB/s", table.pcie.source)
        if config.cpu and config.intra == "shm":
            cpu = table.cpus[config.cpu]
            yield _given(f"host memory of {config.cpu}", f"{cpu.shm_share.expected:g} of it", cpu.source)


def _between(config: Config, gpu: Gpu, table: Hardware) -> Iterator[Given]:
    if config.network == "socket":
        yield _given("TCP sockets", f"{table.tcp.line_share:g} of the line", table.tcp.source)
        return
    network = table.networks[config.network]
    yield _given(f"rate of {config.network}", f"{network.share:g} of the sold rate", network.source)
    yield _given("algorithms", "shares of tree and NVLS", table.algorithms.source)
    if not config.gdr:
        yield _given("host staging", f"{table.bounce.node_gbps:g} GB/s per node", table.bounce.source)
    if config.redirect:
        yield _given("root complex", f"{table.redirect.node_gbps:g} GB/s per node", table.redirect.source)
