"""`df`: the size of /dev/shm."""

from __future__ import annotations

from ncclcheck.readers.telemetry.reader import Fields, LineReader

# MiB of one unit; a size without a letter is in the unit of its column.
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_COLUMNS = {
    "1K-blocks": 1 / 1024,
    "1024-blocks": 1 / 1024,
    "512-blocks": 1 / 2048,
    "1M-blocks": 1.0,
    "1G-blocks": 1024.0,
}


class Df(LineReader):
    kind = grammar = "df"

    def __init__(self) -> None:
        super().__init__()
        self._unit = _COLUMNS["1K-blocks"]

    def take_head(self, line: int, fields: Fields) -> bool:
        self._unit = _COLUMNS.get(fields["unit"], 1 / 1024**2)
        return not self.told

    def take_shm(self, line: int, fields: Fields) -> bool:
        if self.told:
            return False
        size = fields["size"]
        letter = size[-1] if size[-1] in _UNITS else ""
        mib = float(size.removesuffix(letter)) * (_UNITS[letter] if letter else self._unit)
        self.tell(line, "host", "", "shm_mib", size, mib)
        return True

    def take_other(self, line: int, fields: Fields) -> None:
        """A file system that does not matter."""
