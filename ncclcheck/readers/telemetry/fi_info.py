"""`fi_info`: devices that libfabric's provider efa finds. Domains bear the device's name and the type of endpoint."""

from __future__ import annotations

from ncclcheck.readers.telemetry.reader import Fields, LineReader


class FiInfo(LineReader):
    kind = grammar = "fi_info"

    def __init__(self) -> None:
        super().__init__()
        self._provider = ""

    def take_provider(self, line: int, fields: Fields) -> None:
        self._provider = fields["provider"]

    def take_domain(self, line: int, fields: Fields) -> None:
        port = f"{fields['domain'].removesuffix('-rdm').removesuffix('-dgrm')}/1"
        if self._provider == "efa" and not self.has_told("adapter", port):
            self.tell(line, "port", port, "adapter", "EFA")

    def take_rest(self, line: int, fields: Fields) -> None:
        """Versions and types of endpoints."""
