"""Dumps of PyTorch's flight recorder: known, and not read. A pickle may hold anything, so none is opened here."""

from __future__ import annotations

from ncclcheck.readers.telemetry.reader import Reader

_NOTE = (
    "a dump of PyTorch's flight recorder is not read; `torchfrtrace --prefix nccl_trace_rank_ FOLDER` compares those of"
    " all ranks, and ncclcheck reads what the watchdog printed"
)


class FlightRecorder(Reader):
    kind = "flight-recorder"

    def read(self, number: int, text: str) -> bool:
        if self.notes:
            return False
        self.notes.append(_NOTE)
        return True
