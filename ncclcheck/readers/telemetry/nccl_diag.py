"""NCCL's own diagnostics (2.31 and newer): what it finds of GPUs, links, settings and peer access when it starts."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.ras_words import communicator
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_LONGEST = 300


class NcclDiag(LineReader):
    kind, grammar = "nccl-diag", "nccl_diag"

    def __init__(self) -> None:
        super().__init__()
        self._ended = False

    def take_title(self, line: int, fields: Fields) -> bool:
        """Each report is an output."""
        return not self._ended and not self.told

    def take_completed(self, line: int, fields: Fields) -> bool:
        self._note(fields)
        self._ended = True
        self.tell(line, "job", "", "diagnosed_ranks", fields["count"], float(fields["count"]))
        return True

    def take_result(self, line: int, fields: Fields) -> None:
        self._say(line, fields, f"{fields['check'].strip()}: {fields['text'].strip()}")

    def take_other(self, line: int, fields: Fields) -> None:
        self._say(line, fields, fields["other"].strip())

    def take_environment(self, line: int, fields: Fields) -> None:
        words = f"{fields['variable']}={fields['value']} on ranks {fields['ranks']}"
        self._say(line, fields, f"NCCL environment: {words}")

    def take_ecc(self, line: int, fields: Fields) -> None:
        self._say(line, fields, f"ECC: uncorrected errors on ranks {fields['ranks']}")
        for name in _ranks(fields):
            self.tell(line, "rank", name, "ecc_uncorrected", "yes")

    def take_nvlink(self, line: int, fields: Fields) -> None:
        self._say(line, fields, f"NVLink: inactive links on ranks {fields['ranks']}")
        for name in _ranks(fields):
            self.tell(line, "rank", name, "nvlinks_inactive", "yes")

    def take_xid(self, line: int, fields: Fields) -> None:
        self._say(line, fields, f"Xid {fields['xid']} on host {fields['host']}")
        self.tell(line, "host", "", "xid", fields["xid"], float(fields["xid"]), host=fields["host"])

    def take_sxid(self, line: int, fields: Fields) -> None:
        fatality = fields["fatality"].lower()
        self._say(line, fields, f"SXid {fields['xid']} on host {fields['host']} ({fatality})")
        self.tell(line, "host", "", "sxid", fatality, float(fields["xid"]), host=fields["host"])

    def take_p2p(self, line: int, fields: Fields) -> None:
        self._say(line, fields, f"p2p: {fields['direction']} mismatch {fields['text'].strip()}")

    def _say(self, line: int, fields: Fields, words: str) -> None:
        self._note(fields)
        tag = "ok" if "OK" in fields["tag"] else "info"
        self.tell(line, "job", "", "diagnosis", f"{tag} {words}"[:_LONGEST])

    def _note(self, fields: Fields) -> None:
        host = fields.get("prefix", "").rpartition(":")[0]
        self.host = self.host or host or None


def _ranks(fields: Fields) -> list[str]:
    """Names of the ranks, as far as they are listed."""
    comm = communicator(fields["comm"])
    return [f"{comm}/{rank}" for rank in re.findall(r"\d+", fields["ranks"].partition("}")[0], re.ASCII)]
