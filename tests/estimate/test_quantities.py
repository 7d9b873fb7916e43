"""Durations, sizes, prices and counts: what is read, and what is refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclcheck.estimate.quantities import (
    between,
    duration_text,
    parse_duration,
    parse_params,
    parse_price,
    parse_size,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("10 min", 600),
        ("6h", 21600),
        ("1.5H", 5400),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        ("2d", 172800),
        ("250ms", 0.25),
        ("40us", 4e-5),
        (" 8.4 s ", 8.4),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("140GB", 140e9),
        ("140 gb", 140e9),
        ("80GiB", 80 * 2**30),
        ("700MB", 7e8),
        ("12kB", 12e3),
        ("1.12TB", 1.12e12),
        ("1e9", 1e9),
        ("16B", 16),
    ],
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == pytest.approx(size)


@pytest.mark.parametrize(("text", "price"), [("2.5", 2.5), ("$2.50", 2.5), (" 98 ", 98)])
def test_prices(text: str, price: float) -> None:
    assert parse_price(text) == price


@pytest.mark.parametrize("text", ["", "0", "0s", "-3", "nan", "inf", "5x", "1.2.3", "10m30", "1h30", "s", "1e30", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as a duration; write 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "5G", "1GB2GB", "nan", "1e30", "GB", "0.5"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as a size; write 700MB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "2 dollars", "nan", "1e30", "$", "2,50"])
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="as a price per GPU and hour"):
        parse_price(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    for parse in (parse_duration, parse_size, parse_price, parse_params):
        try:
            assert parse(text) > 0
        except ValueError as error:
            assert "cannot read" in str(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, 1e30])
def test_a_number_out_of_range_is_named(value: float) -> None:
    with pytest.raises(ValueError, match="--gpus is a number from 1 to 1e\\+06; got"):
        between(value, 1, 1e6, "--gpus")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3e-6, "3 us"),
        (0.0418, "41.8 ms"),
        (1, "1 s"),
        (293.9, "294 s"),
        (2277, "38 min"),
        (21600, "6 h"),
        (2e5, "2.31 d"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(140e9, "140 GB"), (687.2e9, "687 GB"), (327680, "328 kB"), (3, "3 B")])
def test_sizes_for_people(size: float, text: str) -> None:
    assert size_text(size) == text
