"""Folding and rounding."""

from __future__ import annotations

import random
import time
from math import inf, nan

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from ncclcheck.estimate.quantities import size_text, two_digits, with_range
from ncclcheck.estimate.ranges import Range
from ncclcheck.report.hosts import fold
from ncclcheck.report.job import fold_numbers


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([f"gpu-{i:03d}" for i in range(1, 65)], "gpu-[001-064]"),
        (["a"], "a"),
        ([], ""),
        (["b", "a", "b", ""], "a,b"),
        (["n3", "n1", "login"], "n[1,3],login"),
        (["n1", "n01"], "n[1,01]"),
        ([f"r{r}-n{n}" for r in (1, 2) for n in range(8)], "r[1-2]-n[0-7]"),
        ([f"r{r:02d}-n{n}.site" for r in range(40) for n in range(4)], None),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["x[1-3]", "x[4-5]", "@all", "a,b", "n1!n2"], "@all,a,b,n1!n2,x[1-3],x[4-5]"),
        (["n" + "9" * 5000 + "x1", "n" + "9" * 5000 + "x2", "n1"], None),
    ],
)
def test_fold(names: list[str], folded: str | None) -> None:
    result = fold(names)
    if folded is not None:
        assert result == folded
    assert len(result) <= sum(len(name) + 1 for name in names)


@given(st.lists(st.from_regex(r"\A[a-z]{1,2}[0-9]{1,3}(-[0-9]{1,2})?[a-z]?\Z"), max_size=130))
def test_folding_loses_no_host(names: list[str]) -> None:
    assert set(NodeSet(fold(names), resolver=RESOLVER_NOGROUP)) == set(names)


def test_thousands_of_scattered_names_are_quick() -> None:
    dice = random.Random(1)
    names = [f"ip-10-{dice.randrange(4)}-{dice.randrange(256)}-{dice.randrange(256)}" for _ in range(4000)]
    start = time.perf_counter()
    fold(names)
    assert time.perf_counter() - start < 1


@given(st.lists(st.text(max_size=8), max_size=8))
def test_fold_takes_any_name(names: list[str]) -> None:
    assert isinstance(fold(names), str)


def test_fold_numbers() -> None:
    assert fold_numbers(["3", "0", "1", "7", "NET/0", "7"]) == "0-1,3,7,NET/0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(48.31, "48"), (2.46, "2.5"), (487.0, "490"), (0.0423, "0.042"), (1.0, "1.0"), (0.996, "1.0"), (99.6, "100"),
     (9.96, "10"),      (0.0, "0"), (12345.0, "12000"),
     (1e-9, "0.0000000010"), (inf, "unbounded"), (nan, "unknown"), (-2.0, "-2.0")],
)  # fmt: skip
def test_two_digits(value: float, text: str) -> None:
    assert two_digits(value) == text


def test_ranges_and_sizes() -> None:
    assert with_range(Range(15, 19, 24.4), "x") == "19x (15x-24x)"
    assert with_range(Range(2, 2.01, 2.04)) == "2.0"
    assert [size_text(size) for size in (140 * 10**9, 10**9, 1500, 12)] == ["140 GB", "1 GB", "1.5 kB", "12 B"]
