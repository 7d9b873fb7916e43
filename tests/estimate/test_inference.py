"""Memory, time per token and largest batch of a served model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.figures import Answer
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.model import Model, shipped_model
from ncclcheck.estimate.questions.inference import Serving, inference, memory_left
from ncclcheck.estimate.questions.roofline import critical_batch, offload_tax
from ncclcheck.estimate.ranges import Range

TABLE = hardware()
LLAMA = Serving(params=70e9, layers=80, kv_heads=8, head_dim=128, context=8192, gpu="H200", tp=2)


def value(answer: Answer, name: str) -> Range:
    return next(one.value for one in answer.figures if one.name == name)


def asked(ask: Serving) -> Answer:
    return inference(ask, shipped_model())


@pytest.mark.parametrize(("gpu", "ms"), [("H200", 29.17), ("H100 SXM", 41.79)])
def test_the_floor_of_a_token_is_one_read_of_the_weights(gpu: str, ms: float) -> None:
    answer = asked(Serving(params=70e9, gpu=gpu))
    assert value(answer, "decode floor").expected == pytest.approx(ms, rel=1e-3)
    step = value(answer, "decode step")
    assert step == pytest.approx((ms / 0.9, ms / 0.75, ms / 0.6), rel=1e-3)


def test_kv_cache_of_a_llama_like_model() -> None:
    answer = asked(replace(LLAMA, batch=256))
    assert LLAMA.kv_token_bytes == 327_680
    assert value(answer, "KV cache per sequence").expected == pytest.approx(2.684, rel=1e-3)
    assert value(answer, "KV cache of the batch").expected == pytest.approx(687.2, rel=1e-3)
    assert replace(LLAMA, kv_dtype="fp8").kv_token_bytes == 327_680 / 2
    assert replace(LLAMA, kv_heads=64).kv_token_bytes == 327_680 * 8


@pytest.mark.parametrize(("gpu", "tokens"), [("H100", 295.2), ("H200", 206.0)])
def test_the_critical_batch(gpu: str, tokens: float) -> None:
    found = critical_batch(TABLE.gpus[f"{gpu} SXM"], "bf16")
    assert found == pytest.approx((tokens, tokens, tokens), rel=1e-3)


def test_smaller_weights_may_be_multiplied_faster() -> None:
    full, half = (critical_batch(TABLE.gpus["H100 SXM"], dtype) for dtype in ("bf16", "fp8"))
    assert full is not None and half is not None
    assert half == pytest.approx((full.expected / 2, full.expected / 2, full.expected))
    assert critical_batch(TABLE.gpus["H100 SXM"], "fp32") is None
    assert any("32-bit" in remark for remark in asked(Serving(params=7e9, dtype="fp32", gpu="H100")).remarks)


def test_a_long_context_keeps_the_memory_busy_at_any_batch() -> None:
    assert any("memory binds at any batch" in remark for remark in asked(LLAMA).remarks)
    assert any(
        "With the KV cache of 512 tokens of context it is" in one for one in asked(replace(LLAMA, context=512)).remarks
    )


def test_above_the_critical_batch_arithmetic_sets_the_floor() -> None:
    below, above = (asked(Serving(params=7e9, gpu="H100", batch=batch)) for batch in (200, 600))
    assert value(below, "decode floor").expected == pytest.approx(14e9 / 3350e9 * 1e3)
    assert value(above, "decode floor").expected == pytest.approx(2 * 7e9 * 600 / 989e12 * 1e3)


@pytest.mark.parametrize(("gpu", "tax"), [("RTX 4090", 38.8), ("H100 SXM", 60.5)])
def test_offload_tax(gpu: str, tax: float) -> None:
    found = offload_tax(TABLE.gpus[gpu], TABLE)
    assert found is not None
    assert found.low <= found.expected <= found.high
    assert found.expected == pytest.approx(tax, rel=0.01)


def test_one_memory_has_no_offload_tax() -> None:
    assert offload_tax(TABLE.gpus["GB10"], TABLE) is None
    assert all(one.name != "offload tax" for one in asked(Serving(params=7e9, gpu="GB10")).figures)


@pytest.mark.parametrize(("tp", "ratio"), [(2, 7.1), (4, 2.36), (8, 1.98)])
def test_room_for_the_cache_on_h200_against_h100(tp: int, ratio: float) -> None:
    ask = replace(LLAMA, tp=tp)
    assert memory_left(ask, 141e9) / memory_left(ask, 80e9) == pytest.approx(ratio, rel=0.005)


def test_what_fits() -> None:
    one, two = asked(replace(LLAMA, gpu="H100", tp=1)), asked(replace(LLAMA, gpu="H100", tp=8))
    assert one.details["fits"] is False and "It takes 2 of these GPUs" in one.remarks[0]
    batch = value(two, "largest batch")
    assert two.details["fits"] is True
    assert batch.expected == (8 * 80e9 * 0.925 - 140e9) // LLAMA.kv_token_bytes // 8192
    over = asked(replace(LLAMA, gpu="H100", tp=8, batch=int(batch.expected) + 1))
    assert over.details["fits"] is False and "Does not fit: the KV cache" in over.remarks[0]
    assert asked(replace(LLAMA, gpu="H100", tp=8, batch=int(batch.expected))).details["fits"] is True


def test_another_memory_size() -> None:
    usual, small = (asked(Serving(params=13e9, gpu="A100", memory_bytes=size)) for size in (None, 40e9))
    assert value(usual, "memory left for KV cache").expected == pytest.approx(80 * 0.925 - 26)
    assert value(small, "memory left for KV cache").expected == pytest.approx(40 * 0.925 - 26)


def test_a_head_is_not_split() -> None:
    """On 16 GPUs, 8 KV heads are kept twice: each GPU reads as much of the cache as on 8."""
    ask = replace(LLAMA, gpu="H100", batch=64)
    eight, sixteen = asked(replace(ask, tp=8)), asked(replace(ask, tp=16))
    saved = value(eight, "decode floor").expected - value(sixteen, "decode floor").expected
    assert saved == pytest.approx(140e9 / 16 / 3350e9 * 1e3)


def test_tensor_parallelism_adds_two_all_reduces_per_layer() -> None:
    one, two = (asked(replace(LLAMA, tp=tp, context=None)) for tp in (1, 2))
    added = value(two, "decode step").expected - value(one, "decode step").expected / 2
    assert added == pytest.approx(2 * 80 * 14e-6 * 1e3)
    assert any("--layers is not told" in remark for remark in asked(Serving(params=7e9, gpu="H100", tp=2)).remarks)


@pytest.mark.parametrize(
    ("gpu", "tp", "path"),
    [("H100", 8, "NVLink"), ("L40S", 8, "PCIe"), ("H100", 16, "the network"), ("GB200", 72, "NVLink")],
)
def test_the_path_of_the_all_reduces(gpu: str, tp: int, path: str) -> None:
    assert any(one.name == f"a small all_reduce over {path}" for one in asked(replace(LLAMA, gpu=gpu, tp=tp)).givens)


def test_large_activations_need_bandwidth() -> None:
    ask = replace(LLAMA, gpu="H100", tp=8, batch=128)
    small, large = asked(ask), asked(replace(ask, hidden=8192))
    busbw = 128 * 8192 * 2 * 1.75 / 1e9
    more = value(large, "decode step").expected - value(small, "decode step").expected
    assert 160 * busbw / 500 * 1e3 < more < 160 * busbw / 400 * 1e3
    assert any("--hidden" in remark for remark in small.remarks)


def test_what_is_missing_is_said_and_the_rest_answered() -> None:
    answer = asked(Serving(params=70e9))
    assert [one.name for one in answer.figures] == ["weights"]
    assert answer.remarks == (
        "Not told, so what needs it is left out: --layers, --kv-heads, --head-dim, --context, --gpu.",
    )
    assert [one.name for one in asked(Serving(layers=80, kv_heads=8, head_dim=128)).figures] == ["KV cache per token"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"params": None}, "nothing to count"),
        ({"dtype": "bf17"}, "--dtype: unknown data type 'bf17'"),
        ({"kv_dtype": ""}, "--kv-dtype: unknown data type"),
        ({"tp": 0}, "--tp is a number from 1"),
        ({"batch": -1}, "--batch is a number from 1"),
        ({"layers": 0}, "--layers is a number from 1"),
        ({"context": 10**12}, "--context is a number from 1"),
        ({"memory_bytes": float("nan")}, "--gpu-memory"),
        ({"gpu": "Hopper"}, "stands for several classes"),
        ({"gpu": "H900"}, "unknown GPU 'H900'"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        asked(Serving(**{"params": 7e9, **wrong}))  # type: ignore[arg-type]


questions = st.builds(
    Serving,
    params=st.floats(1, 1e13),
    dtype=st.sampled_from(["fp32", "bf16", "fp8", "int4"]),
    layers=st.integers(1, 200),
    kv_heads=st.integers(1, 128),
    head_dim=st.sampled_from([64, 128, 256]),
    hidden=st.none() | st.integers(64, 32768),
    context=st.none() | st.integers(1, 1_000_000),
    batch=st.integers(1, 10_000),
    tp=st.integers(1, 72),
    gpu=st.sampled_from(sorted(TABLE.gpus)),
)


@settings(max_examples=60)
@given(questions)
def test_ranges_are_ordered_and_the_floor_is_a_floor(ask: Serving) -> None:
    answer = asked(ask)
    for one in answer.figures:
        assert 0 <= one.value.low <= one.value.expected <= one.value.high < float("inf"), one
        assert one.formula, one
    assert value(answer, "decode floor").low <= value(answer, "decode step").low * (1 + 1e-9)


@settings(max_examples=40)
@given(questions, st.floats(1, 10))
def test_more_memory_bandwidth_is_never_slower(ask: Serving, gain: float) -> None:
    assert ask.gpu is not None
    gpu = TABLE.gpus[ask.gpu]
    faster = Model(TABLE._replace(gpus={gpu.name: gpu._replace(memory_gbps=gpu.memory_gbps * gain)}))
    before, after = value(asked(ask), "decode step"), value(inference(ask, faster), "decode step")
    assert all(new <= old * (1 + 1e-12) for new, old in zip(after, before, strict=True))
