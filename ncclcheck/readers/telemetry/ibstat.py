"""`ibstat`: RDMA adapters and their ports.

It stops in the middle where a device cannot be opened (`ibpanic`): what it printed before that stands.
"""

from __future__ import annotations

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class Ibstat(LineReader):
    kind = grammar = "ibstat"

    def __init__(self) -> None:
        super().__init__()
        self._device = ""
        self._port = ""
        self._of_device: list[tuple[int, str, str]] = []  # line, key and text, told of each port
        self._seen: set[str] = set()

    def take_device(self, line: int, fields: Fields) -> bool:
        if fields["device"] in self._seen:
            return False  # the same device again: another output
        self._device, self._port, self._of_device = fields["device"], "", []
        self._seen.add(self._device)
        return True

    def take_adapter(self, line: int, fields: Fields) -> None:
        self._of_device.append((line, "adapter", fields["adapter"]))

    def take_firmware(self, line: int, fields: Fields) -> None:
        self._of_device.append((line, "firmware", fields["firmware"]))

    def take_guid(self, line: int, fields: Fields) -> None:
        if guid := rdma_words.guid(fields["guid"]):
            self._of_device.append((line, "guid", guid))

    def take_port(self, line: int, fields: Fields) -> bool:
        if not self._device:
            return False
        self._port = f"{self._device}/{fields['port']}"
        for told in self._of_device:
            self.tell(told[0], "port", self._port, *told[1:])
        return True

    def take_state(self, line: int, fields: Fields) -> bool:
        return self._take(line, "state", rdma_words.state(fields["state"]))

    def take_physical(self, line: int, fields: Fields) -> bool:
        return self._take(line, "physical", rdma_words.physical(fields["state"]))

    def take_rate(self, line: int, fields: Fields) -> bool:
        return self._take(line, "rate_gbit", fields["rate"], float(fields["rate"]))

    def take_lid(self, line: int, fields: Fields) -> bool:
        return self._take(line, "lid", fields["lid"], float(fields["lid"]))

    def take_layer(self, line: int, fields: Fields) -> bool:
        layer = rdma_words.layer(fields["layer"])
        return not layer or self._take(line, "link_layer", layer)

    def take_rest(self, line: int, fields: Fields) -> bool:
        return bool(self._device)

    def take_panic(self, line: int, fields: Fields) -> None:
        self.notes.append(f"line {line}: ibstat stopped with an error; adapters behind {self._device} are not listed")

    def _take(self, line: int, key: str, text: str, number: float | None = None) -> bool:
        if not self._port:
            return False
        self.tell(line, "port", self._port, key, text, number)
        return True
