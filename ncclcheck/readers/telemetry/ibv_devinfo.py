"""`ibv_devinfo`, with `-v` too: RDMA devices and their ports.

Its transport says `InfiniBand` of RoCE as well: only the link layer tells. Speed is that of one lane.
"""

from __future__ import annotations

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_MELLANOX, _AMAZON = 0x02C9, 0x1D0F


class IbvDevinfo(LineReader):
    kind = grammar = "ibv_devinfo"

    def __init__(self) -> None:
        super().__init__()
        self._device = ""
        self._port = ""
        self._vendor = 0
        self._lanes = 0.0
        self._of_device: list[tuple[int, str, str]] = []  # line, key and text, told of each port
        self._seen: set[str] = set()

    def take_device(self, line: int, fields: Fields) -> bool:
        if fields["device"] in self._seen:
            return False  # the same device again: another output
        self._device, self._port, self._vendor, self._of_device = fields["device"], "", 0, []
        self._seen.add(self._device)
        return True

    def take_firmware(self, line: int, fields: Fields) -> None:
        if fields["firmware"].strip("0."):
            self._of_device.append((line, "firmware", fields["firmware"]))

    def take_guid(self, line: int, fields: Fields) -> None:
        if guid := rdma_words.guid(fields["guid"]):
            self._of_device.append((line, "guid", guid))

    def take_vendor(self, line: int, fields: Fields) -> None:
        self._vendor = int(fields["vendor"], 16)
        if self._vendor == _AMAZON:
            self._of_device.append((line, "adapter", "EFA"))

    def take_part(self, line: int, fields: Fields) -> None:
        if self._vendor == _MELLANOX:
            self._of_device.append((line, "adapter", f"MT{fields['part']}"))

    def take_port(self, line: int, fields: Fields) -> bool:
        if not self._device:
            return False
        self._port, self._lanes = f"{self._device}/{fields['port']}", 0.0
        for told in self._of_device:
            self.tell(told[0], "port", self._port, *told[1:])
        return True

    def take_brief(self, line: int, fields: Fields) -> bool:
        if not self.take_port(line, fields):
            return False
        if mtu := fields.get("brief", "").partition("=")[2]:
            self._take(line, "mtu_max", mtu, float(mtu))
        return self.take_state(line, fields)

    def take_state(self, line: int, fields: Fields) -> bool:
        return self._take(line, "state", rdma_words.state(fields["state"]))

    def take_physical(self, line: int, fields: Fields) -> bool:
        return self._take(line, "physical", rdma_words.physical(fields["physical"]))

    def take_maximum(self, line: int, fields: Fields) -> bool:
        return self._take(line, "mtu_max", fields["mtu"], float(fields["mtu"]))

    def take_mtu(self, line: int, fields: Fields) -> bool:
        return self._take(line, "mtu", fields["mtu"], float(fields["mtu"]))

    def take_lid(self, line: int, fields: Fields) -> bool:
        return self._take(line, "lid", fields["lid"], float(fields["lid"]))

    def take_layer(self, line: int, fields: Fields) -> bool:
        layer = rdma_words.layer(fields["layer"])
        return not layer or self._take(line, "link_layer", layer)

    def take_width(self, line: int, fields: Fields) -> bool:
        self._lanes = float(fields["lanes"])
        return self._take(line, "lanes", fields["lanes"], self._lanes)

    def take_speed(self, line: int, fields: Fields) -> bool:
        rate = self._lanes * float(fields["speed"])
        return not rate or self._take(line, "rate_gbit", f"{rate:g}", rate)

    def take_gid(self, line: int, fields: Fields) -> bool:
        if not self._port:
            return False
        name = f"{self._port}/{int(fields['index'])}"
        self.tell(line, "gid", name, "address", fields["address"].lower())
        if version := fields.get("version"):
            self.tell(line, "gid", name, "version", version[-2:])
        return True

    def take_rest(self, line: int, fields: Fields) -> bool:
        return bool(self._device)

    def _take(self, line: int, key: str, text: str, number: float | None = None) -> bool:
        if not self._port:
            return False
        self.tell(line, "port", self._port, key, text, number)
        return True
