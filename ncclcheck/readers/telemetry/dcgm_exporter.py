"""What dcgm-exporter publishes of GPUs for Prometheus, and the list of counters that it is configured with."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.bus_ids import bus_id
from ncclcheck.readers.telemetry.gpu_words import CLOCK_REASONS
from ncclcheck.readers.telemetry.prometheus import MetricsReader, Sample
from ncclcheck.readers.telemetry.reader import Reader

_NUMBERS = {
    "GPU_UTIL": "utilization_pct", "ECC_DBE_VOL_TOTAL": "ecc_uncorrected", "ECC_SBE_VOL_TOTAL": "ecc_corrected",
    "PCIE_LINK_GEN": "pcie_gen", "PCIE_MAX_LINK_GEN": "pcie_gen_max", "PCIE_LINK_WIDTH": "pcie_lanes",
    "PCIE_MAX_LINK_WIDTH": "pcie_lanes_max", "PSTATE": "performance_state",
}  # fmt: skip
_FLAGS = {"ROW_REMAP_FAILURE": "remap_failed", "ROW_REMAP_PENDING": "remap_pending",
          "RETIRED_PENDING": "retire_pending"}  # fmt: skip
_WORDS = {
    "PERSISTENCE_MODE": ("persistence", ("disabled", "enabled")),
    "MIG_MODE": ("mig", ("disabled", "enabled")),
    "VIRTUAL_MODE": ("virtualization", ("none", "pass-through", "vgpu", "host-vgpu", "host-vsga")),
    "FABRIC_MANAGER_STATUS": ("fabric_state", ("not-supported", "not-started", "in-progress", "completed")),
}
# The exporter's names of why clocks are low.
_EVENTS = {"power_cap": "sw_power_cap", "sw_thermal": "sw_thermal_slowdown", "hw_thermal": "hw_thermal_slowdown",
           "hw_power_brake": "hw_power_brake"}  # fmt: skip
_COUNTER = re.compile(r"PCIE_REPLAY_COUNTER|NVLINK_\w+_ERROR_COUNT_\w+|\w+_VIOLATION|\w+CORRECTABLE_REMAPPED_ROWS")
# DCGM's values for "there is none", "not supported" and the like, as 32 and 64 bits and as a floating point number.
_BLANKS = ((2147483632, 2147483647), (140737488355328, 140737488355343), (9.223372036854775e18, 9.224e18))


class DcgmExporter(MetricsReader):
    kind, prefix = "dcgm-exporter", "DCGM_"

    def __init__(self) -> None:
        super().__init__()
        self._identified: dict[str | None, set[str]] = {}  # GPUs by host
        # of MIG: by host and GPU, the line that names each first
        self._instances: dict[tuple[str | None, str], dict[str, int]] = {}
        self._host: str | None = None  # of the line at hand: a collection may hold those of many

    def take(self, sample: Sample) -> bool:
        labels = sample.labels
        self._host = labels.get("Hostname") or labels.get("hostname")
        index = labels.get("gpu", "")
        if not re.fullmatch(r"\d{1,3}", index, re.ASCII):
            return bool(self.told)
        gpu = f"gpu{int(index)}"
        self._identify(sample, gpu)
        if "GPU_I_ID" in labels:
            self._instances.setdefault((self._host, gpu), {}).setdefault(labels["GPU_I_ID"], sample.line)
        if sample.value is not None and not any(low <= sample.value <= high for low, high in _BLANKS):
            self._value(sample, gpu, sample.value)
        return True

    def close(self) -> None:
        for (host, gpu), lines in self._instances.items():
            self._host = host
            line = min(lines.values())
            self._say(line, "gpu", gpu, "mig", "enabled")
            self._say(line, "gpu", gpu, "mig_instances", str(len(lines)), float(len(lines)))

    def _say(self, line: int, thing: str, name: str, key: str, text: str, number: float | None = None) -> None:
        self.tell(line, thing, name, key, text, number, host=self._host)

    def _identify(self, sample: Sample, gpu: str) -> None:
        known = self._identified.setdefault(self._host, set())
        if gpu in known:
            return
        first_of_host = not known
        known.add(gpu)
        labels = sample.labels
        for label, key in (("UUID", "uuid"), ("modelName", "model")):
            if labels.get(label):
                self._say(sample.line, "gpu", gpu, key, labels[label][:100])
        if bus := bus_id(labels.get("pci_bus_id", "")):
            self._say(sample.line, "gpu", gpu, "bus_id", bus)
        driver = labels.get("DCGM_FI_DRIVER_VERSION", "")
        if re.fullmatch(r"[\d.]{3,20}", driver, re.ASCII) and first_of_host:
            self._say(sample.line, "host", "", "driver", driver)

    def _value(self, sample: Sample, gpu: str, value: float) -> None:
        line, name = sample.line, sample.metric.removeprefix("DCGM_FI_DEV_")
        if sample.metric.startswith("DCGM_EXP_"):
            self._counted(sample, gpu, value)
        elif name in _NUMBERS:
            self._say(line, "gpu", gpu, _NUMBERS[name], f"{value:g}", value)
        elif name in _FLAGS:
            self._say(line, "gpu", gpu, _FLAGS[name], "yes" if value else "no")
        elif name in _WORDS:
            key, words = _WORDS[name]
            if value in range(len(words)):
                self._say(line, "gpu", gpu, key, words[int(value)])
        elif name in ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS", "CLOCKS_EVENTS_REASONS"):
            for bit, key in CLOCK_REASONS.items():
                self._say(line, "gpu", gpu, key, "yes" if int(value) & bit else "no")
        elif name == "XID_ERRORS":  # the last one since the exporter began
            if value:
                self._say(line, "gpu", gpu, "xid", f"{value:g}", value)
        elif _COUNTER.fullmatch(name):
            self._say(line, "counter", gpu, name.lower(), f"{value:g}", value)

    def _counted(self, sample: Sample, gpu: str, value: float) -> None:
        """What the exporter itself counts; a label tells what."""
        event, xid = sample.labels.get("clock_event", ""), sample.labels.get("xid", "")
        if sample.metric == "DCGM_EXP_CLOCK_EVENTS_COUNT" and event in _EVENTS:
            self._say(sample.line, "gpu", gpu, _EVENTS[event], "yes" if value else "no")
        elif sample.metric == "DCGM_EXP_XID_ERRORS_COUNT" and value and re.fullmatch(r"\d{1,4}", xid, re.ASCII):
            self._say(sample.line, "gpu", gpu, "xid", xid, float(xid))


class DcgmCounters(Reader):
    """The exporter's own list of what to publish. It says nothing of a machine: it is known, and that is all."""

    kind = "dcgm-counters"

    def read(self, number: int, text: str) -> bool:
        return text.startswith(("DCGM_", "#")) or not text.strip()
