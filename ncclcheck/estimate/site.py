"""The constants of a site: a few numbers of the hardware table that differ from place to place, in a file of their own.

A site file is TOML with one table, `[constants]`: paths of hardware.toml and their values. `ncclcheck estimate
--calibrate` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import NamedTuple

from ncclcheck.estimate.hardware_table import constant, hardware_with
from ncclcheck.estimate.model import Model

_NETWORKS = ("ib", "roce", "efa", "slingshot", "tcpx", "tcpxo", "other")
BOUNDS: Mapping[str, tuple[float, float]] = {
    **{f"networks.{name}.share": (0.05, 1.0) for name in _NETWORKS},
    "tcp.few_gpus_gbps": (0.05, 50.0),
    "tcp.many_gpus_gbps": (0.05, 50.0),
    "tcp.tuned_gbps": (0.05, 100.0),
    "tcp.line_share": (0.05, 1.0),
    "tcp.line_share_many": (0.05, 1.0),
    **{f"pcie.ring_shm.{generation}": (0.02, 0.9) for generation in (3, 4, 5, 6)},
    "redirect.acs_rail_gbps": (0.5, 100.0),
}
"""Constants that a site may have of its own, and what they can be: shares, and GB/s of 10^9 bytes."""


class Site(NamedTuple):
    """constants: by their paths in hardware.toml. name: of the file."""

    name: str
    constants: Mapping[str, float]

    @property
    def text(self) -> str:
        """`networks.ib.share 0.91 (shipped 0.96)`, of each."""
        told = (f"{path} {value:.3g} (shipped {constant(path):.3g})" for path, value in self.constants.items())
        return ", ".join(told) or "no constants"

    def model(self) -> Model:
        return Model(hardware_with(self.constants, self.name), site=f"{self.name}: {self.text}")


def read_site(name: str, text: str) -> Site:
    """Raises ValueError with a sentence for what is no site file."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"not TOML: {error}") from None
    constants = document.pop("constants", None)
    if document or not isinstance(constants, dict):
        raise ValueError("a site file has one table, [constants]")
    for path, value in constants.items():
        if path not in BOUNDS:
            raise ValueError(f"{path[:40]!r} is no constant of a site; known: {', '.join(BOUNDS)}")
        low, high = BOUNDS[path]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"{path} is a number from {low:g} to {high:g}; got {repr(value)[:40]}")
    return Site(name, {path: float(value) for path, value in constants.items()})


def site_text(constants: Mapping[str, float], remarks: tuple[str, ...] = ()) -> str:
    """The file that `read_site` reads. remarks: sentences for its head."""
    head = ["Constants of this site for ncclcheck, in place of those of the package.", *remarks]
    lines = [f"# {line}" for line in head] + ["", "[constants]"]
    lines += [f'"{path}" = {value:.4g}  # {constant(path):g} in the package' for path, value in constants.items()]
    return "\n".join(lines) + "\n"
