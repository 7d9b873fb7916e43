"""What `ibstat` and `ibv_devinfo` have in common: a block per RDMA adapter, and in it a block per port."""

from __future__ import annotations

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class AdapterBlocks(LineReader):
    """What stands above the ports (`of_device`) is told of each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.device = ""
        self.port = ""
        self._of_device: list[tuple[int, str, str]] = []  # line, key and text
        self._seen: set[str] = set()

    def take_device(self, line: int, fields: Fields) -> bool:
        if fields["device"] in self._seen:
            return False  # the same device again: another output
        self.device, self.port, self._of_device = fields["device"], "", []
        self._seen.add(self.device)
        return True

    def of_device(self, line: int, key: str, text: str) -> None:
        self._of_device.append((line, key, text))

    def of_port(self, line: int, key: str, text: str, number: float | None = None) -> bool:
        """False: no port has begun."""
        if not self.port:
            return False
        self.tell(line, "port", self.port, key, text, number)
        return True

    def take_guid(self, line: int, fields: Fields) -> None:
        if guid := rdma_words.guid(fields["guid"]):
            self.of_device(line, "guid", guid)

    def take_port(self, line: int, fields: Fields) -> bool:
        if not self.device:
            return False
        self.port = f"{self.device}/{fields['port']}"
        for told_at, key, text in self._of_device:
            self.tell(told_at, "port", self.port, key, text)
        return True

    def take_state(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "state", rdma_words.state(fields["state"]))

    def take_physical(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "physical", rdma_words.physical(fields["physical"]))

    def take_lid(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "lid", fields["lid"], float(fields["lid"]))

    def take_layer(self, line: int, fields: Fields) -> bool:
        layer = rdma_words.layer(fields["layer"])
        return not layer or self.of_port(line, "link_layer", layer)

    def take_rest(self, line: int, fields: Fields) -> bool:
        return bool(self.device)
