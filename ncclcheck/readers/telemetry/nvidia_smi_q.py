"""`nvidia-smi -q`, also in parts (`-q -d CLOCK`): text whose keys mean something only under their sections."""

from __future__ import annotations

from ncclcheck.readers.telemetry.gpu_values import GpuList
from ncclcheck.readers.telemetry.gpu_words import words_of
from ncclcheck.readers.telemetry.reader import Fields, LineReader
from ncclcheck.readers.telemetry.smi_values import number, phrase

_HOST = {"Driver Version": "driver", "CUDA Version": "cuda"}
_ABOVE = frozenset(("Timestamp", "Attached GPUs", *_HOST))


class NvidiaSmiQ(LineReader):
    kind = "nvidia-smi-q"
    grammar = "nvidia_smi_q"

    def __init__(self) -> None:
        super().__init__()
        self._words = words_of("text")
        self._gpus = GpuList()
        self._begun = False
        self._margin = 0  # of a text that is indented as a whole
        self._sections: list[tuple[int, str]] = []

    def take_head(self, line: int, fields: Fields) -> bool:
        if self._begun:
            return False  # another output
        self._begun = True
        return True

    def take_gpu(self, line: int, fields: Fields) -> bool:
        if not self._gpus.begin(line, fields["bus"]):
            return False
        self._begun, self._margin, self._sections = True, self.indent, []
        return True

    def take_pair(self, line: int, fields: Fields) -> bool:
        path = self._enter(fields["key"])
        gpu = self._gpus.current
        if path is None or gpu is None:
            return self._take_above(line, fields["key"], fields["value"])
        word = self._words.get(path)
        if word is not None:
            gpu.take(line, word, fields["value"])
        elif path == "MIG Device/Index":
            gpu.instances.append(line)
        return True

    def take_empty(self, line: int, fields: Fields) -> bool:
        return self._enter(fields["key"]) is not None

    take_section = take_empty

    def _enter(self, key: str) -> str | None:
        """The path of a key below its GPU; None: it is not inside of one."""
        depth = self.indent - self._margin
        if self._gpus.current is None or depth < 1:
            return None
        while self._sections and self._sections[-1][0] >= depth:
            self._sections.pop()
        self._sections.append((depth, key))
        return "/".join(name for _, name in self._sections)

    def _take_above(self, line: int, key: str, value: str) -> bool:
        if key not in _ABOVE or self._gpus.current or not self._begun:
            return False
        if key == "Attached GPUs":
            self._gpus.attached = read.number if (read := number(value)) else None
        elif key in _HOST and (text := phrase(value)):
            self.tell(line, "host", "", _HOST[key], text.text)
        return True

    def close(self) -> None:
        self.told += self._gpus.all()
