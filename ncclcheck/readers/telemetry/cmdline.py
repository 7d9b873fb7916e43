"""/proc/cmdline: what the kernel was told of the IOMMU."""

from __future__ import annotations

from ncclcheck.readers.telemetry.iommu import ENABLED, mode_of
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class Cmdline(LineReader):
    kind = grammar = "cmdline"

    def __init__(self) -> None:
        super().__init__()
        self._read = False

    def take_line(self, line: int, fields: Fields) -> bool:
        if self._read:
            return False  # another machine's
        self._read = True
        mode = mode_of(fields["rest"])
        if mode == ENABLED:
            self.tell(line, "host", "", "iommu_enabled", "yes")
        elif mode:
            self.tell(line, "host", "", "iommu", mode)
        return True
