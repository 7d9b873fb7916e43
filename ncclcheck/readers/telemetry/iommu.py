"""What a kernel's command line makes of the IOMMU."""

from __future__ import annotations

_OFF = {"iommu=off", "intel_iommu=off", "amd_iommu=off", "iommu=soft"}
_PASSES = {"iommu=pt", "iommu.passthrough=1", "iommu.passthrough=y", "iommu.passthrough=on"}
_ON = {"intel_iommu=on", "iommu.passthrough=0", "iommu=nopt", "iommu=force"}


def mode_of(command_line: str) -> str:
    """ "off", "passthrough", "translated" where the line asks for it; "" where the kernel's own default decides."""
    words = {word for whole in command_line.split() for word in _single(whole)}
    if words & _OFF:
        return "off"
    if words & _PASSES:
        return "passthrough"
    return "translated" if words & _ON else ""


def _single(word: str) -> list[str]:
    """`intel_iommu=on,sm_on` sets two things."""
    name, _, values = word.lower().partition("=")
    return [f"{name}={value}" for value in values.split(",")]
