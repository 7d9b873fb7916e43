"""What a kernel's command line makes of the IOMMU."""

from __future__ import annotations

_OFF = {"iommu=off", "intel_iommu=off", "amd_iommu=off", "iommu=soft"}
_PASSES = {"iommu=pt", "iommu.passthrough=1", "iommu.passthrough=y", "iommu.passthrough=on"}
_TRANSLATES = {"iommu.passthrough=0", "iommu.passthrough=n", "iommu=nopt"}
_ON = {"intel_iommu=on", "iommu=force", "amd_iommu=on"}
ENABLED = "enabled"


def mode_of(command_line: str) -> str:
    """ "off", "passthrough", "translated"; ENABLED where the line switches the IOMMU on, and the kernel's own default
    decides what it does (mostly it translates); "" where the line says nothing."""
    words = {word for whole in command_line.split() for word in _single(whole)}
    modes = ((_OFF, "off"), (_PASSES, "passthrough"), (_TRANSLATES, "translated"), (_ON, ENABLED))
    return next((mode for known, mode in modes if words & known), "")


def _single(word: str) -> list[str]:
    """`intel_iommu=on,sm_on` sets two things."""
    name, _, values = word.lower().partition("=")
    return [f"{name}={value}" for value in values.split(",")]
