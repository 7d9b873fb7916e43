"""What NCCL's RAS subsystem says of a job: dead processes, ranks without data, errors, how far each rank came.

As text (2.24 and newer), as JSON (2.28.7 and newer), and as events of the monitor in both forms (2.29 and newer).
"""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.json_document import JsonReader, Object
from ncclcheck.readers.telemetry.reader import Fields, LineReader

# ncclResult_t, in RAS's words.
_RESULTS = {1: "Unhandled CUDA error", 2: "System error", 3: "Internal error", 4: "Invalid argument",
            5: "Invalid usage", 6: "Remote process error"}  # fmt: skip
_IN_PROGRESS = 7
_ALL = "any"  # operations of all kinds together


def _process(host: str, pid: str) -> str:
    return f"{host}/{pid}"


def _hash(text: str) -> str:
    """As RAS prints it in text: 16 digits."""
    return text.removeprefix("0x").rjust(16, "0")


def _state_of(event: str) -> str:
    """PEER_DEAD: dead; KEEPALIVE_TIMEOUT: keepalive-timeout."""
    return event.removeprefix("PEER_").lower().replace("_", "-")[:60]


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
        name = _process(fields["host"], fields["pid"])
        if not self._state:
            return False
        self.tell(line, "process", name, "state", self._state)
        self.tell(line, "process", name, "gpus", fields["gpus"])
        return True

    def take_communicator(self, line: int, fields: Fields) -> None:
        self._hash = _hash(fields["hash"])
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
            self.tell(line, "rank", name, "process", _process(fields["host"], fields["pid"]))
        return True

    def take_timeout(self, line: int, fields: Fields) -> None:
        self.tell(line, "job", "", "ras_timeouts", fields["count"], float(fields["count"]))

    def take_event(self, line: int, fields: Fields) -> None:
        name = _process(fields["host"], fields["pid"])
        self.tell(line, "process", name, "state", _state_of(fields["event"]))
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


class RasJson(JsonReader):
    """The report of `ncclras -f json`."""

    kind = "nccl-ras-json"

    def take(self, document: Object) -> None:
        for communicator in document.objects("communicators"):
            hash_, ranks = communicator.text("hash"), communicator.count("size")
            if not re.fullmatch(r"(?:0x)?[0-9a-f]{1,16}", hash_):
                continue
            name = _hash(hash_)
            if ranks is not None:
                self.tell(communicator.lines["size"], "communicator", name, "ranks", str(ranks), float(ranks))
            missing = communicator.count("missing_ranks_count")
            if missing:
                line = communicator.lines["missing_ranks_count"]
                self.tell(line, "communicator", name, "missing_ranks", str(missing), float(missing))
            for rank in communicator.objects("ranks"):
                self._rank(name, rank)
            for rank in communicator.objects("missing_ranks"):
                self._missing(name, rank)
        if document.text("timestamp"):
            self.tell(document.lines["timestamp"], "job", "", "time", document.text("timestamp")[:30])
        timeouts = document.object("ras").count("timeouts_count")
        if timeouts:
            line = document.object("ras").lines["timeouts_count"]
            self.tell(line, "job", "", "ras_timeouts", str(timeouts), float(timeouts))

    def _rank(self, communicator: str, rank: Object) -> None:
        status = rank.object("status")
        if not rank.whole or rank.count("rank") is None:
            return
        name = f"{communicator}/{rank.text('rank')}"
        self._process_of(name, rank)
        if status.get("init_state") is not None:
            self.tell(status.line, "rank", name, "status", _status(status))
        for key, when in (("init_state", "initialization"), ("async_error", "asynchronous")):
            code = status.count(key)
            if code and code != _IN_PROGRESS:
                words = _RESULTS.get(code, "Unexpected error")
                self.tell(status.lines[key], "rank", name, "error", f"{when}: {words}")
        counts = rank.object("collective_counts")
        for operation in counts:
            launched = counts.count(operation)
            if launched is not None and re.fullmatch(r"[A-Za-z]{2,30}", operation):
                self.tell(counts.lines[operation], "rank", name, "launched", operation, float(launched))

    def _missing(self, communicator: str, rank: Object) -> None:
        if not rank.whole or rank.count("rank") is None:
            return
        name, status = f"{communicator}/{rank.text('rank')}", rank.object("status")
        dead, unresponsive = (status.get(key) is True for key in ("considered_dead", "unresponsive"))
        state = "dead" if dead else "unresponsive" if unresponsive else "missing"
        self.tell(rank.line, "rank", name, "state", state)
        process = self._process_of(name, rank)
        if process and state != "missing":
            self.tell(rank.line, "process", process, "state", state)
            if rank.count("cuda_dev") is not None:
                self.tell(rank.lines["cuda_dev"], "process", process, "gpus", rank.text("cuda_dev"))

    def _process_of(self, name: str, rank: Object) -> str:
        process = _process_named(rank)
        if process:
            self.tell(rank.lines["pid"], "rank", name, "process", process)
        return process


class RasEvents(JsonReader):
    """What `ncclras -m -f json` prints of each event."""

    kind = "nccl-ras-events"

    def take(self, document: Object) -> None:
        event, peer = document.text("event"), document.object("peer")
        process = _process_named(peer)
        if not re.fullmatch(r"[A-Z]+(?:_[A-Z]+)*", event) or not process:
            return
        self.tell(document.lines["event"], "process", process, "state", _state_of(event))
        devices = [str(one) for one in peer.get("cuda_devs") or () if isinstance(one, int)]
        if devices:
            self.tell(peer.lines["cuda_devs"], "process", process, "gpus", ",".join(devices))


def _process_named(one: Object) -> str:
    """The process that `host` and `pid` name, "" if they name none."""
    host, pid = one.text("host"), one.count("pid")
    return _process(host, str(pid)) if pid is not None and re.fullmatch(r"[\w.:-]{1,64}", host) else ""


def _status(status: Object) -> str:
    """As the text report puts it."""
    if status.get("abort_flag") is True:
        return "abort"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "finalize"
    return "running" if status.get("init_state") == 0 else "init"
