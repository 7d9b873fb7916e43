"""What NCCL's RAS subsystem says of a job, as text (2.24 and newer): dead processes, ranks without data, errors, how
far each rank came; events of its monitor (2.29 and newer).
"""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.ras_words import communicator, process, state_of
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_ALL = "any"  # operations of all kinds together


class RasText(LineReader):
    kind, grammar = "nccl-ras", "ras"

    def __init__(self) -> None:
        super().__init__()
        self._part = -1  # parts of a report come in order: one that was there begins the next report
        self._state = ""  # of the processes that follow
        self._hash = ""
        self._operation = _ALL
        self._error = "asynchronous"
        self._of_ranks: tuple[str, str, float | None] | None = None  # what is said of the ranks that follow

    def _begins(self, part: int, again: bool = False) -> bool:
        if part < self._part or (part == self._part and not again):
            return False
        self._part = part
        return True

    def take_summary(self, line: int, fields: Fields) -> bool:
        return self._begins(0, again=True)

    def take_communicators(self, line: int, fields: Fields) -> bool:
        return self._begins(1)

    def take_table(self, line: int, fields: Fields) -> bool:
        return self._begins(2)

    def take_errors(self, line: int, fields: Fields) -> bool:
        return self._begins(3)

    def take_warnings(self, line: int, fields: Fields) -> bool:
        return self._begins(4)

    def take_heading(self, line: int, fields: Fields) -> None:
        pass

    def take_monitor(self, line: int, fields: Fields) -> bool:
        return self._begins(0)

    def take_row(self, line: int, fields: Fields) -> bool:
        """Of the table of communicators; rows of the job summary have no words."""
        cells = fields["row"].split()
        if len(cells) != 8:
            return cells[-1].isdigit()
        group, count, nodes, per_node, ranks, _, status, errors = cells
        name = f"group {group}"
        self.tell(line, "communicator", name, "count", count, float(count))
        self.tell(line, "communicator", name, "nodes", nodes, float(nodes))
        self.tell(line, "communicator", name, "ranks_per_node", per_node)
        self.tell(line, "communicator", name, "ranks", ranks, float(ranks))
        self.tell(line, "communicator", name, "status", status.lower())
        self.tell(line, "communicator", name, "errors", errors.lower())
        return True

    def take_incomplete(self, line: int, fields: Fields) -> None:
        if "process" in fields["missing"]:
            self._state = "unresponsive"
            return
        self._of_ranks = ("state", "missing", None)
        if self._hash:
            self.tell(line, "communicator", self._hash, "missing_ranks", fields["count"], float(fields["count"]))

    def take_dead(self, line: int, fields: Fields) -> None:
        self._state = "dead"
        self.tell(line, "job", "", "dead_processes", fields["count"], float(fields["count"]))

    def take_process(self, line: int, fields: Fields) -> bool:
        name = process(fields["host"], fields["pid"])
        if not self._state:
            return False
        self.tell(line, "process", name, "state", self._state)
        self.tell(line, "process", name, "gpus", fields["gpus"])
        return True

    def take_communicator(self, line: int, fields: Fields) -> None:
        self._hash = communicator(fields["hash"])
        self._of_ranks, self._operation = None, _ALL
        self.tell(line, "communicator", self._hash, "errors", fields["errors"].lower())

    def take_missing_ranks(self, line: int, fields: Fields) -> None:
        for rank in re.findall(r"\d+", fields["ranks"], re.ASCII):
            self._of_rank(line, rank, "state", "missing")

    def take_initialization(self, line: int, fields: Fields) -> None:
        self._error = "initialization"

    def take_asynchronous(self, line: int, fields: Fields) -> None:
        self._error = "asynchronous"

    def take_different_status(self, line: int, fields: Fields) -> None:
        self._of_ranks = None

    def take_different_counts(self, line: int, fields: Fields) -> None:
        named = fields.get("operation", "").strip()
        self._operation = _ALL if named in ("", "collective") else named
        self._of_ranks = None

    def take_ranks(self, line: int, fields: Fields) -> None:
        self._of_ranks = self._said(fields, "none" in fields)
        if self._hash and self._of_ranks and self._of_ranks[0] == "launched":
            self.tell(line, "communicator", self._hash, *self._of_ranks)

    def take_rank(self, line: int, fields: Fields) -> bool:
        said = self._said(fields, "none_yet" in fields) or self._of_ranks
        if said is None:
            return bool(self._hash)
        self._of_rank(line, fields["rank"], *said)
        if "pid" in fields and self._hash:
            name = f"{self._hash}/{fields['rank']}"
            self.tell(line, "rank", name, "process", process(fields["host"], fields["pid"]))
        return True

    def take_timeout(self, line: int, fields: Fields) -> None:
        self.tell(line, "job", "", "ras_timeouts", fields["count"], float(fields["count"]))

    def take_event(self, line: int, fields: Fields) -> None:
        name = process(fields["host"], fields["pid"])
        self.tell(line, "process", name, "state", state_of(fields["event"]))
        self.tell(line, "process", name, "gpus", fields["gpus"])

    def _said(self, fields: Fields, nothing: bool) -> tuple[str, str, float | None] | None:
        """What a line says of its ranks: key, text and number."""
        if "status" in fields:
            return "status", fields["status"].lower().replace("unknown", "nocomm"), None
        if nothing or "launched" in fields:
            return "launched", self._operation, float(fields.get("launched", 0))
        if "error" in fields:
            return "error", f"{self._error}: {fields['error']}", None
        return None

    def _of_rank(self, line: int, rank: str, key: str, text: str, number: float | None = None) -> None:
        if self._hash:
            self.tell(line, "rank", f"{self._hash}/{rank}", key, text, number)
