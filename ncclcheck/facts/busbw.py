"""Bus bandwidth as nccl-tests counts it: algbw (message bytes per second) times a factor of collective and ranks.

Source: nccl-tests doc/PERFORMANCE.md.
"""

from __future__ import annotations

# Every rank has a part of its own.
SHARED = frozenset({"all_gather", "reduce_scatter", "all_to_all", "all_to_allv", "gather", "scatter", "hypercube"})


def busbw_factor(collective: str, ranks: int) -> float:
    """busbw / algbw. collective: as the estimate and the fact tables name it."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in SHARED else 1.0
