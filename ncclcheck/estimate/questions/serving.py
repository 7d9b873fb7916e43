"""A model that is served, and the GPUs that serve it: bytes, and where memory, arithmetic and the host link bind.

GB are 10^9 bytes; batches are counted in sequences, each of which gets one token per step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.options import DTYPE_BYTES
from ncclcheck.estimate.quantities import between
from ncclcheck.estimate.ranges import Range

STORED_BYTES = {**DTYPE_BYTES, "int8": 1.0, "int4": 0.5, "fp4": 0.5}


@dataclass(frozen=True, slots=True)
class Serving:
    """A model and the GPUs that serve it. None: not told.

    params: all of them, read at each step. dtype, kv_dtype: of weights and KV cache. hidden: width of the model.
    context: tokens of each sequence. batch: sequences. tp: GPUs that a model is split over. gpu: as `--gpu` takes it.
    memory_bytes: of one GPU, where it is not the common variant of its class. Raises ValueError on impossible values.
    """

    params: float | None = None
    dtype: str = "bf16"
    layers: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    hidden: int | None = None
    context: int | None = None
    batch: int = 1
    tp: int = 1
    gpu: str | None = None
    kv_dtype: str = "bf16"
    memory_bytes: float | None = None

    def __post_init__(self) -> None:
        for flag, dtype in (("--dtype", self.dtype), ("--kv-dtype", self.kv_dtype)):
            if dtype not in STORED_BYTES:
                raise ValueError(f"{flag}: unknown data type {dtype!r}; known: {', '.join(STORED_BYTES)}")
        for flag, value, most in (
            ("--layers", self.layers, 10_000),
            ("--kv-heads", self.kv_heads, 10_000),
            ("--head-dim", self.head_dim, 10_000),
            ("--hidden", self.hidden, 1e6),
            ("--context", self.context, 1e9),
            ("--batch", self.batch, 1e7),
            ("--tp", self.tp, 4096),
        ):
            if value is not None:
                between(value, 1, most, flag)
        if self.memory_bytes is not None:
            between(self.memory_bytes, 1e8, 1e14, "--gpu-memory in bytes")
        if self.params is None and self.kv_token_bytes is None:
            raise ValueError("nothing to count: give --params, or --layers, --kv-heads and --head-dim")

    @property
    def weight_bytes(self) -> float:
        """0: not told."""
        return (self.params or 0.0) * STORED_BYTES[self.dtype]

    @property
    def kv_token_bytes(self) -> float | None:
        """Keys and values that one token leaves behind."""
        if self.layers is None or self.kv_heads is None or self.head_dim is None:
            return None
        return 2 * self.layers * self.kv_heads * self.head_dim * STORED_BYTES[self.kv_dtype]

    @property
    def kv_sequence_bytes(self) -> float | None:
        return None if self.kv_token_bytes is None or self.context is None else self.kv_token_bytes * self.context

    @property
    def kv_parts(self) -> int:
        """GPUs that the KV cache is divided among: a head is not split."""
        return min(self.tp, self.kv_heads or self.tp)


def the_gpu(name: str, table: Hardware) -> Gpu:
    """The one class that `name` stands for. Raises ValueError if there is none, or several."""
    classes = table.classes_of_flag(name)
    if len(classes) > 1:
        raise ValueError(f"--gpu {name} stands for several classes; name one of {', '.join(classes)}")
    return table.gpus[classes[0]]


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


def memory_left(ask: Serving, memory_bytes: float, reserve: float = 0.0) -> float:
    """Bytes of all GPUs together that weights leave to the KV cache; below 0: the weights alone do not fit.

    memory_bytes: of one GPU. reserve: share of it that is used for something else.
    """
    return ask.tp * memory_bytes * (1 - reserve) - ask.weight_bytes


def math_gain(dtype: str) -> float:
    """How much faster than in 16 bit weights of this type may be multiplied."""
    return 2.0 if STORED_BYTES[dtype] < 2 else 1.0
