"""The plateau: bus bandwidth that a collective of large messages reaches on a configuration.

busbw is nccl-tests' column: algbw (message bytes per second) times 2(n-1)/n for all_reduce, (n-1)/n for gather,
scatter and all_to_all, 1 for the rest; n ranks. All rates are GB/s of 10^9 bytes. Constants: hardware.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware import Hardware, Latency, hardware
from ncclcheck.estimate.limits import Factors, Limit, gpu_of, inside_node, out_of_node
from ncclcheck.estimate.types import Range

__all__ = ["Config", "Model", "NotModelledError", "Plateau", "busbw_factor", "shipped_model"]


@dataclass(frozen=True, slots=True)
class Plateau:
    """busbw in GB/s, the limit that binds, the algorithm that reaches it, and the arithmetic for people."""

    busbw: Range
    limit: str
    algorithm: str
    formula: str


def busbw_factor(collective: str, ranks: int) -> float:
    """busbw / algbw as nccl-tests counts it. Source: nccl-tests doc/PERFORMANCE.md."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0


@dataclass(frozen=True, slots=True)
class _Way:
    """One algorithm's busbw in GB/s, the limit that binds it, its arithmetic."""

    algorithm: str
    gbps: float
    limit: str
    text: str


class Model:
    """The model with one table of constants. Answers are kept: rules ask the same again and again."""

    def __init__(self, table: Hardware) -> None:
        self.table = table
        self.plateau = lru_cache(maxsize=8192)(self._plateau)

    def _plateau(self, config: Config) -> Plateau:
        """The best that NCCL's algorithms reach here, with the range of the limit that binds.

        Raises NotModelledError where the model has no number.
        """
        table = self.table
        if config.ranks < 2:
            raise NotModelledError("one rank has nobody to talk to")
        low, mid, high = (_best(config, table, factors) for factors in _factors(config, table))
        return Plateau(
            busbw=Range(
                low.gbps * table.ranges[low.limit][0],
                mid.gbps,
                high.gbps * table.ranges[high.limit][1],
            ),
            limit=mid.limit,
            algorithm=mid.algorithm,
            formula=mid.text,
        )

    def at(self, config: Config, size: int) -> Plateau:
        """The same at a message size in bytes (as nccl-tests counts it), latency included."""
        top = self.plateau(config)
        factor = busbw_factor(config.collective, config.ranks)
        seconds = latency_us(config, top.algorithm, self.table.latency, size) * 1e-6
        reached = [factor * size / 1e9 / (seconds + factor * size / 1e9 / gbps) for gbps in top.busbw]
        return replace(top, busbw=Range(*reached))


@cache
def shipped_model() -> Model:
    """The model with the table that ships with the package."""
    return Model(hardware())


def latency_us(config: Config, algorithm: str, latency: Latency, size: int) -> float:
    """What the message takes beyond its bytes, in us."""
    if config.nodes == 1:
        path = "nvls" if algorithm == "nvls" else config.intra.partition("-")[0]
    elif config.network == "socket":
        path = "tcp"
    elif config.network == "efa":
        path = "efa" if config.nodes == 2 else "efa many"
    elif config.network == "slingshot":
        path = "slingshot"
    else:
        path = "rdma" if config.gpus_per_node > 2 else "rdma few"
    us = latency.us["shm" if path == "mixed" else path]
    return float(us * (max(size, latency.flat_below_bytes) / 2**20) ** latency.growth)


def _factors(config: Config, table: Hardware) -> tuple[Factors, Factors, Factors]:
    """Low, expected and high of what effects leave."""
    fabric, node, whole = ([1.0, 1.0, 1.0] for _ in range(3))
    if config.effect:
        effect = table.effects[config.effect]
        target = {"fabric": fabric, "node": node, "all": whole}[effect.on]
        target[:] = [effect.factor.low, effect.factor.expected, effect.factor.high]
    if config.crossing_share:
        x, rate = config.crossing_share, table.effects["crossing"].factor
        for i, m in enumerate((rate.low, rate.expected, rate.high)):
            fabric[i] /= 1 - x + x / m
    low, mid, high = (Factors(*parts) for parts in zip(fabric, node, whole, strict=True))
    return low, mid, high


def _best(config: Config, table: Hardware, factors: Factors) -> _Way:
    ways = _all_reduce if config.collective == "all_reduce" else _others
    best = max(ways(config, table, factors), key=lambda way: way.gbps)
    if factors.all == 1.0:
        return best
    return _Way(best.algorithm, best.gbps * factors.all, best.limit, f"({best.text}) x {factors.all:g}")


