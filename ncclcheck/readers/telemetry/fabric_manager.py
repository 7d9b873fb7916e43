"""The fabric manager's log: what failed, and errors of NVSwitches. Teams of multicast that come and go are NVLS."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.bus_ids import bus_id
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_FAILURES = ("ERROR", "CRITICAL", "FATAL")
# Handles and UUIDs of devices.
_IDENTIFIER = re.compile(r"\b(?:GPU-)?[0-9a-f]{8}-[0-9a-f-]{20,}|\b(?:0x)?[0-9a-f]{16}\b|\b[0-9]{15,}\b", re.I)
_LONGEST = 200


class FabricManager(LineReader):
    kind = "fabric-manager"
    grammar = "fabric_manager"

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def read(self, number: int, text: str) -> bool:
        if super().read(number, text):
            self._begun = True
            return True
        return self._begun and text.startswith("Message payload details:")

    def take_switch_error(self, line: int, fields: Fields) -> None:
        self.tell(line, "pci", bus_id(fields["address"]), "sxid", fields["fatality"], float(fields["number"]))

    def take_message(self, line: int, fields: Fields) -> None:
        if fields["level"] in _FAILURES:
            text = _IDENTIFIER.sub("...", fields["text"])[:_LONGEST].strip()
            self.tell(line, "host", "", "fabric_manager", text)
