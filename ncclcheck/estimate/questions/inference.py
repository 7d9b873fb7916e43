"""Inference: what a decode step cannot be faster than, what the KV cache takes, and what fits.

A decode step reads all weights and the KV cache of every sequence once; with tensor parallelism each layer adds two
all_reduces.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from ncclcheck.estimate.config import Config
from ncclcheck.estimate.figures import Answer, Sheet
from ncclcheck.estimate.hardware import Gpu, Hardware
from ncclcheck.estimate.model import Model, call_seconds
from ncclcheck.estimate.quantities import between, count_text, duration_text, percent_text, rate_text, size_text
from ncclcheck.estimate.questions.roofline import STORED_BYTES, critical_batch, host_link_gbps, math_gain, offload_tax
from ncclcheck.estimate.ranges import Range, exactly, over
from ncclcheck.facts.busbw import busbw_factor


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


def inference(ask: Serving, model: Model) -> Answer:
    """Everything that the given inputs allow. Raises ValueError for a GPU that is not in the table."""
    gpu = None if ask.gpu is None else _the_gpu(ask.gpu, model.table)
    sheet = Sheet(details={"fits": None})
    _inputs(ask, gpu, model.table, sheet)
    _sizes(ask, sheet)
    if gpu is not None:
        if ask.params is not None:
            _fit(ask, gpu, model.table, sheet)
            _decode(ask, gpu, model, sheet)
        _offload(gpu, model.table, sheet)
    missing = [
        flag
        for flag, value in (
            ("--params", ask.params),
            ("--layers", ask.layers),
            ("--kv-heads", ask.kv_heads),
            ("--head-dim", ask.head_dim),
            ("--context", ask.context),
            ("--gpu", ask.gpu),
        )
        if value is None
    ]
    if missing:
        sheet.remark(f"Not told, so what needs it is left out: {', '.join(missing)}.")
    where = "" if ask.gpu is None else f" on {ask.tp} x {ask.gpu}"
    what = "" if ask.params is None else f" of {count_text(ask.params)} parameters in {ask.dtype}"
    return sheet.answer(f"Inference with a model{what}{where}, batch {ask.batch}")


def _the_gpu(name: str, table: Hardware) -> Gpu:
    """The one class that `name` stands for. Raises ValueError if there is none, or several."""
    classes = table.classes_of_flag(name)
    if len(classes) > 1:
        raise ValueError(f"--gpu {name} stands for several classes; name one of {', '.join(classes)}")
    return table.gpus[classes[0]]


def _inputs(ask: Serving, gpu: Gpu | None, table: Hardware, sheet: Sheet) -> None:
    """What was told, and what the table adds."""
    for name, flag, value, default in (
        ("parameters", "--params", ask.params, None),
        ("data type of weights", "--dtype", ask.dtype, "bf16"),
        ("layers", "--layers", ask.layers, None),
        ("KV heads", "--kv-heads", ask.kv_heads, None),
        ("head dimension", "--head-dim", ask.head_dim, None),
        ("data type of KV cache", "--kv-dtype", ask.kv_dtype, "bf16"),
        ("hidden size", "--hidden", ask.hidden, None),
        ("context", "--context", ask.context, None),
        ("batch", "--batch", ask.batch, 1),
        ("GPUs that share the model", "--tp", ask.tp, 1),
    ):
        if value is not None:
            text = count_text(value) if isinstance(value, float) else str(value)
            sheet.given(name, text, f"{flag}, default" if value == default else flag)
    if gpu is not None:
        source = table.sources["gpu"]
        sheet.given("GPU", gpu.name, "--gpu")
        if ask.memory_bytes is None:
            sheet.constant("memory of a GPU", f"{gpu.memory_gbytes:g} GB", source)
        else:
            sheet.given("memory of a GPU", size_text(ask.memory_bytes), "--gpu-memory")
        sheet.constant("memory bandwidth", f"{gpu.memory_gbps:g} GB/s", source)
        sheet.constant("dense 16-bit arithmetic", f"{gpu.bf16_tflops:g} TFLOPS", source)


def _sizes(ask: Serving, sheet: Sheet) -> None:
    if ask.params is not None:
        text = f"{count_text(ask.params)} x {STORED_BYTES[ask.dtype]:g} B = {size_text(ask.weight_bytes)}"
        sheet.figure("weights", exactly(ask.weight_bytes / 1e9), "GB", text)
    token, sequence = ask.kv_token_bytes, ask.kv_sequence_bytes
    if token is not None:
        text = (
            f"2 for K and V x {ask.layers} layers x {ask.kv_heads} heads x {ask.head_dim} x "
            f"{STORED_BYTES[ask.kv_dtype]:g} B = {token:,.0f} B"
        )
        sheet.figure("KV cache per token", exactly(token / 1e3), "kB", text)
    if token is not None and sequence is not None:
        text = f"{token:,.0f} B x {ask.context} tokens = {size_text(sequence)}"
        sheet.figure("KV cache per sequence", exactly(sequence / 1e9), "GB", text)
        if ask.batch > 1:
            whole = sequence * ask.batch
            text = f"{size_text(sequence)} x {ask.batch} = {size_text(whole)}"
            sheet.figure("KV cache of the batch", exactly(whole / 1e9), "GB", text)


def _fit(ask: Serving, gpu: Gpu, table: Hardware, sheet: Sheet) -> None:
    """Weights and KV cache against the memory of all GPUs."""
    reserve = table.decode.reserve_share
    memory = gpu.memory_gbytes * 1e9 if ask.memory_bytes is None else ask.memory_bytes
    where = f"{ask.tp} x {size_text(memory)}"
    sheet.constant("reserve", f"{percent_text(reserve)} of the memory", table.decode.source)
    left = over(lambda share: memory_left(ask, memory, share), reserve)
    if left.expected <= 0:
        sheet.details["fits"] = False
        least = ceil(ask.weight_bytes / (memory * (1 - reserve.expected)))
        sheet.remark(
            f"Does not fit: weights of {size_text(ask.weight_bytes)} in {where}, of which "
            f"{100 * reserve.expected:g} % are reserve. It takes {least} of these GPUs, or smaller weights."
        )
        return
    room = over(lambda size: max(0.0, size), left)
    text = f"{where} x (1 - {reserve.expected:g}) - {size_text(ask.weight_bytes)} = {size_text(room.expected)}"
    sheet.figure("memory left for KV cache", room.scale(1e-9), "GB", text)
    if ask.kv_sequence_bytes is None:
        return
    one = ask.kv_sequence_bytes * ask.tp / ask.kv_parts
    batch = over(lambda size: float(floor(size / one)), room)
    each = size_text(ask.kv_sequence_bytes)
    if ask.kv_parts < ask.tp:
        each = f"({each} x {ask.tp} / {ask.kv_parts}, as a KV head is not split)"
    text = f"{size_text(room.expected)} / {each} = {batch.expected:.0f}"
    sheet.figure("largest batch", batch, "sequences", text)
    sheet.details["fits"] = fits = ask.batch <= batch.expected
    if not fits:
        sheet.remark(
            f"Does not fit: the KV cache of batch {ask.batch} takes {size_text(one * ask.batch)}, the weights leave "
            f"{size_text(room.expected)}."
        )


def memory_left(ask: Serving, memory_bytes: float, reserve: float = 0.0) -> float:
    """Bytes of all GPUs together that weights leave to the KV cache; below 0: the weights alone do not fit.

    memory_bytes: of one GPU. reserve: share of it that is used for something else.
    """
    return ask.tp * memory_bytes * (1 - reserve) - ask.weight_bytes


def _decode(ask: Serving, gpu: Gpu, model: Model, sheet: Sheet) -> None:
    """The time of a step: memory or arithmetic, whichever is slower, and the all_reduces."""
    shares = model.table.decode.memory_share
    cache = (ask.kv_sequence_bytes or 0.0) * ask.batch
    bytes_read = ask.weight_bytes / ask.tp + cache / ask.kv_parts
    text = f"({size_text(ask.weight_bytes)} / {ask.tp}" + (f" + {size_text(cache)} / {ask.kv_parts})" if cache else ")")
    memory = bytes_read / (gpu.memory_gbps * 1e9)
    math, math_text = _arithmetic(ask, gpu)

    floor_seconds = max(memory, math.low)
    formula = f"{text} / {gpu.memory_gbps:g} GB/s = {duration_text(memory)}"
    if math.low > memory:
        formula += f", less than arithmetic: {math_text}"
    sheet.figure("decode floor", exactly(floor_seconds * 1e3), "ms per step", formula)

    sheet.constant("share of memory bandwidth reached", percent_text(shares), model.table.decode.source)
    network, network_text = _all_reduces(ask, gpu, model, sheet)
    reached = over(lambda share: memory / share, shares)
    step = over(lambda read, compute, reduce: max(read, compute) + reduce, reached, math, network)
    formula = f"{text} / ({shares.expected:g} x {gpu.memory_gbps:g} GB/s)"
    if math.expected > reached.expected:
        formula = math_text
    formula += f"{network_text} = {duration_text(step.expected)}"
    sheet.figure("decode step", step.scale(1e3), "ms", formula)
    rate = over(lambda seconds: ask.batch / seconds, step)
    formula = f"{ask.batch} / {duration_text(step.expected)} = {rate.expected:.3g}"
    sheet.figure("tokens per second", rate, "", formula)

    critical = critical_batch(gpu, ask.dtype)
    if critical is None:
        sheet.remark("The table has no rate of 32-bit arithmetic: it is not counted.")
        return
    formula = (
        f"{gpu.bf16_tflops:g} TFLOPS x {STORED_BYTES[ask.dtype]:g} B / (2 x {gpu.memory_gbps:g} GB/s) = "
        f"{critical.expected:.0f}, weights alone"
    )
    sheet.figure("critical batch", critical, "tokens per step", formula)
    _where_arithmetic_binds(ask, gpu, sheet)


def _arithmetic(ask: Serving, gpu: Gpu) -> tuple[Range, str]:
    """Seconds that the arithmetic of a step takes at least; nothing in 32 bit, for which the table has no rate."""
    if STORED_BYTES[ask.dtype] > 2 or ask.params is None:
        return exactly(0.0), ""
    seconds = 2 * ask.params * ask.batch / (gpu.bf16_tflops * 1e12 * ask.tp)
    work = f"2 x {count_text(ask.params)} x {ask.batch}"
    text = f"{work} / ({ask.tp} x {gpu.bf16_tflops:g} TFLOPS) = {duration_text(seconds)}"
    return Range(seconds / math_gain(ask.dtype), seconds, seconds), text


def _where_arithmetic_binds(ask: Serving, gpu: Gpu, sheet: Sheet) -> None:
    """Weights + batch x KV cache against 2 x parameters x batch operations."""
    if ask.params is None or ask.kv_sequence_bytes is None:
        return
    meanwhile = 2 * ask.params * gpu.memory_gbps / (gpu.bf16_tflops * 1e3)  # bytes that are read per computed token
    counted = f"The critical batch counts weights alone. With the KV cache of {ask.context} tokens of context"
    if ask.kv_sequence_bytes >= meanwhile:
        sheet.remark(f"{counted} memory binds at any batch: reading it takes longer than the arithmetic.")
    else:
        sheet.remark(f"{counted} it is {ask.weight_bytes / (meanwhile - ask.kv_sequence_bytes):.0f}.")


def _all_reduces(ask: Serving, gpu: Gpu, model: Model, sheet: Sheet) -> tuple[Range, str]:
    """Seconds that tensor parallelism adds to a step, and their formula."""
    decode, nothing = model.table.decode, exactly(0.0)
    if ask.tp == 1:
        return nothing, ""
    if ask.layers is None:
        sheet.remark("The all_reduces of tensor parallelism are not counted: --layers is not told.")
        return nothing, ""
    domain = model.table.racks.gpus if gpu.in_rack else decode.machine_gpus
    name, us = "NVLink", decode.nvlink_us
    if ask.tp > domain:
        name, us = "the network", decode.network_us
    elif gpu.nvlink is None or (gpu.bridged and ask.tp > 2):
        name, us = "PCIe", decode.pcie_us
    sheet.constant(f"a small all_reduce over {name}", f"{us.low:g} to {us.high:g} us", decode.source)
    more, text = _bytes_of_all_reduce(ask, gpu, name, model, sheet)
    one = over(lambda latency, moving: latency * 1e-6 + moving, us, more)
    return one.scale(2 * ask.layers), f" + 2 x {ask.layers} layers x ({us.expected:g} us{text})"


def _bytes_of_all_reduce(ask: Serving, gpu: Gpu, path: str, model: Model, sheet: Sheet) -> tuple[Range, str]:
    """Seconds that the activations of a batch take beyond the latency, and their formula."""
    nothing = exactly(0.0)
    size = ask.batch * (ask.hidden or 0) * 2
    if ask.hidden is None and ask.batch > 1:
        sheet.remark("The all_reduces are counted as small messages: --hidden is not told.")
    if size <= model.table.latency.flat_below_bytes:
        return nothing, ""
    if path == "the network":
        sheet.remark("The all_reduces are counted as small messages: what they find on the network is not told.")
        return nothing, ""
    intra = "nvlink" if path == "NVLink" else "pcie-cpu" if gpu.p2p else "shm"
    busbw, factor = model.plateau(Config(1, ask.tp, gpu.name, intra)).busbw, busbw_factor("all_reduce", ask.tp)
    return call_seconds(
        busbw, size, "all_reduce", ask.tp
    ), f" + {size_text(size)} x {factor:.4g} / {rate_text(busbw.expected)} GB/s"


def _offload(gpu: Gpu, table: Hardware, sheet: Sheet) -> None:
    tax = offload_tax(gpu, table)
    if tax is None:
        sheet.remark(f"{gpu.name} shares one memory with the CPU: there is nothing to offload to.")
        return
    link = host_link_gbps(gpu, table)
    name = "NVLink-C2C" if gpu.c2c else f"PCIe gen {gpu.pcie_gen} x{gpu.pcie_width}"
    sheet.constant("host link, one way", f"{name}, {link.low:.3g} to {link.high:.3g} GB/s", table.host_link.source)
    formula = f"{gpu.memory_gbps:g} GB/s / {link.expected:.3g} GB/s one way = {tax.expected:.3g}"
    sheet.figure("offload tax", tax, "x", formula)
