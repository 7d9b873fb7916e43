"""`ethtool IF` and `ethtool -S IF`: rate, carrier and counters of network interfaces."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.reader import Fields, LineReader

# Counters of one queue or channel: hundreds, whose sums are told as well.
_OF_A_QUEUE = re.compile(r"(?:[rt]x|ch|xdp|xsk|queue|ptp_ch)_?\d+_|\w+_(?:queue_?|tc)\d+_")


class Ethtool(LineReader):
    kind = grammar = "ethtool"

    def __init__(self) -> None:
        super().__init__()
        self._netdev = ""

    def take_settings(self, line: int, fields: Fields) -> bool:
        if self._netdev:
            return False  # the next interface is an output of its own
        self._netdev = fields["netdev"]
        return True

    def take_speed(self, line: int, fields: Fields) -> None:
        rate = float(fields["speed"]) / 1000
        self.tell(line, "netdev", self._netdev, "rate_gbit", f"{rate:g}", rate)

    def take_link(self, line: int, fields: Fields) -> None:
        self.tell(line, "netdev", self._netdev, "link", fields["link"])


class EthtoolStatistics(LineReader):
    kind = "ethtool -S"
    grammar = "ethtool"

    def __init__(self) -> None:
        super().__init__()
        self._netdev = ""
        self._begun = False
        self._unnamed = 0

    def take_command(self, line: int, fields: Fields) -> bool:
        if self._netdev or self._begun:
            return False  # the next output
        self._netdev = fields["netdev"]
        return True

    def take_statistics(self, line: int, fields: Fields) -> bool:
        new, self._begun = not self._begun, True
        return new

    def take_counter(self, line: int, fields: Fields) -> bool:
        if not self._netdev:
            self._unnamed += self._begun
        elif not _OF_A_QUEUE.match(fields["counter"]):
            self.tell(line, "counter", self._netdev, fields["counter"], fields["count"], float(fields["count"]))
        return self._begun or bool(self._netdev)

    def close(self) -> None:
        if self._unnamed:
            self.notes.append(
                f"ethtool -S: {self._unnamed} counters of an interface that no line names: put the command"
                " (`ethtool -S eth0`) above its output"
            )
