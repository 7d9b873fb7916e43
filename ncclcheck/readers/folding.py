"""Events of which a log may hold millions that are all but alike.

The messages of channel lines differ in the channel, those of collectives in their number, in the communicator's
pointer and in addresses that no rule asks for. What differs becomes a number beside the record, and the messages become
few.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl


class _Fold(NamedTuple):
    """numbers: fields that are kept with each record, with their base. dropped: fields that are not kept."""

    numbers: dict[str, int]
    dropped: tuple[str, ...] = ()


_FOLDS = {
    "channel_connect": _Fold({"channel": 10}),
    "collective": _Fold({"op_count": 16, "comm": 16}, ("sendbuff", "recvbuff", "stream_ptr")),
}


def fold(event: str, rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The records of an event and its messages (both with `_text`), with one message for all that differ in those
    numbers only: `rows` then has them as columns of their names."""
    if event not in _FOLDS:
        return rows, texts
    numbers, dropped = _FOLDS[event]
    values = [
        pl.col(name).str.extract("([0-9A-Fa-f]+)$").str.to_integer(base=base, strict=False)
        for name, base in numbers.items()
    ]
    rows = rows.join(texts.select("_text", *values), on="_text", how="left", maintain_order="left")
    return _joined(rows, texts.drop(*numbers, *dropped, strict=False))


def fold_again(event: str, rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same for what several blocks gave."""
    return _joined(rows, texts) if event in _FOLDS else (rows, texts)


def _joined(rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Messages that read alike become the first of them."""
    fields = [name for name in texts.columns if name != "_text"]
    looks = texts.unique(fields, keep="first", maintain_order=True)
    if looks.height == texts.height:
        return rows, texts
    firsts = texts.join(looks, on=fields, how="left", nulls_equal=True, maintain_order="left", suffix="_first")
    rows = rows.join(firsts.select("_text", "_text_first"), on="_text", how="left", maintain_order="left")
    return rows.drop("_text").rename({"_text_first": "_text"}), looks
