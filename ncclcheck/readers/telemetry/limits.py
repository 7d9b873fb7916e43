"""`ulimit -a`, /proc/PID/limits: what a process may lock, open and start."""

from __future__ import annotations

from math import inf

from ncclcheck.readers.telemetry.reader import Fields, LineReader

_BY_OPTION = {"-l": "memlock_kib", "-n": "nofile", "-u": "nproc"}
_BY_NAME = {"locked memory": "memlock_kib", "open files": "nofile", "processes": "nproc"}


class Limits(LineReader):
    kind = grammar = "limits"

    def take_bash(self, line: int, fields: Fields) -> bool:
        return self._take(line, _BY_OPTION.get(fields["option"]), fields["value"])

    take_zsh = take_bash

    def take_proc(self, line: int, fields: Fields) -> bool:
        name = fields["name"]
        if not self._take(line, _BY_NAME.get(name), fields["value"], 1024 if name == "locked memory" else 1):
            return False
        return self._take(line, "nofile_hard", fields["hard"]) if name == "open files" else True

    def take_head(self, line: int, fields: Fields) -> bool:
        return not self.told

    def _take(self, line: int, key: str | None, text: str, per_unit: int = 1) -> bool:
        if key is None:
            return True
        if self.has_told(key):
            return False  # the limits of another process
        number = inf if text == "unlimited" else int(text) / per_unit
        self.tell(line, "host", "", key, text, number)
        return True
