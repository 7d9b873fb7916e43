"""`nvidia-smi nvlink -s`, `-e`, `-c`, `-R`, and `nvidia-smi -L`, whose lines stand before the links of each GPU."""

from __future__ import annotations

from ncclcheck.readers.telemetry.gpu_values import GpuValues
from ncclcheck.readers.telemetry.reader import Fields, LineReader
from ncclcheck.readers.telemetry.smi_values import Read, bus_id, number, uuid

# The counters that tell of a link: names up to NVLink 4, then those of NVLink 5. The others of NVLink 5 (raw bit
# errors, error correction) count on healthy links too.
_COUNTERS = {
    "replay errors": "replay_errors",
    "recovery errors": "recovery_errors",
    "crc errors": "crc_errors",
    "link recovery failed events": "recovery_failed",
}


class NvidiaSmiNvlink(LineReader):
    kind = "nvidia-smi-nvlink"
    grammar = "nvidia_smi_nvlink"

    def __init__(self) -> None:
        super().__init__()
        self._gpus: dict[str, GpuValues] = {}
        self._gpu: GpuValues | None = None

    def take_gpu(self, line: int, fields: Fields) -> bool:
        name, identifier = f"gpu{int(fields['index'])}", uuid(fields.get("uuid", ""))
        known = self._gpus.get(name)
        if known is not None:
            # status and errors in one text begin with the same list, and so does a second reading: of counters the
            # last value is the newest. Another UUID is another machine's
            if fields["name"] != known.text("model") or (identifier and identifier.text != known.text("uuid")):
                return False
            self._gpu = known
            return True
        gpu = self._gpu = self._gpus[name] = GpuValues(name)
        gpu.tell(line, "index", Read(name.removeprefix("gpu"), float(fields["index"])))
        gpu.tell(line, "model", Read(fields["name"]))
        if identifier:
            gpu.tell(line, "uuid", identifier)
        return True

    def take_instance(self, line: int, fields: Fields) -> bool:
        if self._gpu is None:
            return False
        self._gpu.instances.append(line)
        self._gpu.tell(line, "mig", Read("enabled"))
        return True

    def take_status(self, line: int, fields: Fields) -> bool:
        active = "rate" in fields
        if not self._tell(line, fields, "active", "yes" if active else "no"):
            return False
        if active:
            self._tell(line, fields, "rate_gbps", fields["rate"], float(fields["rate"]))
        return True

    def take_remote(self, line: int, fields: Fields) -> bool:
        bus = bus_id(fields["bus"])
        return bus is not None and self._tell(line, fields, "remote", bus.text)

    def take_counter(self, line: int, fields: Fields) -> bool:
        key, count = _COUNTERS.get(fields["counter"].lower()), number(fields["count"])
        if key is None or count is None:
            return self._gpu is not None
        return self._tell(line, fields, key, *count)

    def take_capability(self, line: int, fields: Fields) -> bool:
        return self._gpu is not None

    def take_inactive(self, line: int, fields: Fields) -> bool:
        """All links: how many there are is not said."""
        return self._tell(line, {"link": "all"}, "active", "no")

    take_none = take_capability

    def take_mig(self, line: int, fields: Fields) -> bool:
        if self._gpu is None:
            return False
        self._gpu.tell(line, "mig", Read("enabled"))
        return True

    def _tell(self, line: int, fields: Fields, key: str, text: str, value: float | None = None) -> bool:
        if self._gpu is None:
            return False
        self.tell(line, "nvlink", f"{self._gpu.name} {fields['link']}", key, text, value)
        return True

    def close(self) -> None:
        self.told = [told for gpu in self._gpus.values() for told in gpu.all()] + self.told
