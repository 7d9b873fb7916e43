"""`ibstat`: RDMA adapters and their ports.

It stops in the middle where a device cannot be opened (`ibpanic`): what it printed before that stands.
"""

from __future__ import annotations

from ncclcheck.readers.telemetry.adapter_blocks import AdapterBlocks
from ncclcheck.readers.telemetry.reader import Fields


class Ibstat(AdapterBlocks):
    kind = grammar = "ibstat"

    def take_adapter(self, line: int, fields: Fields) -> None:
        self.of_device(line, "adapter", fields["adapter"])

    def take_firmware(self, line: int, fields: Fields) -> None:
        self.of_device(line, "firmware", fields["firmware"])

    def take_rate(self, line: int, fields: Fields) -> bool:
        return self.of_port(line, "rate_gbit", fields["rate"], float(fields["rate"]))

    def take_panic(self, line: int, fields: Fields) -> None:
        self.notes.append(f"line {line}: ibstat stopped with an error; adapters behind {self.device} are not listed")
