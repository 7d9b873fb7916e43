"""/sys/class/infiniband as a list of files and contents, as `grep -r .` prints it: states and counters of ports.

What is told of a device (adapter, firmware) is told of each of its ports, which may stand in lines above or below it.
"""

from __future__ import annotations

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class SysfsInfiniband(LineReader):
    kind = "sysfs infiniband"
    grammar = "sysfs_infiniband"

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, ...]] = set()
        self._of_devices: list[tuple[int, str, str, str]] = []  # line, device, key and text
        self._ports: dict[str, list[str]] = {}

    def take_counter(self, line: int, fields: Fields) -> bool:
        if not self._is_new(fields, fields["counter"]):
            return False
        self.tell(line, "counter", self._port(fields), fields["counter"], fields["count"], float(fields["count"]))
        return True

    def take_state(self, line: int, fields: Fields) -> bool:
        return self._take(line, fields, "state", rdma_words.state(fields["state"]))

    def take_physical(self, line: int, fields: Fields) -> bool:
        return self._take(line, fields, "physical", rdma_words.physical(fields["state"]))

    def take_rate(self, line: int, fields: Fields) -> bool:
        if not self._take(line, fields, "rate_gbit", fields["rate"], float(fields["rate"])):
            return False
        lanes = rdma_words.lanes(fields.get("speed", ""))
        return not lanes or self._take(line, fields, "lanes", lanes, float(lanes))

    def take_lid(self, line: int, fields: Fields) -> bool:
        lid = int(fields["lid"], 16)
        return self._take(line, fields, "lid", str(lid), float(lid))

    def take_layer(self, line: int, fields: Fields) -> bool:
        layer = rdma_words.layer(fields["layer"])
        return not layer or self._take(line, fields, "link_layer", layer)

    def take_adapter(self, line: int, fields: Fields) -> bool:
        return self._take_of_device(line, fields, "adapter", fields["adapter"])

    def take_firmware(self, line: int, fields: Fields) -> bool:
        return self._take_of_device(line, fields, "firmware", fields["firmware"])

    def take_guid(self, line: int, fields: Fields) -> bool:
        guid = rdma_words.guid(fields["guid"])
        return not guid or self._take_of_device(line, fields, "guid", guid)

    def take_rest(self, line: int, fields: Fields) -> None:
        """Files that tell nothing of a port's health."""

    def close(self) -> None:
        for line, device, key, text in self._of_devices:
            for port in self._ports.get(device, ()):
                self.tell(line, "port", port, key, text)

    def _port(self, fields: Fields) -> str:
        port = f"{fields['device']}/{fields['port']}"
        ports = self._ports.setdefault(fields["device"], [])
        if port not in ports:
            ports.append(port)
        return port

    def _is_new(self, fields: Fields, key: str) -> bool:
        """The same file again is another reading."""
        what = (fields["device"], fields.get("port", ""), key)
        new = what not in self._seen
        self._seen.add(what)
        return new

    def _take(self, line: int, fields: Fields, key: str, text: str, number: float | None = None) -> bool:
        if not self._is_new(fields, key):
            return False
        self.tell(line, "port", self._port(fields), key, text, number)
        return True

    def _take_of_device(self, line: int, fields: Fields, key: str, text: str) -> bool:
        if not self._is_new(fields, key):
            return False
        self._of_devices.append((line, fields["device"], key, text))
        return True
