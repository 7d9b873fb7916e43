"""Events of which a log may hold millions that are all but alike.

The messages of channel lines differ in the channel, those of collectives in their number, in the communicator's
pointer and in addresses that no rule asks for. What differs becomes a number beside the record, and the messages become
few. Channels are most of all lines: their number is taken out before anything else is done with a message.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.readers.distinct import Distinct


class _Fold(NamedTuple):
    """numbers: fields that are kept with each record, with their base. dropped: fields that are not kept."""

    numbers: dict[str, int]
    dropped: tuple[str, ...] = ()


_FOLDS = {
    "channel_connect": _Fold({"channel": 10}),
    "ring_order": _Fold({"channel": 10}),
    "collective": _Fold({"op_count": 16, "comm": 16}, ("sendbuff", "recvbuff", "stream_ptr")),
}


# `Channel 07/0 : ...`, `Channel 07 : ...`: what stands before the number, with it, and all of it as one text.
_WORD, _NUMBERED, _CHANNEL = "Channel ", "Channel 00", "^Channel [0-9]{2}[/ ]"


class Channels(NamedTuple):
    """numbers: the channel of each row, null for lines of no channel. are_numbered: whether each distinct message was
    taken from channel lines."""

    numbers: pl.Series
    are_numbered: pl.Series


def without_channels(messages: pl.Series) -> tuple[Distinct, Channels | None]:
    """The messages, those of channel lines as if they were of channel 00; and the channels, if there are any."""
    rows = pl.DataFrame({"message": messages}).with_columns(numbered=messages.str.contains(_CHANNEL))
    numbered = rows.get_column("numbered")
    if not numbered.any():
        return Distinct.of(messages), None
    message = pl.col("message")
    rows = rows.select(
        "numbered",
        channel=pl.when("numbered").then(message.str.slice(len(_WORD), 2).cast(pl.Int32, strict=False)),
        rest=pl.when("numbered").then(message.str.slice(len(_NUMBERED))).otherwise(message),
    )
    rests = Distinct.of(rows.get_column("rest"))
    first = numbered.gather(rests.codes.arg_unique())
    if (rests.spread(first) != numbered).any():  # a torn line that reads like the rest of another
        return Distinct.of(messages), None
    values = pl.select(pl.when(first).then(pl.lit(_NUMBERED) + rests.values).otherwise(rests.values)).to_series()
    return Distinct(rests.codes, values), Channels(rows.get_column("channel"), first)


def fold(event: str, rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The records of an event and its messages (both with `_text`), with one message for all that differ in those
    numbers only: `rows` then has them as columns of their names. rows: with `_channel` of `without_channels`."""
    if event not in _FOLDS:
        return rows.drop("_channel", strict=False), texts
    numbers, dropped = _FOLDS[event]
    if "channel" in numbers and rows.get_column("_channel").null_count() == 0:
        return rows.rename({"_channel": "channel"}), texts.drop("channel", strict=False)
    values = [
        pl.col(name).str.extract("([0-9A-Fa-f]+)$").str.to_integer(base=base, strict=False)
        for name, base in numbers.items()
    ]
    rows = rows.join(texts.select("_text", *values), on="_text", how="left", maintain_order="left")
    if "channel" in numbers:
        rows = rows.with_columns(channel=pl.coalesce("_channel", "channel").cast(pl.Int32, strict=False))
    return merged(rows.drop("_channel", strict=False), texts.drop(*numbers, *dropped, strict=False))


def merged(rows: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Messages that read alike become the first of them."""
    fields = [name for name in texts.columns if name != "_text"]
    looks = texts.unique(fields, keep="first", maintain_order=True)
    if looks.height == texts.height:
        return rows, texts
    firsts = texts.join(looks, on=fields, how="left", nulls_equal=True, maintain_order="left", suffix="_first")
    rows = rows.join(firsts.select("_text", "_text_first"), on="_text", how="left", maintain_order="left")
    return rows.with_columns(_text=pl.coalesce("_text_first", "_text")).drop("_text_first"), looks
