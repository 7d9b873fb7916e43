"""What a collective takes beyond its bytes: the floor of small messages, and a hop for every round beyond two nodes."""

from __future__ import annotations

from math import log2

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.hardware import Latency

_LOGARITHMIC = ("tree", "nvlstree", "collnet", "pat")


def latency_us(config: Config, algorithm: str, size: int, latency: Latency) -> float:
    """Microseconds for a message of `size` bytes."""
    base = latency.us[_path(config, algorithm)] * _growth(size, latency)
    return float(base + _more_rounds(config, algorithm) * latency.hop_us)


def _growth(size: int, latency: Latency) -> float:
    """1 at 1 MiB."""
    return float((max(size, latency.flat_below_bytes) / 2**20) ** latency.growth)


def _path(config: Config, algorithm: str) -> str:
    """The row of the table: measured on one node, or on two to four."""
    if config.nodes == 1:
        if algorithm == "nvls":
            return "nvls"
        return "shm" if config.intra == "mixed" else config.intra.partition("-")[0]
    if config.network == "socket":
        return "tcp"
    if config.network in ("slingshot", "efa"):
        return config.network
    return "rdma" if config.gpus_per_node > 2 else "rdma few"


def _more_rounds(config: Config, algorithm: str) -> float:
    """Network rounds beyond those of two nodes, one after the other."""
    nodes, rounds = config.nodes, 2 if config.collective == "all_reduce" else 1
    if nodes <= 2 or config.collective == "sendrecv":
        return 0
    return rounds * (log2(nodes) - 1 if algorithm in _LOGARITHMIC else nodes - 2)
