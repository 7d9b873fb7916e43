"""How much has been read, for those who wait."""

from __future__ import annotations


class Meter:
    """read: bytes taken from files and pipes so far. total: all that there are, None while nobody knows."""

    def __init__(self) -> None:
        self.read = 0
        self.total: int | None = None

    def add(self, count: int) -> None:
        """So many bytes more."""
        self.read += count

    def start(self, total: int | None) -> None:
        """From here on count towards this total."""
        self.read, self.total = 0, total
