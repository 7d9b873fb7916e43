"""`nvidia-smi --query-gpu=... --format=csv`: one row per GPU, and again with `-l`. The header says what a column is."""

from __future__ import annotations

import re

from ncclcheck.readers.device_names import PRODUCT
from ncclcheck.readers.telemetry.gpu_samples import GpuSamples
from ncclcheck.readers.telemetry.gpu_values import GpuValues
from ncclcheck.readers.telemetry.gpu_words import CLOCK_REASONS, words_of
from ncclcheck.readers.telemetry.reader import Reader
from ncclcheck.readers.telemetry.smi_values import Read, bus_id, number, phrase, uuid

_ALL_REASONS = re.compile(r"clocks_(?:event|throttle)_reasons\.active$")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}$")
_FIELD = re.compile(r"([A-Za-z][\w.-]{0,80})(?: \[[\w/%]{1,12}\])?$")
_WITH_UNIT = re.compile(r"[0-9.]+ (?:MiB|W|%|MHz)$")
_NAME = re.compile(PRODUCT, re.I)


class NvidiaSmiCsv(Reader):
    kind = "nvidia-smi-csv"

    def __init__(self) -> None:
        super().__init__()
        self._words = words_of("csv")
        self._fields: list[str] = []
        self._samples = GpuSamples()
        self._order: list[str] = []  # GPUs of rows that neither number nor address names
        self._header: list[str] = []
        self._bare = False

    def read(self, number: int, text: str) -> bool:
        cells = [cell.strip() for cell in text.split(",")]
        if self._bare:
            return _is_row(cells)
        if not self._fields:
            return self._take_header(cells)
        if cells == self._header:
            return True  # again, with `-l`
        if len(cells) != len(self._fields):
            return False
        return self._take_row(number, dict(zip(self._fields, cells, strict=True)))

    def _take_header(self, cells: list[str]) -> bool:
        names = [_FIELD.match(cell) for cell in cells]
        fields = [name[1] for name in names if name]
        if len(fields) == len(cells) == len(set(fields)) and set(fields) & set(self._words):
            self._header, self._fields = cells, fields
            return True
        self._bare = _is_row(cells)
        return self._bare

    def _take_row(self, line: int, row: dict[str, str]) -> bool:
        name = self._name_of(row)
        if name is None:
            return False
        gpu = GpuValues(name)
        for field, text in row.items():
            if field in self._words:
                gpu.take(line, self._words[field], text)
            elif _ALL_REASONS.match(field) and _MASK.match(text):
                mask = int(text, 16)
                for bit, key in CLOCK_REASONS.items():
                    gpu.tell(line, key, Read("yes" if mask & bit else "no"))
        self._samples.add(gpu)
        driver = phrase(row.get("driver_version", ""))
        if driver and not self.has_told("driver"):
            self.tell(line, "host", "", "driver", driver.text)
        return True

    def _name_of(self, row: dict[str, str]) -> str | None:
        """Which GPU it is; None: this is no such row."""
        model = next((row[field] for field in ("name", "gpu_name") if field in row), None)
        if model is not None and not _NAME.match(model) and phrase(model):
            return None
        bus = next((read for field in ("pci.bus_id", "gpu_bus_id") if (read := bus_id(row.get(field, "")))), None)
        if bus:
            return bus.text
        index = number(row.get("index", ""))
        if index:
            return f"gpu{index.text}"
        mark = next((read for field in ("uuid", "gpu_uuid") if (read := uuid(row.get(field, "")))), None)
        mark_or_place = mark.text if mark else str(len(self._order))
        if mark_or_place not in self._order:
            self._order.append(mark_or_place)
        return f"gpu{self._order.index(mark_or_place)}"

    def close(self) -> None:
        self.told += self._samples.all()
        if self._bare:
            self.notes.append(
                "rows of nvidia-smi --query-gpu without a header: nothing says what a column is; leave out noheader"
            )


def _is_row(cells: list[str]) -> bool:
    """Values of a GPU: its address or identifier among them, or its name beside a value with a unit."""
    named = any(_NAME.match(cell) for cell in cells)
    return len(cells) > 1 and any(bus_id(cell) or uuid(cell) or (named and _WITH_UNIT.match(cell)) for cell in cells)
