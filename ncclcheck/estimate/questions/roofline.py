"""Where memory, arithmetic and the host link bind a GPU that serves a model. GB are 10^9 bytes."""

from __future__ import annotations

from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.options import DTYPE_BYTES
from ncclcheck.estimate.ranges import Range

STORED_BYTES = {**DTYPE_BYTES, "int8": 1.0, "int4": 0.5, "fp4": 0.5}


def critical_batch(gpu: Gpu, dtype: str) -> Range | None:
    """Tokens per step above which arithmetic takes longer than reading the weights; None: no rate for 32 bit.

    Eight-bit and smaller weights may be multiplied in 16 bit or at twice that rate.
    """
    stored = STORED_BYTES[dtype]
    if stored > 2:
        return None
    tokens = gpu.bf16_tflops * 1e3 * stored / (2 * gpu.memory_gbps)
    return Range(tokens, tokens, tokens * math_gain(dtype))


def offload_tax(gpu: Gpu, table: Hardware) -> Range | None:
    """How many times slower a GPU reads host memory than its own, one way; None: they are the same memory."""
    if gpu.unified:
        return None
    link = host_link_gbps(gpu, table)
    return Range(gpu.memory_gbps / link.high, gpu.memory_gbps / link.expected, gpu.memory_gbps / link.low)


def host_link_gbps(gpu: Gpu, table: Hardware) -> Range:
    """What arrives one way from host memory, GB/s."""
    link = table.host_link
    worst, best = link.raw_share
    if gpu.c2c:
        return Range(link.c2c_gbps * worst, link.c2c_gbps * (worst + best) / 2, link.c2c_gbps * best)
    raw = table.pcie.raw_gbps(gpu.pcie_gen, gpu.pcie_width)
    return Range(raw * worst, link.x16_gbps[gpu.pcie_gen] * gpu.pcie_width / 16, raw * best)


def math_gain(dtype: str) -> float:
    """How much faster than in 16 bit weights of this type may be multiplied."""
    return 2.0 if STORED_BYTES[dtype] < 2 else 1.0
