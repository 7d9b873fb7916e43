"""GPU-hours and dollars of a day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.training.money import loss


def test_a_day_of_256_gpus() -> None:
    got = loss(Range(0.4, 0.5, 0.6), 256, 1, 2.5, 0.9)
    assert got.gpu_hours == Range(0.4 * 6144, 3072, 0.6 * 6144)
    assert got.dollars is not None
    assert got.dollars.expected == 7680
    assert not got.stops
    assert got.formula == "24 h x 256 GPUs x 0.5 x 1 = 3,072 GPU-hours a day; x $2.5 = $7,680"


def test_without_a_price_there_are_no_dollars() -> None:
    assert loss(Range(0.4, 0.5, 0.6), 8, 1, None, 0.9).dollars is None


@pytest.mark.parametrize(("share", "stops"), [(0.9, False), (0.92, True)])
def test_a_job_that_effectively_stops(share: float, stops: bool) -> None:
    assert loss(Range(share, share, share), 8, 1, 2, 0.9).stops is stops


def test_a_part_of_the_day_costs_its_part() -> None:
    share = Range(0.4, 0.5, 0.6)
    assert loss(share, 8, 0.25, 2, 0.9).gpu_hours.expected == loss(share, 8, 1, 2, 0.9).gpu_hours.expected / 4


@given(st.floats(0, 1), st.integers(2, 100_000), st.floats(0.01, 100), st.floats(1.1, 10))
def test_money_is_linear_in_the_price(share: float, gpus: int, price: float, times: float) -> None:
    one, more = (loss(Range(0, share, 1), gpus, 1, p, 0.9).dollars for p in (price, price * times))
    assert one is not None
    assert more is not None
    assert more.expected == pytest.approx(times * one.expected)
    assert one.low <= one.expected <= one.high
