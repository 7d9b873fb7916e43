"""Messages that were read in an earlier block: a job says the same things in every block, and each is parsed once."""

from __future__ import annotations

from threading import Lock

import polars as pl


class Memory:
    """Messages by number. Safe to use from several threads: two that meet a new message at once both parse it."""

    # More than any fabric gives, and all numbers are below: memory stays bounded when a hostile input makes every line
    # another message.
    MOST = 1 << 24
    _FULL = 2_000_000

    def __init__(self) -> None:
        self._texts = pl.Categorical(pl.Categories.random())
        self._held = pl.Series([""], dtype=self._texts)  # the numbers last as long as a series has them
        self._read = pl.Series(dtype=pl.Boolean)  # by number
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        return len(self._read) > self._FULL

    def recall(self, messages: pl.Series) -> tuple[pl.Series, pl.Series]:
        """The number of each message, and whether it was read before."""
        numbers = messages.cast(self._texts).to_physical().cast(pl.UInt32)
        with self._lock:
            highest = numbers.max()
            missing = highest + 1 - len(self._read) if isinstance(highest, int) else 0
            if missing > 0:
                self._read = pl.concat([self._read, pl.repeat(False, missing, eager=True)], rechunk=True)
            return numbers, self._read.gather(numbers)

    def learn(self, numbers: pl.Series) -> None:
        """The messages of these numbers are read."""
        with self._lock:
            self._read = self._read.scatter(numbers, True)
