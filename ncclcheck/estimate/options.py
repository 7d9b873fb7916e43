"""What the user may add to the input, and the size of one gradient synchronisation."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_SYNC_BYTES = 10**9
DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # tf32 is a way to compute; it is stored as fp32
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """gpu: class or device name; nic_gbit: rate of one NIC as sold, Gb/s (`--nic-gbps 400`); params: parameters whose
    gradients are synchronised (None: one message of 10^9 bytes); dtype: of the gradients."""

    gpu: str | None = None
    nic_gbit: float | None = None
    params: float | None = None
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"unknown data type {self.dtype!r}; known: {', '.join(DTYPE_BYTES)}")
        if self.nic_gbit is not None and not 0 < self.nic_gbit <= 10_000:
            raise ValueError(f"a NIC rate in Gb/s is a number above 0, such as 400; got {self.nic_gbit:g}")
        if self.params is not None and not 1 <= self.params <= 1e15:
            raise ValueError(f"a number of parameters is at least 1, such as 70e9; got {self.params:g}")

    @property
    def sync_bytes(self) -> int:
        """Bytes of one gradient synchronisation."""
        return DEFAULT_SYNC_BYTES if self.params is None else round(self.params * DTYPE_BYTES[self.dtype])


def parse_params(text: str) -> float:
    """A number of parameters: "70B", "405b", "350M", "7e9", "1.5T". Raises ValueError with what is accepted."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d{1,2})?\s*([kmbt]?)\s*", text, re.IGNORECASE)
    value = float(match[1] + (match[2] or "")) * _UNITS[match[3].lower()] if match else 0.0
    if not 1 <= value <= 1e15:
        raise ValueError(f"cannot read {text!r} as a number of parameters; write 70B, 350M or 7e9")
    return value


def size_text(size: int) -> str:
    """Bytes for people, in powers of ten: "1 GB", "140 GB", "700 MB"."""
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"
