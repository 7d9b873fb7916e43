"""Sentences that nvidia-smi prints in place of an output, and `nvidia-smi --version`."""

from __future__ import annotations

from ncclcheck.readers.telemetry.reader import Fields, LineReader
from ncclcheck.readers.telemetry.smi_values import bus_id


class NvidiaSmiSays(LineReader):
    kind = "nvidia-smi-says"
    grammar = "nvidia_smi_says"

    def take_unreachable(self, line: int, fields: Fields) -> bool:
        bus = bus_id(fields["which"].split(" ")[-1].removeprefix("GPU"))
        if bus is None:
            return False
        self.tell(line, "gpu", bus.text, "bus_id", bus.text)
        self.tell(line, "gpu", bus.text, "lost", "yes")
        return True

    def take_mismatch(self, line: int, fields: Fields) -> bool:
        return self._once(line, "driver_mismatch", "yes")

    def take_no_matrix(self, line: int, fields: Fields) -> bool:
        return self._once(line, "topology_failed", "yes")

    def take_driver(self, line: int, fields: Fields) -> bool:
        return self._once(line, "driver", fields["version"])

    def take_cuda(self, line: int, fields: Fields) -> bool:
        return self._once(line, "cuda", fields["version"])

    def take_tool(self, line: int, fields: Fields) -> bool:
        return True

    take_nvml = take_library = take_tool

    def _once(self, line: int, key: str, text: str) -> bool:
        if self.has_told(key):
            return False
        self.tell(line, "host", "", key, text)
        return True
