"""`show_gids`: the GID tables of RoCE ports."""

from __future__ import annotations

from ncclcheck.readers.telemetry.rdma_words import gid
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class ShowGids(LineReader):
    kind = grammar = "show_gids"

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._done = False

    def take_head(self, line: int, fields: Fields) -> bool:
        new, self._begun = not self._begun, True
        return new

    def take_rule(self, line: int, fields: Fields) -> None:
        """The line below the head."""

    def take_gid(self, line: int, fields: Fields) -> bool:
        if self._done:
            return False
        name = f"{fields['device']}/{fields['port']}/{fields['index']}"
        self.tell(line, "gid", name, "address", gid(fields["address"]))
        self.tell(line, "gid", name, "version", fields["version"])
        for key in ("ipv4", "netdev"):
            if key in fields:
                self.tell(line, "gid", name, key, fields[key])
        return True

    take_bare = take_gid

    def take_end(self, line: int, fields: Fields) -> None:
        self._done = True
