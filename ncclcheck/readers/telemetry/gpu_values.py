"""Puts together what an output says of one GPU, and of all GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ncclcheck.readers.telemetry import smi_values as values
from ncclcheck.readers.telemetry.gpu_words import Word
from ncclcheck.readers.telemetry.reader import Told
from ncclcheck.readers.telemetry.smi_values import Read, bus_id

_SUMS = frozenset(("ecc_uncorrected", "ecc_corrected"))
_RESETS = ("reset", "drain-and-reset")
# Of several readings of one GPU the one under load counts; what was wrong in any of them was wrong.
_FAULTS = frozenset(
    ("lost", "remap_pending", "remap_failed", "retire_pending", "hw_thermal_slowdown", "hw_power_brake", "sw_power_cap",
     "sw_thermal_slowdown")
)  # fmt: skip


class GpuValues:
    """One GPU at one time: values as they come, then what they say together. instances: of MIG."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instances: list[int] = []  # lines
        self._told: dict[str, Told] = {}
        self._health: dict[str, tuple[int, str]] = {}
        self._resets: dict[str, tuple[int, str]] = {}

    def take(self, line: int, word: Word, text: str) -> None:
        """A value as printed."""
        if values.is_lost(text):
            self.tell(line, "lost", Read("yes"))
        elif values.needs_reset(text):
            self.tell(line, "recovery_action", Read("reset"))
        elif (read := word.read(text)) is None:
            return
        elif word.key.startswith("health "):
            self._health[word.key.removeprefix("health ")] = (line, read.text)
        elif word.key in _RESETS:
            self._resets[word.key] = (line, read.text)
        else:
            self.tell(line, word.key, read)

    def tell(self, line: int, key: str, read: Read) -> None:
        known = self._told.get(key)
        if known is None:
            self._told[key] = Told(line, "gpu", self.name, key, *read)
        elif key in _SUMS:
            total = (known.number or 0) + (read.number or 0)
            self._told[key] = Told(
                line if read.number and not known.number else known.line, "gpu", self.name, key, f"{total:g}", total
            )
        elif (key in _FAULTS and known.text != read.text == "yes") or (
            key == "recovery_action" and known.text == "none"
        ):
            self._told[key] = Told(line, "gpu", self.name, key, *read)

    def number(self, key: str) -> float | None:
        told = self._told.get(key)
        return told.number if told else None

    def text(self, key: str) -> str:
        told = self._told.get(key)
        return told.text if told else ""

    def add_faults(self, other: GpuValues) -> None:
        """What was wrong at another time."""
        for told in other.all():
            if told.key in _FAULTS and told.text == "yes":
                self.tell(told.line, told.key, Read("yes"))

    def all(self) -> Iterator[Told]:
        yield from self._told.values()
        if self._resets and "recovery_action" not in self._told:
            action = next((name for name in reversed(_RESETS) if self._resets.get(name, (0, ""))[1] == "yes"), "none")
            line = self._resets.get(action, next(iter(self._resets.values())))[0]
            yield Told(line, "gpu", self.name, "recovery_action", action)
        if self._health:
            yield Told(*self._fabric_health())
        if self.instances:
            count = len(self.instances)
            yield Told(self.instances[0], "gpu", self.name, "mig_instances", str(count), count)

    def _fabric_health(self) -> tuple[int, str, str, str, str]:
        bad = {name: line for name, (line, text) in self._health.items() if name != "summary" and _is_bad(name, text)}
        said = [_words(name, self._health[name][1]) for name in bad]
        line, summary = self._health.get("summary", (0, "Healthy"))
        if not bad and summary.lower() != "healthy":
            return line, "gpu", self.name, "fabric_health", summary.lower()
        line = next(iter(bad.values())) if bad else line or next(iter(self._health.values()))[0]
        return line, "gpu", self.name, "fabric_health", ", ".join(said) or "healthy"


class GpuList:
    """The GPUs of one output, in the order of printing. attached: how many the machine has, as the output says."""

    def __init__(self) -> None:
        self.attached: float | None = None
        self._gpus: dict[str, GpuValues] = {}

    @property
    def current(self) -> GpuValues | None:
        return next(reversed(self._gpus.values()), None)

    def begin(self, line: int, bus: str) -> bool:
        """A GPU by its bus id. False: it is none, or has been there: another machine's, or at another time."""
        read = bus_id(bus)
        if read is None or read.text in self._gpus:
            return False
        self._gpus[read.text] = GpuValues(read.text)
        self._gpus[read.text].tell(line, "bus_id", read)
        return True

    def all(self) -> Iterator[Told]:
        """All values; the index of each GPU where none is left out, for nvidia-smi goes by it."""
        for place, gpu in enumerate(self._gpus.values()):
            told = list(gpu.all())
            yield from told
            if self.attached == len(self._gpus):
                yield Told(told[0].line, "gpu", gpu.name, "index", str(place), place)


def _is_bad(name: str, text: str) -> bool:
    match name:
        case "bandwidth":
            return text.lower() == "degraded"
        case "incorrect configuration":
            return text.lower() not in ("none", "false")
        case _:
            return text.lower() == "true"


def _words(name: str, text: str) -> str:
    match name:
        case "bandwidth":
            return "degraded bandwidth"
        case "incorrect configuration":
            return f"incorrect configuration ({text})"
        case _:
            return name
