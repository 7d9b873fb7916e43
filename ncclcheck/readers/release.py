"""NCCL releases as comparable numbers: 2.18.3 is 21803, as in ncclGetVersion since 2.9."""

from __future__ import annotations

import polars as pl

# `2.18.3`, `2.22.3+cuda12.5`
_PARTS = r"^(\d{1,3})\.(\d{1,3})\.(\d{1,3})"


def code(text: str) -> int:
    """`"2.18.3"` -> 21803. Raises ValueError for anything else."""
    major, minor, patch = (int(part) for part in text.split("."))
    return major * 10000 + minor * 100 + patch


def code_of(column: pl.Expr) -> pl.Expr:
    """The same for a column of version texts; null where the text does not begin with a release."""
    part = [column.str.extract(_PARTS, group).cast(pl.Int32) for group in (1, 2, 3)]
    return part[0] * 10000 + part[1] * 100 + part[2]
