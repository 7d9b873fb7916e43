"""Durations, sizes, prices and counts as people write them on a command line, and numbers as they read them.

Every parser raises ValueError with a sentence that says what was given and what is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor, isfinite, isinf, log10

from ncclcheck.estimate.ranges import Range

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,2})?"
_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1.0, "b": 1.0}
_BYTES |= {f"{letter}b": 10.0**power for letter, power in zip("kmgtp", (3, 6, 9, 12, 15), strict=True)}
_BYTES |= {f"{letter}ib": 2.0**power for letter, power in zip("kmgtp", (10, 20, 30, 40, 50), strict=True)}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}

# Below this a number for people is nothing.
_NOTHING = 1e-9

LONGEST_SECONDS = 3.2e9  # a century


def parse_duration(text: str) -> float:
    """Seconds: "90", "90s", "1.5h", "1h30m", "250ms", "2d"; a bare number is seconds. 1 us to a century."""
    parts = re.findall(r"[^a-z]+[a-z]+", text.strip(), re.IGNORECASE)
    together = "".join(parts) == text.strip()  # 1h30m
    values = [_one(part, _SECONDS) for part in parts] if together else [_one(text, _SECONDS)]
    return _in_range(
        sum(values) if all(values) else 0.0,
        1e-6,
        LONGEST_SECONDS,
        f"cannot read {text!r} as a duration; write 90s, 10m, 6h or 2d",
    )


def parse_size(text: str) -> float:
    """Bytes: "140GB", "80 GiB", "700MB", "1e9"; a bare number is bytes. GB are 10^9, GiB are 2^30."""
    return _in_range(
        _one(text, _BYTES), 1, 1e21, f"cannot read {text!r} as a size; write 700MB, 140GB, 80GiB or 1e9 (bytes)"
    )


def parse_price(text: str) -> float:
    """Dollars per GPU and hour: "2.5" or "$2.50". Above 0, up to 100 thousand."""
    value = _one(text.strip().removeprefix("$"), {"": 1.0})
    return _in_range(value, 1e-6, 1e5, f"cannot read {text!r} as a price per GPU and hour; write 2.50")


def parse_params(text: str) -> float:
    """A number of parameters: "70B", "405b", "350M", "7e9", "1.5T"."""
    return _in_range(
        _one(text, _COUNTS), 1, 1e15, f"cannot read {text!r} as a number of parameters; write 70B, 350M or 7e9"
    )


def between(value: float, low: float, high: float, what: str) -> float:
    """`value` itself, if it is a number from low to high. what: its name for people ("--gpus")."""
    return _in_range(value, low, high, f"{what} is a number from {low:g} to {high:g}; got {value:g}")


def _in_range(value: float, low: float, high: float, otherwise: str) -> float:
    if not (isfinite(value) and low <= value <= high):
        raise ValueError(otherwise)
    return value


def _one(text: str, units: Mapping[str, float]) -> float:
    """A number times its unit; 0 if `text` is something else."""
    found = re.fullmatch(rf"\s*({_NUMBER})\s*([a-z]*)\s*", text, re.IGNORECASE | re.ASCII)
    return float(found[1]) * units.get(found[2].lower(), 0.0) if found else 0.0


def duration_text(seconds: float) -> str:
    """Three digits in the unit that people would use: "42 ms", "294 s", "38.2 min", "6 h", "2.5 d"."""
    for unit, size, least in (("d", 86400, 2), ("h", 3600, 2), ("min", 60, 10), ("s", 1, 1), ("ms", 1e-3, 1)):
        if seconds >= least * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def size_text(size: float) -> str:
    """Bytes for people, in powers of ten: "1 GB", "140 GB", "700 MB"."""
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def count_text(count: float) -> str:
    """A number of parameters: "70B", "1.5B", "350M"."""
    for unit, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.4g}{unit}"
    return f"{count:g}"


def rate_text(gbps: float) -> str:
    """Three digits, no exponent."""
    return f"{gbps:.0f}" if gbps >= 100 else f"{gbps:.3g}"


def percent_text(share: Range) -> str:
    """A range of shares: "60 to 90 %"."""
    return f"{100 * share.low:.3g} to {100 * share.high:.3g} %"


def two_digits(value: float) -> str:
    """48.31 -> 48, 2.46 -> 2.5, 487 -> 490, 0.0423 -> 0.042."""
    if not isfinite(value):
        return "unbounded" if isinf(value) else "unknown"
    rounded = float(f"{value:.1e}")
    if abs(rounded) < _NOTHING:
        return "0"
    decimals = max(0, 1 - floor(log10(abs(rounded))))
    return f"{rounded:.{decimals}f}"


def with_range(value: Range, unit: str = "") -> str:
    """`2.5 (2.0-3.1)`, with the unit behind each number where it is a mere letter (`19x (15x-24x)`)."""
    low, expected, high = (two_digits(number) for number in (value.low, value.expected, value.high))
    return f"{expected}{unit}" if low == high else f"{expected}{unit} ({low}{unit}-{high}{unit})"
