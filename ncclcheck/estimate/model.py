"""Bus bandwidth that a collective reaches on a configuration: for large messages, and by size.

busbw is nccl-tests' column (`facts/busbw.py`). All rates are GB/s of 10^9 bytes. Constants: hardware.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware import Hardware, Nvls
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.latency import latency_us
from ncclcheck.estimate.limits import (
    ALL,
    Factors,
    Limit,
    gpu_of,
    inside_node,
    known_limit,
    lowest,
    out_of_node,
)
from ncclcheck.estimate.quantities import rate_text, size_text
from ncclcheck.estimate.ranges import Range, most
from ncclcheck.facts.busbw import busbw_factor

__all__ = ["Config", "Model", "NotModelledError", "Plateau", "call_seconds", "shipped_model"]


@dataclass(frozen=True, slots=True)
class Plateau:
    """busbw in GB/s, the limit that binds, the algorithm that reaches it, and the arithmetic for people."""

    busbw: Range
    limit: str
    algorithm: str
    formula: str


def call_seconds(busbw: Range, nbytes: float, collective: str, ranks: int) -> Range:
    """Seconds of one call of so many bytes (as nccl-tests counts them) at a bus bandwidth in GB/s."""
    work = nbytes * busbw_factor(collective, ranks) / 1e9
    return Range(work / busbw.high, work / busbw.expected, work / busbw.low)


class Model:
    """The model with one table of constants. Answers are kept: rules ask the same again and again.

    site: what of the table is a site's own, for people; "" where nothing is.
    """

    def __init__(self, table: Hardware, site: str = "") -> None:
        self.table = table
        self.site = site
        self.plateau = lru_cache(maxsize=8192)(self._plateau)

    def _plateau(self, config: Config) -> Plateau:
        """The best that NCCL's algorithms reach with large messages, with the range of the limits that may bind.

        Raises NotModelledError where the model has no number.
        """
        ways = list(self._ways(config))
        best = max(ways, key=lambda way: way.busbw.expected)
        return replace(best, busbw=most(way.busbw for way in ways))

    def at(self, config: Config, size: int) -> Plateau:
        """The same for messages of `size` bytes (as nccl-tests counts them): latency counts, and may choose another
        algorithm. Raises NotModelledError where the model has no number, ValueError if size < 1."""
        if size < 1:
            raise ValueError("a message has at least one byte")
        reached = [self._sized(config, way, size) for way in self._ways(config, small=True)]
        best = max(reached, key=lambda way: way.busbw.expected)
        return replace(best, busbw=most(way.busbw for way in reached))

    def _sized(self, config: Config, way: Plateau, size: int) -> Plateau:
        us = latency_us(config, way.algorithm, size, self.table.latency)
        factor = busbw_factor(config.collective, config.ranks)
        work = factor * size
        quick, slow = self.table.latency.spread
        reached = [
            work / (us * 1e3 * longer + work / gbps) for longer, gbps in zip((slow, 1.0, quick), way.busbw, strict=True)
        ]
        message, plateau = f"{size_text(size)} x {factor:.4g}", f"{rate_text(way.busbw.expected)} GB/s"
        return replace(
            way,
            busbw=Range(*reached),
            formula=f"{way.formula} = {plateau} for large messages; {message} / ({us:.0f} us + {message} / {plateau})"
            f" = {rate_text(reached[1])} GB/s",
        )

    def _ways(self, config: Config, small: bool = False) -> Iterator[Plateau]:
        """Each algorithm's plateau. small: with those that NCCL takes for small messages only."""
        table = self.table
        if config.ranks < 2:
            raise NotModelledError("one rank has nobody to talk to")
        factors = _factors(config, table)
        ways = _all_reduce(config, table, factors, small) if config.collective == "all_reduce" else None
        for way in ways or _others(config, table, factors):
            if factors.all == ALL:
                yield way
            else:
                formula = f"({way.formula}) x {factors.all.expected:.3g}"
                yield replace(way, busbw=way.busbw.times(factors.all), formula=formula)


