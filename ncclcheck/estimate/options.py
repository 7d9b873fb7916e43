"""What the user may add to the input, and the size of one gradient synchronisation."""

from __future__ import annotations

from dataclasses import dataclass

from ncclcheck.estimate.quantities import LONGEST_SECONDS, between
from ncclcheck.estimate.training.parallelism import MOST_RANKS, Plan

NIC_GBIT = (0.001, 10_000.0)  # what a NIC's rate can be: beyond that it is a slip of the pen
DEFAULT_SYNC_BYTES = 10**9
DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # tf32 is a way to compute; it is stored as fp32

_PRICES = ("gpu_price", "day_share")

# Name of a field for people, lowest and highest value.
_LIMITS = {
    "zero": ("--zero", 0, 3),
    "tokens_per_gpu": ("--tokens-per-gpu", 1, 1e9),
    "step_seconds": ("--step-time in seconds", 1e-6, LONGEST_SECONDS),
    "gpu_price": ("--gpu-price", 1e-6, 1e5),
    "micro_batches": ("--micro-batches", 1, MOST_RANKS),
    "layers": ("--layers", 1, 10_000),
    "hidden": ("--hidden", 1, 1e6),
    "mfu": ("--mfu", 0.001, 1),
    "active_params": ("--active-params", 1, 1e15),
    "experts_per_token": ("--top-k", 1, 1000),
    "day_share": ("--day-share", 0.001, 1),
}


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """gpu: class or device name; nic_gbit: rate of one NIC as sold, Gb/s (`--nic-gbps 400`); params: parameters whose
    gradients are synchronised (None: one message of 10^9 bytes); dtype: of the gradients.

    The rest describes a training step, None where it is not given. plan: how ranks are divided (None: data parallel).
    zero: stage 0 to 3. tokens_per_gpu: tokens of a step divided by the GPUs. step_seconds: as measured.
    gpu_price: dollars per GPU and hour. mfu: share of the GPU's rate that is reached while it computes. active_params:
    that a token uses. experts_per_token: of a mixture of experts. day_share: of the day in such steps.
    """

    gpu: str | None = None
    nic_gbit: float | None = None
    params: float | None = None
    dtype: str = "bf16"
    plan: Plan | None = None
    zero: int | None = None
    tokens_per_gpu: float | None = None
    step_seconds: float | None = None
    gpu_price: float | None = None
    micro_batches: int | None = None
    layers: int | None = None
    hidden: int | None = None
    mfu: float | None = None
    active_params: float | None = None
    experts_per_token: int | None = None
    day_share: float | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"unknown data type {self.dtype!r}; known: {', '.join(DTYPE_BYTES)}")
        if self.nic_gbit is not None:
            between(self.nic_gbit, *NIC_GBIT, "--nic-gbps, the rate of a NIC in Gb/s,")
        if self.params is not None and not 1 <= self.params <= 1e15:
            raise ValueError(f"a number of parameters is at least 1, such as 70e9; got {self.params:g}")
        for field, (name, low, high) in _LIMITS.items():
            value = getattr(self, field)
            if value is not None:
                between(value, low, high, name)
        self._check_together()

    def _check_together(self) -> None:
        """Options that make no sense without others."""
        if self.wants_step and self.params is None:
            given = (
                "--parallel"
                if self.plan
                else next(_LIMITS[one][0].split()[0] for one in _LIMITS if one not in _PRICES and self._has(one))
            )
            raise ValueError(f"{given} needs --params: the parameters of the model")
        if self.active_params is not None and self.params is not None and self.active_params > self.params:
            raise ValueError("--active-params are a part of --params")
        if self.plan is not None and self.plan.ep > 1 and self.active_params is None:
            raise ValueError("ep needs --active-params: how many parameters a token uses")

    def _has(self, field: str) -> bool:
        return getattr(self, field) is not None

    @property
    def wants_step(self) -> bool:
        """Is any option given that describes a training step? Jobs that stand still have a price as well."""
        return self.plan is not None or any(self._has(field) for field in _LIMITS if field not in _PRICES)

    @property
    def sync_bytes(self) -> int:
        """Bytes of one gradient synchronisation."""
        return DEFAULT_SYNC_BYTES if self.params is None else round(self.params * DTYPE_BYTES[self.dtype])
