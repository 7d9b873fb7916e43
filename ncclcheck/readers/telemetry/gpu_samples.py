"""GPUs that one output tells of again and again: rows of `--query-gpu -l`, of `dmon`, of `pmon`."""

from __future__ import annotations

from collections.abc import Iterator

from ncclcheck.readers.telemetry.gpu_values import GpuValues
from ncclcheck.readers.telemetry.reader import Told

_LOAD = "utilization_pct"


class GpuSamples:
    """Of each GPU the time with the most load counts: links and clocks of an idle GPU tell nothing."""

    def __init__(self) -> None:
        self._best: dict[str, GpuValues] = {}

    def add(self, sample: GpuValues) -> None:
        known = self._best.get(sample.name)
        if known is None:
            self._best[sample.name] = sample
            return
        busier = (sample.number(_LOAD) or 0) > (known.number(_LOAD) or 0)
        best, other = (sample, known) if busier else (known, sample)
        best.add_faults(other)
        self._best[sample.name] = best

    def all(self) -> Iterator[Told]:
        for gpu in self._best.values():
            yield from gpu.all()
