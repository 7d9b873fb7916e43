"""Columns of text that repeat themselves, as numbers and the distinct texts behind them.

A log of thousands of ranks says the same things thousands of times: what is done once per distinct text costs little.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl


class Distinct(NamedTuple):
    """codes: per row the index of its text in `values`."""

    codes: pl.Series
    values: pl.Series

    @classmethod
    def of(cls, column: pl.Series) -> Distinct:
        """Of a column of strings without nulls."""
        categories = pl.Categorical(pl.Categories.random())  # of its own: gone with it
        codes = column.cast(categories).to_physical().cast(pl.UInt32)
        return cls(codes, column.gather(codes.arg_unique()))

    def spread(self, values: pl.Series) -> pl.Series:
        """What was found per distinct text, per row."""
        return values.gather(self.codes)
