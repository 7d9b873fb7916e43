"""`nvidia-smi dmon` and `nvidia-smi pmon`: columns by the names in the header, which options and releases choose."""

from __future__ import annotations

from ncclcheck.readers.telemetry.gpu_samples import GpuSamples
from ncclcheck.readers.telemetry.gpu_values import GpuValues
from ncclcheck.readers.telemetry.reader import Reader
from ncclcheck.readers.telemetry.smi_values import Read, number

_MOST_COLUMNS = 80


class _Monitor(Reader):
    """Rows of numbers under two lines of titles, which are printed again from time to time."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[str] = []
        self._samples = GpuSamples()

    def read(self, number: int, text: str) -> bool:
        words = text.split()
        if text.lstrip().startswith("#"):
            titles = [word.lower() for word in text.replace("#", " ", 1).split()]
            if "gpu" not in titles:
                return "idx" in titles  # the line of units
            if self._columns and titles != self._columns:
                return False  # another output
            self._columns = titles[:_MOST_COLUMNS]
            return True
        row = dict(zip(self._columns, words, strict=False))
        return bool(self._columns) and row.get("gpu", "").isdecimal() and self.take(number, words, row)

    def take(self, line: int, words: list[str], row: dict[str, str]) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        self.told += self._samples.all()

    def gpu(self, line: int, row: dict[str, str]) -> GpuValues:
        index = int(row["gpu"][:4])
        gpu = GpuValues(f"gpu{index}")
        gpu.tell(line, "index", Read(str(index), index))
        return gpu


class Dmon(_Monitor):
    kind = "nvidia-smi-dmon"

    def take(self, line: int, words: list[str], row: dict[str, str]) -> bool:
        if len(words) != len(self._columns) or not all(_is_cell(word) for word in words):
            return False
        gpu = self.gpu(line, row)
        if load := number(row.get("sm", "")):
            gpu.tell(line, "utilization_pct", load)
        # share of time under the power limit, and whether heat lowered the clocks
        for column, key in (("pviol", "sw_power_cap"), ("tviol", "sw_thermal_slowdown")):
            if violated := number(row.get(column, "")):
                gpu.tell(line, key, Read("yes" if violated.number else "no"))
        self._samples.add(gpu)
        return True


class Pmon(_Monitor):
    """Of each process its share; together they are the GPU's load. A process seen again begins another round."""

    kind = "nvidia-smi-pmon"

    def __init__(self) -> None:
        super().__init__()
        self._round: dict[tuple[str, str], tuple[int, float]] = {}

    def take(self, line: int, words: list[str], row: dict[str, str]) -> bool:
        pid = row.get("pid", "")
        if not _is_cell(pid) or len(words) < len(self._columns):
            return False
        if (row["gpu"], pid) in self._round:
            self._end_round()
        load = number(row.get("sm", ""))
        self._round[row["gpu"], pid] = (line, (load.number or 0.0) if load else -1.0)
        return True

    def _end_round(self) -> None:
        for index in dict.fromkeys(index for index, _ in self._round):
            mine = [told for (other, _), told in self._round.items() if other == index]
            gpu = self.gpu(mine[0][0], {"gpu": index})
            known = [load for _, load in mine if load >= 0]
            if known:
                total = min(sum(known), 100.0)
                gpu.tell(mine[0][0], "utilization_pct", Read(f"{total:g}", total))
            self._samples.add(gpu)
        self._round = {}

    def close(self) -> None:
        self._end_round()
        super().close()


def _is_cell(word: str) -> bool:
    return word == "-" or number(word) is not None or word[:2].isdecimal()  # a date or a time
