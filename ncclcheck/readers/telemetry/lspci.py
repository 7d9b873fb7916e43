"""`lspci`: the PCI tree. Of thousands of lines only bridges, GPUs, NICs and NVSwitches are kept."""

from __future__ import annotations

from typing import NamedTuple

from ncclcheck.readers.telemetry.bus_ids import bus_id
from ncclcheck.readers.telemetry.hypervisors import hypervisor_of_device
from ncclcheck.readers.telemetry.reader import Fields, LineReader

# Words of a class, or its number with -n.
_BRIDGES = ("PCI bridge", "0604")
_NICS = ("Ethernet controller", "Infiniband controller", "Network controller", "0200", "0207", "0280")
_GPUS = ("3D controller", "VGA compatible controller", "Display controller", "0302", "0300", "0380")
_NVSWITCHES = ("Bridge", "0680")
_NVIDIA = ("NVIDIA", "10de")


def class_of(name: str, maker: str) -> str:
    """The word of `telemetry_keys` for a class of devices as lspci names it."""
    if name in _BRIDGES:
        return "bridge"
    if name in _NICS:
        return "nic"
    if maker.startswith(_NVIDIA):
        return "gpu" if name in _GPUS else "nvswitch" if name in _NVSWITCHES else "other"
    return "other"


class _Device(NamedTuple):
    line: int
    name: str


class Lspci(LineReader):
    kind = grammar = "lspci"

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()
        self._kept: list[_Device] = []
        self._device: _Device | None = None  # whose lines are read; None: nobody's that is kept
        self._behind: dict[str, str] = {}  # the bridge by the first bus behind it
        self._denied = False

    def read(self, number: int, text: str) -> bool:
        if super().read(number, text):
            return True
        return bool(self._seen) and text[:1] in (" ", "\t")  # everything else that is told of a device

    def take_device(self, line: int, fields: Fields) -> bool:
        name = bus_id(fields["address"])
        if name in self._seen:
            return False  # the same device again: another machine's output, or another call
        self._seen.add(name)
        self._device = None
        maker = fields.get("vendor") or fields["name"]
        what = class_of(fields.get("class") or fields["number"], maker)
        guest = hypervisor_of_device(maker)
        if guest and not self.has_told("hypervisor"):
            self.tell(line, "host", "", "hypervisor", guest)
        if what == "other":
            return True
        self._device = _Device(line, name)
        self._kept.append(self._device)
        self.tell(line, "pci", name, "class", what)
        if "name" in fields:
            self.tell(line, "pci", name, "model", _model(fields))
        return True

    def take_bus(self, line: int, fields: Fields) -> bool:
        if self._device is not None:
            domain = self._device.name.partition(":")[0]
            self._behind[f"{domain}:{fields['secondary']}"] = self._device.name
        return bool(self._seen)

    def take_capability(self, line: int, fields: Fields) -> bool:
        return self._take_link(line, fields, "_max")

    def take_status(self, line: int, fields: Fields) -> bool:
        return self._take_link(line, fields, "")

    def _take_link(self, line: int, fields: Fields, end: str) -> bool:
        if not self._seen:
            self._say("lines of PCI links stand without the line of their device: `lspci -vvs ADDRESS` prints both")
            return True
        if self._device is not None and int(fields["width"]) > 0:
            self.tell(line, "pci", self._device.name, f"gts{end}", fields["speed"], float(fields["speed"]))
            self.tell(line, "pci", self._device.name, f"lanes{end}", fields["width"], float(fields["width"]))
        return True

    def take_acs(self, line: int, fields: Fields) -> bool:
        if self._device is not None:
            redirects = "+" in (fields["requests"], fields["completions"])
            self.tell(line, "pci", self._device.name, "redirect", "yes" if redirects else "no")
        return bool(self._seen)

    def take_driver(self, line: int, fields: Fields) -> bool:
        if self._device is not None:
            self.tell(line, "pci", self._device.name, "driver", fields["driver"])
        return bool(self._seen)

    def take_denied(self, line: int, fields: Fields) -> bool:
        if self._device is not None:
            self._say("lspci was not run as root: links and ACS of devices are not shown (sudo lspci -vvv)")
        return bool(self._seen)

    def close(self) -> None:
        """Who is behind whom is known when all bridges are."""
        for device in self._kept:
            domain, bus, _ = device.name.split(":")
            above = self._behind.get(f"{domain}:{bus}")
            if above is not None and above != device.name:
                self.tell(device.line, "pci", device.name, "parent", above)

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _model(fields: Fields) -> str:
    """The name; where -nn prints a number in brackets in place of what lspci does not know, in the form without."""
    name = fields["name"]
    if name.endswith(" Device") and "ids" in fields:
        return f"{name} {fields['ids'].strip(' []').partition(':')[2]}"
    return name
