"""What stands before the level words of records, numbered: many lines of a process begin alike."""

from __future__ import annotations

import re
from threading import Lock

import polars as pl

from ncclcheck.readers import framing
from ncclcheck.readers.distinct import Distinct

_SCHEMA = {"_source": pl.UInt32, "text": pl.String, "id": pl.UInt32}


class Heads:
    """Distinct heads of all blocks so far, per input. A clock time makes heads unique, so it is split off."""

    def __init__(self) -> None:
        self._known = pl.DataFrame(schema=_SCHEMA)
        self._lock = Lock()

    def texts(self) -> list[tuple[int, str]]:
        """Input and text of each head, by its number."""
        return self._known.select("_source", "text").rows()

    def index(self, rows: pl.DataFrame, heads: Distinct) -> pl.DataFrame:
        """The rows (with `_source`) with `_head`, a number, and `_time`, as it was written. heads: of these rows."""
        times, names = _without_times(heads)
        sources = rows.get_column("_source")
        if sources.n_unique() == 1:
            pairs = pl.DataFrame({"text": names.values}).with_columns(_source=sources[0])
            numbers = names.spread(self._numbers(pairs))
        else:
            codes = rows.select("_source", code=names.codes)
            pairs = codes.unique(maintain_order=True)
            pairs = pairs.with_columns(text=names.values.gather(pairs.get_column("code")))
            pairs = pairs.with_columns(_head=self._numbers(pairs))
            numbers = codes.join(pairs, on=["_source", "code"], how="left", maintain_order="left").get_column("_head")
        return rows.with_columns(numbers.alias("_head"), heads.spread(times).alias("_time"))

    def _numbers(self, pairs: pl.DataFrame) -> pl.Series:
        pairs = pairs.select(pl.col("_source").cast(pl.UInt32), "text")
        with self._lock:
            found = pairs.join(self._known, on=["_source", "text"], how="left", maintain_order="left")
            new = found.filter(pl.col("id").is_null())
            if new.height:
                numbered = new.with_columns(id=pl.int_range(new.height, dtype=pl.UInt32) + self._known.height)
                self._known = pl.concat([self._known, numbered], rechunk=False)
                found = pairs.join(self._known, on=["_source", "text"], how="left", maintain_order="left")
        return found.get_column("id")


def without_leading_time(heads: pl.Series, levels: pl.Series) -> pl.Series:
    """The heads, those of INFO without a clock time at their beginning: where NCCL prints it on each line, it makes
    every head another one. It is left where it has another form than most."""
    time = _LEADING.match(heads[len(heads) // 2]) if len(heads) else None
    if time is None:
        return heads
    form = "^" + re.sub(r"\d", "[0-9]", re.escape(time[0]))
    same = heads.str.contains(form) & (levels == "INFO")
    return heads.str.slice(len(time[0])).zip_with(same, heads)


_LEADING = re.compile(rf"{framing.TIME} ?")


def _without_times(heads: Distinct) -> tuple[pl.Series, Distinct]:
    """Clock times per distinct head, null where it has none, and the heads without them."""
    values = heads.values
    times = values.str.extract(f"({framing.TIME})").str.strip_chars("[]")
    if times.null_count() == len(times):
        return times, heads
    bare = Distinct.of(values.str.replace(_LEADING.pattern, ""))
    return times, Distinct(bare.codes.gather(heads.codes), bare.values)
