"""`numactl -H`, `lscpu`: how many NUMA nodes have CPUs, and how many sockets there are."""

from __future__ import annotations

from ncclcheck.readers.telemetry.hypervisors import hypervisor
from ncclcheck.readers.telemetry.reader import Fields, LineReader


class _Nodes(LineReader):
    """Nodes are counted when all that were announced have been seen."""

    def __init__(self) -> None:
        super().__init__()
        self._announced: tuple[int, int] | None = None  # line, number of nodes
        self._nodes: dict[str, bool] = {}  # by number: has it CPUs?

    def _announce(self, line: int, fields: Fields) -> bool:
        if self._announced is not None:
            return False  # another machine's output
        self._announced = (line, int(fields["count"]))
        return True

    def take_cpus(self, line: int, fields: Fields) -> bool:
        if fields["node"] in self._nodes:
            return False
        self._nodes[fields["node"]] = "cpus" in fields
        return True

    def close(self) -> None:
        if self._announced is not None and self._announced[1] == len(self._nodes):
            count = sum(self._nodes.values())
            self.tell(self._announced[0], "host", "", "numa_nodes", str(count), count)


class Numactl(_Nodes):
    kind = grammar = "numactl"

    def take_available(self, line: int, fields: Fields) -> bool:
        return self._announce(line, fields)

    def take_size(self, line: int, fields: Fields) -> None:
        """Megabytes do not matter."""

    take_distances = take_columns = take_row = take_size


class Lscpu(_Nodes):
    kind = grammar = "lscpu"

    def take_nodes(self, line: int, fields: Fields) -> bool:
        return self._announce(line, fields)

    def take_sockets(self, line: int, fields: Fields) -> bool:
        if self.has_told("sockets"):
            return False
        self.tell(line, "host", "", "sockets", fields["count"], int(fields["count"]))
        return True

    def take_hypervisor(self, line: int, fields: Fields) -> None:
        self.tell(line, "host", "", "hypervisor", hypervisor(fields["vendor"]))

    def take_other(self, line: int, fields: Fields) -> None:
        """Whatever else a CPU has."""
