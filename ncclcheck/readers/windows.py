"""The releases that an input can be of, from the form of its lines, where no line names one.

Every form of NCCL's lines is printed by some releases (`known_lines`). What prints all that an input shows is left. A
vendor's build may mix forms of several releases: where nothing is left nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from ncclcheck.readers.known_lines import known_lines

# Shapes of an input that are looked at. NCCL has about two thousand; more are somebody else's.
MOST_SHAPES = 4_000


def window(shapes: Iterable[str]) -> tuple[int | None, int | None]:
    """The first and the last release that print all of these shapes at INFO; None: open, or unknown."""
    lows, highs = [0], [_OPEN]
    for shape in shapes:
        found = known_lines().find(shape, "INFO")
        if found:
            lows.append(found.first or 0)
            highs.append(found.last or _OPEN)
    low, high = max(lows), min(highs)
    if low > high:
        return None, None
    return low or None, None if high == _OPEN else high


_OPEN = 1 << 30