def _all_reduce(config: Config, table: Hardware, factors: Factors) -> Iterator[_Way]:
    """The algorithms that NCCL would consider, or the one that is asked for.

    On two nodes NCCL rates a tree by the bandwidth inside the nodes and takes it; on more it takes the ring. Sockets,
    host staging and some networks were only seen with the ring's number, so no tree gain is counted for them.
    """
    intra = inside_node(config, table)
    one_node = config.nodes == 1
    net = None if one_node else out_of_node(config, table, factors)
    ring_only = net is not None and not (config.gdr and _tree_gain(config, table))
    asked = config.algorithm
    nvls = asked in ("", "nvls") and config.nvls and config.intra == "nvlink" and config.gpus_per_node > 1
    if nvls and not ring_only:
        yield from _nvls(config, table, net)
    if net is not None and not ring_only and (asked == "tree" or (asked == "" and config.nodes == 2)):
        yield _tree(config, table, intra, net)
    if net is None or asked in ("", "ring") or ring_only:
        yield _ring(intra, net)
    elif asked == "nvls" and not (nvls and gpu_of(config, table).nvls):
        raise NotModelledError("NVLS is asked for and not available")


def _tree_gain(config: Config, table: Hardware) -> bool:
    return config.network in table.networks and table.networks[config.network].tree_gain


def _ring(intra: Limit, net: Limit | None) -> _Way:
    if net is None:
        return _Way("ring", intra.gbps, intra.name, str(intra))
    lowest = min(intra, net, key=lambda limit: limit.gbps)
    text = str(net) if not intra.name else f"min({intra}, {net})"
    return _Way("ring", lowest.gbps, lowest.name, text)


def _tree_share(config: Config, table: Hardware) -> float:
    """algbw of a tree as a share of what a node puts on the network."""
    rules = table.algorithms
    egress = rules.tree_egress[min(config.nodes - 2, len(rules.tree_egress) - 1)]
    return (rules.tree_two_nodes if config.nodes == 2 else rules.tree_more_nodes) / egress


def _tree(config: Config, table: Hardware, intra: Limit, net: Limit) -> _Way:
    share, factor = _tree_share(config, table), busbw_factor(config.collective, config.ranks)
    limits = [net.times(share)]
    if config.nodes == 2 and intra.name:
        limits.append(intra.times(table.algorithms.tree_intra))
    lowest = min(limits, key=lambda limit: limit.gbps)
    return _Way("tree", lowest.gbps * factor, lowest.name, _as_busbw(limits, factor))


def _nvls(config: Config, table: Hardware, net: Limit | None) -> Iterator[_Way]:
    nvls, g = gpu_of(config, table).nvls, config.gpus_per_node
    if nvls is None:
        return
    factor = busbw_factor(config.collective, config.ranks)
    inside = nvls.gbps / (1 + 1 / g)
    if net is None:
        busbw = inside * factor
        yield _Way("nvls", busbw, nvls.limit, f"{nvls.limit} {nvls.gbps:g} / (1 + 1/{g}) x {factor:.4g} = {busbw:.0f}")
        return
    left, share = table.algorithms.nvlstree, _tree_share(config, table)
    limits = [
        Limit("nvlstree", left * inside, f"{left:g} x {nvls.gbps:g} / (1 + 1/{g})"),
        net.times(share),
    ]
    lowest = min(limits, key=lambda limit: limit.gbps)
    yield _Way("nvlstree", lowest.gbps * factor, lowest.name, _as_busbw(limits, factor))


def _as_busbw(limits: list[Limit], factor: float) -> str:
    return f"min({', '.join(str(limit) for limit in limits)}) x {factor:.4g}"


def _others(config: Config, table: Hardware, factors: Factors) -> Iterator[_Way]:
    """Collectives without trees: the ring's number, shared by the GPUs of a node where each has its own peer."""
    intra = inside_node(config, table)
    if config.nodes == 1:
        yield _ring(intra, None)
        return
    net = out_of_node(config, table, factors)
    n, g = config.ranks, config.gpus_per_node
    share = {"sendrecv": 1 / g, "all_to_all": (n - 1) / (n - g) / g}.get(config.collective, 1.0)
    yield _ring(intra, net if share == 1.0 else net.times(share))