@cache
def shipped_model() -> Model:
    """The model with the table that ships with the package."""
    return Model(hardware())


def _factors(config: Config, table: Hardware) -> Factors:
    """What effects leave."""
    left = {"fabric": ALL, "node": ALL, "all": ALL}
    for name in config.effects:
        effect = table.effects[name]
        left[effect.on] = left[effect.on].times(effect.factor)
    if config.crossing_share:
        x, spine = config.crossing_share, 1 / config.oversubscription
        rates = [min(rate, spine) for rate in table.effects["crossing"].factor]
        left["fabric"] = left["fabric"].times(Range(*(1 / (1 - x + x / rate) for rate in rates)))
    return Factors(**left)


def _all_reduce(config: Config, table: Hardware, factors: Factors, small: bool) -> Iterator[Plateau]:
    """The algorithms that NCCL would consider, or the one that is asked for.

    On two nodes NCCL rates a tree by the bandwidth inside the nodes and takes it; on more it takes the ring, and the
    tree for small messages. Sockets, host staging and some networks were only seen with the ring's number, so no tree
    gain is counted for them.
    """
    intra = inside_node(config, table)
    net = None if config.nodes == 1 else out_of_node(config, table, factors)
    asked = config.algorithm
    if asked == "collnet" or config.sharp:
        yield _collnet(config, table, intra, net)
        if asked == "collnet":
            return
    nvls = _in_switch(config, table)
    staged = config.network == "socket" or not config.gdr
    gain = net is None or (not staged and (asked == "tree" or _tree_gain(config, table)))
    if config.protocol == "ll":
        nvls, gain = None, net is None  # the ring's number is the best that is known of LL
    if asked in ("", "nvls") and nvls is not None and gain:
        yield _nvls(config, table, nvls, net)
    elif asked == "nvls" and gain:
        raise NotModelledError("NVLS is asked for and not available")
    ring = _ring(config, table, intra, net)
    if net is not None and gain and (asked == "tree" or (asked == "" and config.nodes == 2)):
        yield _tree(config, table, intra, net)
    elif net is not None and small and asked == "":
        left = table.algorithms.tree_small
        text = f"{left:g} x {ring.formula}"
        yield replace(ring, algorithm="tree", busbw=ring.busbw.scale(left), formula=text)
    if net is None or asked in ("", "ring", "pat") or not gain:
        yield ring


def _tree_gain(config: Config, table: Hardware) -> bool:
    network = table.networks.get(config.network)
    return network is not None and _generation(config, table) not in network.tree_gain_not


def _way(algorithm: str, limits: list[Limit], factor: float = 1.0) -> Plateau:
    """The lowest of the limits, as bus bandwidth."""
    told = [limit for limit in limits if limit.name]
    binding = lowest(told)
    text = str(told[0]) if len(told) == 1 else f"min({', '.join(map(str, told))})"
    if factor != 1.0:
        text = f"{text} x {factor:.4g}"
    return Plateau(binding.gbps.scale(factor), binding.name, algorithm, text)


def _ring(config: Config, table: Hardware, intra: Limit, net: Limit | None) -> Plateau:
    limits = [intra] if net is None else [intra, net]
    if config.protocol == "ll":
        row = table.ll_gbps[_generation(config, table)]
        limits = [limit.times(table.algorithms.ll_share) for limit in limits]
        limits.append(known_limit(table, "protocol ll", row[min(config.nodes.bit_length(), len(row)) - 1]))
    return _way("ring", limits)


def _generation(config: Config, table: Hardware) -> str:
    """volta, ampere, hopper or blackwell; of cards without NVLink the one of the same PCIe generation."""
    gpu = gpu_of(config, table)
    if gpu.nvlink is not None and gpu.nvlink.generation in table.ll_gbps:
        return gpu.nvlink.generation
    return {3: "volta", 4: "ampere", 5: "hopper"}.get(gpu.pcie_gen, "blackwell")


