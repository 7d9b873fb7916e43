"""`nvidia-smi` without arguments: a table of two or three lines per GPU, and one of MIG instances."""

from __future__ import annotations

from ncclcheck.readers.telemetry.gpu_values import GpuValues
from ncclcheck.readers.telemetry.reader import Fields, LineReader
from ncclcheck.readers.telemetry.smi_values import Read, bus_id, model, number, switch

_BROKEN = "ERR!"


class NvidiaSmiTable(LineReader):
    kind = "nvidia-smi-table"
    grammar = "nvidia_smi_table"

    def __init__(self) -> None:
        super().__init__()
        self._gpus: dict[str, GpuValues] = {}  # by index
        self._current: GpuValues | None = None
        self._begun = False

    def take_head(self, line: int, fields: Fields) -> bool:
        if self._begun:
            return False
        self._begun = True
        self.tell(line, "host", "", "driver", fields["driver"])
        if number(fields.get("cuda", "")):
            self.tell(line, "host", "", "cuda", fields["cuda"])
        return True

    def take_gpu(self, line: int, fields: Fields) -> bool:
        bus, index = bus_id(fields["bus"]), fields["index"]
        if bus is None or index in self._gpus:
            return False
        gpu = self._current = self._gpus[index] = GpuValues(bus.text)
        gpu.tell(line, "bus_id", bus)
        gpu.tell(line, "index", Read(index, float(index)))
        for key, read in (
            ("model", model(fields["name"])),
            ("persistence", switch(fields["persistence"])),
            ("ecc_uncorrected", number(fields["ecc"])),
        ):
            if read:
                gpu.tell(line, key, read)
        return True

    def take_state(self, line: int, fields: Fields) -> bool:
        gpu = self._current
        if gpu is None:
            return False
        if _BROKEN in (fields["temperature"], fields["state"]):  # a fan or a power sensor alone may fail
            gpu.tell(line, "lost", Read("yes"))
        for key, text in (("performance_state", fields["state"]), ("utilization_pct", fields["load"])):
            if read := number(text):
                gpu.tell(line, key, read)
        return True

    def take_mig(self, line: int, fields: Fields) -> bool:
        gpu, self._current = self._current, None
        if gpu is None:
            return False
        if read := switch(fields["mig"].rstrip("*")):  # with a star: a change waits for a reset
            gpu.tell(line, "mig", read)
        return True

    def take_instance(self, line: int, fields: Fields) -> bool:
        gpu = self._gpus.get(fields["gpu_of"])
        if gpu is None:
            return False
        gpu.instances.append(line)
        return True

    def take_border(self, line: int, fields: Fields) -> bool:
        return True

    def close(self) -> None:
        for gpu in self._gpus.values():
            self.told += gpu.all()
