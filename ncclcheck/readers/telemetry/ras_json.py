"""What NCCL's RAS subsystem says of a job, as JSON (2.28.7 and newer), and events of its monitor (2.29 and newer)."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.json_document import JsonReader, Object
from ncclcheck.readers.telemetry.ras_words import communicator, process, state_of

# ncclResult_t, in RAS's words.
_RESULTS = {1: "Unhandled CUDA error", 2: "System error", 3: "Internal error", 4: "Invalid argument",
            5: "Invalid usage", 6: "Remote process error"}  # fmt: skip
_IN_PROGRESS = 7


class RasJson(JsonReader):
    """The report of `ncclras -f json`."""

    kind = "nccl-ras-json"

    def take(self, document: Object) -> None:
        for one in document.objects("communicators"):
            if not re.fullmatch(r"(?:0x)?[0-9a-f]{1,16}", one.text("hash")):
                continue
            name, ranks = communicator(one.text("hash")), one.count("size")
            if ranks is not None:
                self.tell(one.lines["size"], "communicator", name, "ranks", str(ranks), float(ranks))
            if missing := one.count("missing_ranks_count"):
                line = one.lines["missing_ranks_count"]
                self.tell(line, "communicator", name, "missing_ranks", str(missing), float(missing))
            for rank in one.objects("ranks"):
                self._rank(name, rank)
            for rank in one.objects("missing_ranks"):
                self._missing(name, rank)
        if document.text("timestamp"):
            self.tell(document.lines["timestamp"], "job", "", "time", document.text("timestamp")[:30])
        timeouts = document.object("ras").count("timeouts_count")
        if timeouts:
            line = document.object("ras").lines["timeouts_count"]
            self.tell(line, "job", "", "ras_timeouts", str(timeouts), float(timeouts))

    def _rank(self, comm: str, rank: Object) -> None:
        status = rank.object("status")
        if not rank.whole or rank.count("rank") is None:
            return
        name = f"{comm}/{rank.text('rank')}"
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

    def _missing(self, comm: str, rank: Object) -> None:
        if not rank.whole or rank.count("rank") is None:
            return
        name, status = f"{comm}/{rank.text('rank')}", rank.object("status")
        dead, unresponsive = (status.get(key) is True for key in ("considered_dead", "unresponsive"))
        state = "dead" if dead else "unresponsive" if unresponsive else "missing"
        self.tell(rank.line, "rank", name, "state", state)
        who = self._process_of(name, rank)
        if who and state != "missing":
            self.tell(rank.line, "process", who, "state", state)
            if rank.count("cuda_dev") is not None:
                self.tell(rank.lines["cuda_dev"], "process", who, "gpus", rank.text("cuda_dev"))

    def _process_of(self, name: str, rank: Object) -> str:
        who = _process_named(rank)
        if who:
            self.tell(rank.lines["pid"], "rank", name, "process", who)
        return who


class RasEvents(JsonReader):
    """What `ncclras -m -f json` prints of each event."""

    kind = "nccl-ras-events"

    def take(self, document: Object) -> None:
        event, peer = document.text("event"), document.object("peer")
        who = _process_named(peer)
        if not re.fullmatch(r"[A-Z]+(?:_[A-Z]+)*", event) or not who:
            return
        self.tell(document.lines["event"], "process", who, "state", state_of(event))
        devices = [str(one) for one in peer.get("cuda_devs") or () if isinstance(one, int)]
        if devices:
            self.tell(peer.lines["cuda_devs"], "process", who, "gpus", ",".join(devices))


def _process_named(one: Object) -> str:
    """The process that `host` and `pid` name, "" if they name none."""
    host, pid = one.text("host"), one.count("pid")
    return process(host, str(pid)) if pid is not None and re.fullmatch(r"[\w.:-]{1,64}", host) else ""


def _status(status: Object) -> str:
    """As the text report puts it."""
    if status.get("abort_flag") is True:
        return "abort"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "finalize"
    return "running" if status.get("init_state") == 0 else "init"
