"""`ibstatus`: states and rates of RDMA ports."""

from __future__ import annotations

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class Ibstatus(LineReader):
    kind = grammar = "ibstatus"

    def __init__(self) -> None:
        super().__init__()
        self._port = ""
        self._seen: set[str] = set()

    def take_port(self, line: int, fields: Fields) -> bool:
        port = f"{fields['device']}/{fields['port']}"
        if port in self._seen:
            return False  # the same port again: another output
        self._port = port
        self._seen.add(port)
        return True

    def take_state(self, line: int, fields: Fields) -> None:
        self._take(line, "state", rdma_words.state(fields["state"]))

    def take_physical(self, line: int, fields: Fields) -> None:
        self._take(line, "physical", rdma_words.physical(fields["state"]))

    def take_lid(self, line: int, fields: Fields) -> None:
        lid = int(fields["lid"], 16)
        self._take(line, "lid", str(lid), float(lid))

    def take_rate(self, line: int, fields: Fields) -> None:
        self._take(line, "rate_gbit", fields["rate"], float(fields["rate"]))
        if lanes := rdma_words.lanes(fields.get("speed", "")):
            self._take(line, "lanes", lanes, float(lanes))

    def take_layer(self, line: int, fields: Fields) -> None:
        if layer := rdma_words.layer(fields["layer"]):
            self._take(line, "link_layer", layer)

    def take_rest(self, line: int, fields: Fields) -> None:
        """What tells nothing of a port's health."""

    def _take(self, line: int, key: str, text: str, number: float | None = None) -> None:
        self.tell(line, "port", self._port, key, text, number)