def _tree(config: Config, table: Hardware, intra: Limit, net: Limit) -> Plateau:
    limits = [net.times(_tree_share(config, table, in_switch=False))]
    if config.nodes == 2 and intra.name:
        limits.append(intra.times(table.algorithms.tree_intra))
    return _way("tree", limits, busbw_factor("all_reduce", config.ranks))


def _tree_share(config: Config, table: Hardware, in_switch: bool) -> float:
    """algbw of a tree as a share of what a node puts on the network."""
    rules = table.algorithms
    egress = rules.tree_egress[min(config.nodes - 2, len(rules.tree_egress) - 1)]
    if config.nodes > 2:
        return rules.tree_more_nodes / egress
    if not in_switch and config.gpus_per_node <= rules.tree_few_gpus:
        return rules.tree_two_nodes_few / egress
    return rules.tree_two_nodes / egress


def _in_switch(config: Config, table: Hardware) -> Nvls | None:
    """The switches of a node that can reduce; None: there are none, or they are not used."""
    used = config.nvls and config.intra == "nvlink" and config.gpus_per_node > 1
    return gpu_of(config, table).nvls if used else None


def _reduced(config: Config, table: Hardware, nvls: Nvls, name: str, share: float = 1.0) -> Limit:
    """algbw of reduction in the switches of a node: each GPU sends and receives a message and its own part of it."""
    g = config.gpus_per_node
    product = f"{nvls.gbps:g} / (1 + 1/{g})"
    text = product if share == 1.0 else f"{share:g} x {product}"
    return known_limit(table, name, share * (nvls.gbps / (1 + 1 / g)), text)


def _nvls(config: Config, table: Hardware, nvls: Nvls, net: Limit | None) -> Plateau:
    factor = busbw_factor("all_reduce", config.ranks)
    if net is None:
        return _way("nvls", [_reduced(config, table, nvls, nvls.limit)], factor)
    limits = [
        _reduced(config, table, nvls, "nvlstree", table.algorithms.nvlstree),
        net.times(_tree_share(config, table, in_switch=True)),
    ]
    return _way("nvlstree", limits, factor)


def _collnet(config: Config, table: Hardware, intra: Limit, net: Limit | None) -> Plateau:
    """The switches of the fabric reduce: each byte crosses the network once each way."""
    if net is None:
        raise NotModelledError("in-network reduction needs several nodes")
    rules, nvls = table.algorithms, _in_switch(config, table)
    limits = [net.times(rules.collnet_network)]
    if nvls is not None:
        limits.append(_reduced(config, table, nvls, "collnet", rules.collnet_nvls))
    elif intra.name:
        limits.append(intra.times(rules.collnet_intra)._replace(name="collnet"))
    return _way("collnet", limits, busbw_factor("all_reduce", config.ranks))


def _others(config: Config, table: Hardware, factors: Factors) -> Iterator[Plateau]:
    """Collectives without trees: the ring's number, shared by the GPUs of a node where each has its own peer."""
    intra = inside_node(config, table)
    n, g = config.ranks, config.gpus_per_node
    net = out_of_node(config, table, factors) if config.nodes > 1 else None
    if config.collective in ("sendrecv", "all_to_all"):
        if net is not None and g > 1:
            net = net.times(1 / g if config.collective == "sendrecv" else (n - 1) / (n - g) / g)
        yield replace(_ring(config, table, intra, net), algorithm="p2p")
        return
    ring = _ring(config, table, intra, net)
    pat = net is not None and g == 1 and config.collective in ("all_gather", "reduce_scatter")
    if not pat or config.algorithm != "pat":
        yield ring
    if pat and config.algorithm in ("", "pat"):
        left = table.algorithms.pat
        yield replace(ring, algorithm="pat", busbw=ring.busbw.scale(left), formula=f"{left:g} x {ring.formula}")
