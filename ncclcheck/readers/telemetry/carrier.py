"""Carriers of network interfaces that came and went, as systemd-networkd and the kernel log it.

carrier_lost counts the losses so far.
"""

from __future__ import annotations

import re
from collections import Counter

from ncclcheck.readers.telemetry.reader import Fields, LineReader

_HOST = re.compile(r"(?:[A-Z][a-z]{2} +\d{1,2} [\d:]{8}|\d{4}-\d\d-\d\d[T ]\S+) (\S+) (?:systemd-networkd|kernel)\b")


class Carrier(LineReader):
    kind = grammar = "carrier"

    def __init__(self) -> None:
        super().__init__()
        self._lost: Counter[tuple[str | None, str]] = Counter()

    def take_lost(self, line: int, fields: Fields) -> None:
        host, netdev = self._host(fields), fields["netdev"]
        self._lost[host, netdev] += 1
        count = self._lost[host, netdev]
        self.tell(line, "netdev", netdev, "carrier_lost", str(count), float(count), host=host)
        self.tell(line, "netdev", netdev, "link", "no", host=host)

    def take_gained(self, line: int, fields: Fields) -> None:
        self.tell(line, "netdev", fields["netdev"], "link", "yes", host=self._host(fields))

    def _host(self, fields: Fields) -> str | None:
        found = _HOST.search(fields.get("before", ""))
        return found[1] if found else None
