"""`ibv_devinfo`, with `-v` too: RDMA devices and their ports.

Its transport says `InfiniBand` of RoCE as well: only the link layer tells. Speed is that of one lane.
"""

from __future__ import annotations

from ncclcheck.readers.telemetry.adapter_blocks import AdapterBlocks
from ncclcheck.readers.telemetry.rdma_words import gid
from ncclcheck.readers.telemetry.reader import Fields

_MELLANOX, _AMAZON = 0x02C9, 0x1D0F


class IbvDevinfo(AdapterBlocks):
    kind = grammar = "ibv_devinfo"

    def __init__(self) -> None:
        super().__init__()
        self._vendor = 0
        self._lanes = 0.0

    def take_device(self, line: int, fields: Fields) -> bool:
        self._vendor = 0
        return super().take_device(line, fields)

    def take_firmware(self, line: int, fields: Fields) -> None:
        if fields["firmware"].strip("0."):
            self.of_device(line, "firmware", fields["firmware"])

    def take_vendor(self, line: int, fields: Fields) -> None:
        self._vendor = int(fields["vendor"], 16)
        if self._vendor == _AMAZON:
            self.of_device(line, "adapter", "EFA")

    def take_part(self, line: int, fields: Fields) -> None:
        if self._vendor == _MELLANOX:
            self.of_device(line, "adapter", f"MT{fields['part']}")

    def take_port(self, line: int, fields: Fields) -> bool:
        self._lanes = 0.0
        return super().take_port(line, fields)

    def take_brief(self, line: int, fields: Fields) -> bool:
        if not self.take_port(line, fields):
            return False
        if mtu := fields.get("brief", "").partition("=")[2]:
            self.of_port(line, "mtu_max", mtu, float(mtu))
        return self.take_state(line, fields)

    def take_maximum(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "mtu_max", fields["mtu"], float(fields["mtu"]))

    def take_mtu(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "mtu", fields["mtu"], float(fields["mtu"]))

    def take_width(self, line: int, fields: Fields) -> bool:
        self._lanes = float(fields["lanes"])
        return self.of_port(line, "lanes", fields["lanes"], self._lanes)

    def take_speed(self, line: int, fields: Fields) -> bool:
        rate = self._lanes * float(fields["speed"])
        return not rate or self.of_port(line, "rate_gbit", f"{rate:g}", rate)

    def take_gid(self, line: int, fields: Fields) -> bool:
        if not self.port:
            return False
        name = f"{self.port}/{int(fields['index'])}"
        self.tell(line, "gid", name, "address", gid(fields["address"]))
        if version := fields.get("version"):
            self.tell(line, "gid", name, "version", version[-2:])
        return True
