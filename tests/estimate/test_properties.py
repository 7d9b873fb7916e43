"""What must hold for every configuration: more is never slower, a fault is never faster, ranges are ordered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.config import COLLECTIVES, Config, NotModelledError
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.ranges import Range

MODEL = shipped_model()
CARDS = [name for name, gpu in hardware().gpus.items() if gpu.nvlink is None]
SWITCHED = [name for name, gpu in hardware().gpus.items() if gpu.nvlink is not None and not gpu.bridged]
NETWORKS = [*hardware().networks, "socket"]


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """From 2 GPUs to 100 thousand."""
    linked = draw(st.booleans())
    per_node = draw(st.sampled_from([1, 2, 4, 8, 16, 72]))
    nodes = draw(st.sampled_from([1, 2, 3, 4, 7, 16, 200, 12_500]))
    assume(2 <= nodes * per_node <= 100_000)
    return Config(
        nodes,
        per_node,
        draw(st.sampled_from(SWITCHED if linked else CARDS)),
        intra="nvlink" if linked else draw(st.sampled_from(["pcie-switch", "pcie-cpu", "shm"])),
        network=draw(st.sampled_from(NETWORKS)) if nodes > 1 else "",
        nics=draw(st.sampled_from([1, 2, 4, 8, 16, 32, 72])),
        nic_gbit=draw(st.sampled_from([25.0, 100.0, 200.0, 400.0, 800.0])),
        gdr=draw(st.booleans()),
        nvls=draw(st.booleans()),
        tcp_gbit=draw(st.sampled_from([None, 1.0, 10.0, 100.0])),
        redirect=draw(st.sampled_from(["", "acs", "vm"])),
        channels=draw(st.sampled_from([None, 2, 16])),
        collective=draw(st.sampled_from(COLLECTIVES)),
    )


SIZES = st.integers(0, 36).map(lambda power: 1 << power)

# Each makes a healthy job worse, or leaves it as it is.
FAULTS: list[dict[str, Any]] = [
    {"gdr": False},
    {"nvls": False},
    {"redirect": "acs"},
    {"redirect": "vm"},
    {"channels": 1},
    {"nics": 1},
    {"nic_gbit": 10.0},
    {"crossing_share": 0.5},
    {"crossing_share": 0.5, "oversubscription": 4.0},
    {"protocol": "ll"},
    {"protocol": "ll128"},
    {"algorithm": "ring"},
    {"sharing": 4},
    *({"effect": name} for name, effect in hardware().effects.items() if effect.factor.high <= 1),
]


def not_above(low: Range, high: Range) -> bool:
    return all(one <= other * (1 + 1e-9) for one, other in zip(low, high, strict=True))


@settings(max_examples=300)
@given(configs(), SIZES)
def test_ranges_are_ordered(config: Config, size: int) -> None:
    for found in (MODEL.plateau(config), MODEL.at(config, size)):
        assert 0 < found.busbw.low <= found.busbw.expected <= found.busbw.high < 1e6
        assert found.limit
        assert found.formula


@settings(max_examples=300)
@given(configs(), SIZES)
def test_size_and_latency(config: Config, size: int) -> None:
    """A larger message takes longer and has more bandwidth; none beats the plateau."""
    small, large, top = MODEL.at(config, size), MODEL.at(config, 4 * size), MODEL.plateau(config)
    assert small.busbw.expected <= large.busbw.expected * (1 + 1e-9)
    assert size / small.busbw.expected < 4 * size / large.busbw.expected
    assert not_above(large.busbw, top.busbw)


@settings(max_examples=300)
@given(configs(), SIZES, st.sampled_from(["nics", "nic_gbit", "pcie_width"]))
def test_more_is_never_slower(config: Config, size: int, field: str) -> None:
    value = getattr(config, field) or 8
    less, more = replace(config, **{field: value}), replace(config, **{field: value * 2})
    assert not_above(MODEL.plateau(less).busbw, MODEL.plateau(more).busbw)
    assert not_above(MODEL.at(less, size).busbw, MODEL.at(more, size).busbw)


@settings(max_examples=400)
@given(configs(), SIZES, st.sampled_from(FAULTS))
def test_a_fault_is_never_faster(config: Config, size: int, fault: dict[str, Any]) -> None:
    healthy = replace(config, gdr=True, redirect="", channels=None)
    try:
        faulty = MODEL.plateau(replace(healthy, **fault)), MODEL.at(replace(healthy, **fault), size)
    except NotModelledError:
        assume(False)
    assert not_above(faulty[0].busbw, MODEL.plateau(healthy).busbw)
    assert not_above(faulty[1].busbw, MODEL.at(healthy, size).busbw)
