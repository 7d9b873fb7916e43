"""A bandwidth that somebody measured with nccl-tests."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence


class Measured(NamedTuple):
    """The plateau of a collective: busbw of the largest size, measured out of place, in GB/s (10^9 bytes per second).

    collective: as the estimate names it. busbw: the middle one where the size was measured several times, between
    least and most. smallest, size: of the table, in bytes. enough: size is large enough for the plateau.
    ranks, nodes: None where the table does not tell. hosts: as the table lists them. checked: every result was right;
    False: nobody looked.
    """

    collective: str
    busbw: float
    least: float
    most: float
    smallest: int
    size: int
    enough: bool
    checked: bool
    ranks: int | None
    nodes: int | None
    hosts: tuple[str, ...]
    evidence: Evidence

    @property
    def is_plateau(self) -> bool:
        """Does it tell a bandwidth? 0.00 is less than the table's digits tell."""
        return self.enough and self.least > 0

    @property
    def where(self) -> str:
        """`measured 387 at 8 GiB, run.log:120`."""
        return f"measured {self.busbw:.4g} at {binary_size(self.size)}, {self.evidence.path}:{self.evidence.line}"


def binary_size(count: int) -> str:
    """Bytes as nccl-tests counts message sizes: "8 GiB", "1.5 MiB", "500 B"."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
