"""`nvidia-smi -q -x`."""

from __future__ import annotations

from ncclcheck.readers.telemetry.gpu_values import GpuList
from ncclcheck.readers.telemetry.gpu_words import words_of
from ncclcheck.readers.telemetry.reader import Reader
from ncclcheck.readers.telemetry.smi_values import number, phrase
from ncclcheck.readers.xml_lines import XmlLines

_ROOT = "nvidia_smi_log"
_HOST = {"driver_version": "driver", "cuda_version": "cuda"}
# 8 GPUs have 9,000 elements; lists of clocks make most of them.
_MOST_ELEMENTS = 500_000


class NvidiaSmiXml(Reader):
    kind = "nvidia-smi-xml"

    def __init__(self) -> None:
        super().__init__()
        self._words = words_of("xml")
        self._xml = XmlLines(_MOST_ELEMENTS, self._begin, self._end)
        self._path: list[tuple[str, int]] = []
        self._gpus = GpuList()
        self._ended = False

    def read(self, number: int, text: str) -> bool:
        if self._ended or not text.lstrip().startswith("<"):
            return False  # texts over several lines, which tell nothing here, or lines of others
        if "<process_name>" not in text:  # any program's command line: it may hold what is no XML
            self._xml.feed(number, text)
        self._ended = f"</{_ROOT}>" in text
        return True

    def _begin(self, line: int, tag: str, attributes: dict[str, str]) -> None:
        self._path.append((tag, line))
        if tag == "gpu" and len(self._path) == 2:
            self._gpus.begin(line, attributes.get("id", ""))

    def _end(self, tag: str, text: str) -> None:
        if not self._path:
            return
        path, line = [name for name, _ in self._path], self._path[-1][1]
        self._path.pop()
        gpu = self._gpus.current
        if path[:2] == [_ROOT, "gpu"] and gpu is not None:
            inside = "/".join(path[2:])
            if inside in self._words:
                gpu.take(line, self._words[inside], text)
            elif inside == "mig_devices/mig_device":
                gpu.instances.append(line)
        elif path[1:] == ["attached_gpus"]:
            self._gpus.attached = read.number if (read := number(text)) else None
        elif path[1:] == [tag] and tag in _HOST and (said := phrase(text)):
            self.tell(line, "host", "", _HOST[tag], said.text)

    def close(self) -> None:
        self.told += self._gpus.all()
        if self._xml.broken:
            self.notes.append("nvidia-smi -q -x: the document is damaged; what comes before the damage was read")
