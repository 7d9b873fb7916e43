"""Events of which a log may hold millions that are all but alike.

The messages of channel lines differ in the channel, those of collectives in their number and in addresses that no rule
asks for. What differs becomes a number beside the record, and the messages become few.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl


class _Fold(NamedTuple):
    """number: the field that is kept with each record, an integer to `base`. dropped: fields that are not kept."""

    number: str
    base: int
    dropped: tuple[str, ...] = ()


_FOLDS = {
    "channel_connect": _Fold("channel", 10),
    "collective": _Fold("op_count", 16, ("sendbuff", "recvbuff", "stream_ptr")),
}


def fold(event: str, rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The records of an event and its messages (both with `_text`), with one message for all that differ in the
    number only: `rows` then has it as a column of its name."""
    if event not in _FOLDS:
        return rows, texts
    number, base, dropped = _FOLDS[event]
    texts = texts.drop(dropped, strict=False)
    look = [name for name in texts.columns if name not in ("_text", number)]
    looks = texts.select("_text", *look).unique(look, keep="first", maintain_order=True)
    numbers = pl.col(number).str.extract("([0-9A-Fa-f]+)$").str.to_integer(base=base, strict=False)
    folded = texts.join(looks, on=look, how="left", nulls_equal=True, maintain_order="left", suffix="_look")
    folded = folded.select("_text", _look="_text_look", **{number: numbers.cast(pl.Int64)})
    rows = rows.join(folded, on="_text", how="left", maintain_order="left")
    return rows.drop("_text").rename({"_look": "_text"}), looks
