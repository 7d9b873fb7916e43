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
        self._forms = pl.Series(dtype=pl.Int32)  # by number: an index into the shapes, null where it was not read
        self._shapes: dict[str, int] = {}
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        return len(self._forms) > self._FULL

    def recall(self, messages: pl.Series) -> tuple[pl.Series, pl.Series]:
        """The number of each message, and its shape if it was read before, else null."""
        numbers = messages.cast(self._texts).to_physical().cast(pl.UInt32)
        with self._lock:
            highest = numbers.max()
            missing = highest + 1 - len(self._forms) if isinstance(highest, int) else 0
            if missing > 0:
                new = pl.repeat(None, missing, dtype=pl.Int32, eager=True)
                self._forms = pl.concat([self._forms, new], rechunk=True)
            forms, shapes = self._forms.gather(numbers), pl.Series(list(self._shapes), dtype=pl.String)
        return numbers, shapes.gather(forms)

    def learn(self, numbers: pl.Series, shapes: pl.Series) -> None:
        """These messages are read. shapes: of each."""
        with self._lock:
            index = {shape: self._shapes.setdefault(shape, len(self._shapes)) for shape in shapes.unique()}
            self._forms = self._forms.scatter(numbers, shapes.replace_strict(index, return_dtype=pl.Int32))
