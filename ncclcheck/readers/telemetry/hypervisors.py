"""Hypervisors, by one name whoever names them: devices of lspci, the kernel, lscpu."""

from __future__ import annotations

# What stands in the texts -> the name.
_NAMES = {"kvm": "KVM", "qemu": "KVM", "virtio": "KVM", "vmware": "VMware", "hyper-v": "Hyper-V",
          "microsoft": "Hyper-V", "xen": "Xen"}  # fmt: skip
# Devices that only guests have; makers of others are on bare metal as well.
_DEVICES = ("qemu", "virtio", "vmware", "hyper-v")


def hypervisor(text: str) -> str:
    """The one name, or the text itself."""
    return next((name for mark, name in _NAMES.items() if mark in text.lower()), text)


def hypervisor_of_device(name: str) -> str:
    """ "" of a device that is not emulated."""
    return hypervisor(name) if any(mark in name.lower() for mark in _DEVICES) else ""
