"""What the user may add to the input, and the size of one gradient synchronisation."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SYNC_BYTES = 10**9
DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # tf32 is a way to compute; it is stored as fp32


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
