"""`lspci -t`, `lspci -tv`: the PCI tree as a drawing. What hangs where is told by columns, so no grammar reads it.

-+-[0000:40]---01.0-[41-44]----00.0-[42-44]--+-00.0-[43]----00.0  NVIDIA Corporation Device 2330
 |                                           \\-01.0-[44]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 \\-[0000:00]-+-00.0  Intel Corporation Device 09a2
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ncclcheck.readers.telemetry.bus_ids import bus_id
from ncclcheck.readers.telemetry.reader import Reader

_TOKEN = re.compile(
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|(?P<device>[0-9a-f]{2}\.[0-7])|[+\\-]"
)
_DRAWING = re.compile(r"[ |+\\-]*(?:\[[0-9a-f:-]{2,20}\]|[0-9a-f]{2}\.[0-7]|[+\\-])+")
_NAMED = re.compile(r"(?:NVIDIA|Mellanox) .*|.*(?:ConnectX|BlueField|Elastic Fabric Adapter).*")
_NIC = re.compile(r"ConnectX|BlueField|Elastic Fabric Adapter|MT\d{4,5} Family")


class _Branch(NamedTuple):
    """A bus with several devices: `domain:bus`, and the bridge above it ("" on a root bus)."""

    bus: str
    above: str


class LspciTree(Reader):
    kind = "lspci-tree"

    def __init__(self) -> None:
        super().__init__()
        self._branches: dict[int, _Branch] = {}  # by the column of their `+`
        self._seen: set[str] = set()
        self._bridges: set[str] = set()

    def read(self, number: int, text: str) -> bool:
        drawing = _DRAWING.match(text)
        if drawing is None or not re.search(r"\[|\.[0-7]", drawing[0]):
            return text.strip() in ("|", "+", "-")
        domain, branch, device, waiting = "0000", None, "", None
        for token in _TOKEN.finditer(drawing[0]):
            if token["bus"]:
                domain = token["domain"] or (branch.bus.partition(":")[0] if branch else domain)
                waiting = _Branch(f"{domain}:{token['bus']}", "" if token["domain"] else device)
                if device and waiting.above:
                    self._tell_bridge(number, device)
                branch = waiting
            elif token["device"]:
                if branch is None:
                    return False
                device = bus_id(f"{branch.bus}:{token['device']}")
                if device in self._seen:
                    return False  # another machine's tree
                self._seen.add(device)
                if branch.above:
                    self.tell(number, "pci", device, "parent", branch.above)
            elif token[0] == "+" and waiting is not None:
                self._branches[token.start()] = waiting
            elif token[0] in "+\\" and token.start() in self._branches:
                branch = self._branches[token.start()]
        self._name(number, device, text[drawing.end() :].strip())
        return True

    def _tell_bridge(self, number: int, device: str) -> None:
        if device not in self._bridges:
            self._bridges.add(device)
            self.tell(number, "pci", device, "class", "bridge")

    def _name(self, number: int, device: str, name: str) -> None:
        if device and device not in self._bridges and _NAMED.fullmatch(name):
            if _NIC.search(name):
                self.tell(number, "pci", device, "class", "nic")
            self.tell(number, "pci", device, "model", name)
