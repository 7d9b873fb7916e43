"""`rdma link` and `rdma statistic` of iproute2: states of RDMA ports, their interfaces and counters."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_LID = re.compile(r" lid (\d+)")


class _Rdma(LineReader):
    grammar = "rdma"

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def _is_new(self, port: str) -> bool:
        """The same port again is another output."""
        new = port not in self._seen
        self._seen.add(port)
        return new


class RdmaLink(_Rdma):
    kind = "rdma link"

    def take_link(self, line: int, fields: Fields) -> bool:
        port = f"{fields['device']}/{fields['port']}"
        if not self._is_new(port):
            return False
        if lid := _LID.search(fields.get("subnet", fields.get("before", ""))):
            self.tell(line, "port", port, "lid", lid[1], float(lid[1]))
        self.tell(line, "port", port, "state", rdma_words.state(fields["state"]))
        self.tell(line, "port", port, "physical", rdma_words.physical(fields["physical"]))
        if netdev := fields.get("netdev"):
            self.tell(line, "port", port, "netdev", netdev.split()[1])
        return True

    take_old_link = take_link


class RdmaStatistic(_Rdma):
    kind = "rdma statistic"

    def take_statistic(self, line: int, fields: Fields) -> bool:
        port = f"{fields['device']}/{fields['port']}"
        if not self._is_new(port):
            return False
        words = fields["counters"].split()
        for name, value in zip(words[::2], words[1::2], strict=True):
            self.tell(line, "counter", port, name, value, float(value))
        return True
