"""How much has been read, for those who wait."""

from __future__ import annotations

from collections.abc import Iterator


class Meter:
    """doing: what the program is at. read: bytes taken from files and pipes so far; total: all that there are, None
    while nobody knows. Written by the thread that reads, looked at by another."""

    def __init__(self) -> None:
        self.start("listing")

    def start(self, doing: str, total: int | None = None) -> None:
        """From here on count anew, towards this total."""
        self.doing, self.read, self.total = doing, 0, total

    def count(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, counted as they pass."""
        for chunk in chunks:
            self.read += len(chunk)
            yield chunk
