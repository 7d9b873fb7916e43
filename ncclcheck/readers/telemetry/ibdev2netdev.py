"""`ibdev2netdev`: RDMA devices and their network interfaces."""

from __future__ import annotations

from ncclcheck.readers.telemetry.reader import Fields, LineReader


class Ibdev2netdev(LineReader):
    kind = grammar = "ibdev2netdev"

    def take_device(self, line: int, fields: Fields) -> bool:
        port = f"{fields['device']}/{fields['port']}"
        if self.has_told("netdev", port):
            return False  # the same device again: another machine's output
        self.tell(line, "port", port, "netdev", fields["netdev"])
        self.tell(line, "netdev", fields["netdev"], "link", "yes" if fields["link"] == "Up" else "no")
        return True
