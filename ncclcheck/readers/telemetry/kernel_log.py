"""The kernel's log: dmesg, journalctl, syslog, what pstore kept. Errors of GPUs and NICs, links, the IOMMU.

Times are not told: whoever compares them with a job's log needs the lines, which are the evidence.
"""

from __future__ import annotations

import re
from collections import Counter

from ncclcheck.readers.telemetry.bus_ids import bus_id
from ncclcheck.readers.telemetry.hypervisors import hypervisor
from ncclcheck.readers.telemetry.iommu import ENABLED, mode_of
from ncclcheck.readers.telemetry.reader import Fields, LineReader

# `<6>[    2.6] `, `[Sun Feb 23 16:24:18 2025] `, `kern  :err   : 2025-02-10T16:28:06,50+00:00 `,
# `Aug 17 06:18:01 node1 kernel: [ 12.3] `, the same with other times, `... node1 systemd-networkd[77]: `
_STAMP = r"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}(?:\.[0-9]+)?|[0-9-]{10}[T ][0-9:]{8}[0-9.,]*(?:Z|[+-][0-9:]{4,5})?)"
_CLOCK = r"\[ *[0-9]+\.[0-9]{3,9}\](?:\[ *[TC][0-9]+\])?|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\]"
_PREFIX = re.compile(
    r"(?:<[0-9]{1,3}>)?(?:[a-z]{2,8}[0-9]? *:[a-z]{3,6} *: ?)?"
    rf"(?:{_STAMP} (?:(?P<host>[\w.-]{{1,253}}) (?P<who>kernel|[\w.@-]{{1,60}}\[[0-9]+\]): ?)?)?"
    rf"(?P<clock>(?:{_CLOCK}) ?)?"
)
# Drivers whose devices are GPUs and NICs.
_CLASSES = {
    "nvidia": "gpu", "mlx5_core": "nic", "mlx4_core": "nic", "bnxt_en": "nic", "efa": "nic", "ice": "nic",
    "ionic": "nic",
}  # fmt: skip
_ERRORS = {"Corrected": "corrected", "Uncorrected (Fatal)": "fatal"}


class KernelLog(LineReader):
    kind = "kernel-log"
    grammar = "kernel_log"

    def __init__(self) -> None:
        super().__init__()
        self._here: str | None = None  # the machine of the line: a log may be of many
        self._classes: set[tuple[str | None, str]] = set()
        # losses by machine and interface, and by who says it: two may see one
        self._lost: dict[tuple[str | None, str], Counter[str]] = {}
        # line and mode of the IOMMU: what the command line asks for, what the kernel would do where it works
        self._asked: dict[str | None, tuple[int, str]] = {}
        self._domains: dict[str | None, tuple[int, str]] = {}
        self._iommu_works: set[str | None] = set()

    def read(self, number: int, text: str) -> bool:
        found = _PREFIX.match(text)
        self._here = found["host"] if found else None
        if super().read(number, text[found.end() :] if found else text):
            return True
        return bool(found and (found["clock"] or found["who"]))  # whatever else a kernel says

    def _tell(self, line: int, thing: str, name: str, key: str, text: str, number: float | None = None) -> None:
        self.tell(line, thing, name, key, text, number, host=self._here)

    # -- NVIDIA's driver

    def take_xid(self, line: int, fields: Fields) -> None:
        self._tell(line, "gpu", bus_id(fields["address"]), "xid", fields["number"], float(fields["number"]))

    def take_gpu_uuid(self, line: int, fields: Fields) -> None:
        self._tell(line, "gpu", bus_id(fields["address"]), "uuid", fields["uuid"])

    def take_driver(self, line: int, fields: Fields) -> None:
        self._tell(line, "host", "", "driver", fields["version"])
        flavour = "open" if fields["flavour"].startswith("Open") else "proprietary"
        self._tell(line, "host", "", "driver_flavour", flavour)

    def take_mismatch(self, line: int, fields: Fields) -> None:
        self._tell(line, "host", "", "driver_mismatch", "yes")

    def take_lost(self, line: int, fields: Fields) -> None:
        self._tell(line, "gpu", bus_id(fields["address"]), "lost", "yes")

    def take_sxid(self, line: int, fields: Fields) -> None:
        name = bus_id(fields["address"])
        self._tell(line, "pci", name, "sxid", fields["fatality"].lower(), float(fields["number"]))

    def take_peer_memory(self, line: int, fields: Fields) -> None:
        name = fields["peermem"].replace("-", "_")
        self._tell(line, "module", name, "missing_symbol", fields["symbol"])

    def take_peer_memory_speaks(self, line: int, fields: Fields) -> None:
        self._tell(line, "module", fields["peermem"].replace("-", "_"), "loaded", "yes")

    # -- links

    def take_limited(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)
        if float(fields["gbit"]) == 0:
            return  # an empty port, or one that is emulated
        name = bus_id(fields["address"])
        self._tell(line, "pci", name, "limited_by", bus_id(fields["limit"]))
        self._tell(line, "pci", name, "boot_gbit", fields["gbit"], float(fields["gbit"]))
        self._tell(line, "pci", name, "capable_gbit", fields["capable"], float(fields["capable"]))

    def take_available(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)

    def take_cable(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)
        event = fields["cable"].strip(" .").lower().removeprefix("cable ")[:80]
        self._tell(line, "pci", bus_id(fields["address"]), "cable", event)

    def take_power(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)
        self._tell(
            line, "pci", bus_id(fields["address"]), "scarce_power_watts", fields["watts"], float(fields["watts"])
        )

    def take_health(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)
        self._tell(line, "pci", bus_id(fields["address"]), "failure", fields["health"].lower())

    def take_bus_error(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)
        severity = _ERRORS.get(fields["error"], "uncorrected")
        self._tell(line, "pci", bus_id(fields["address"]), "errors", severity, 1)

    def take_enabled(self, line: int, fields: Fields) -> None:
        self._take_class(line, fields)

    def _take_class(self, line: int, fields: Fields) -> None:
        name = bus_id(fields["address"])
        what = _CLASSES.get(fields["driver"])
        if what and (self._here, name) not in self._classes:
            self._classes.add((self._here, name))
            self._tell(line, "pci", name, "class", what)

    def take_renamed(self, line: int, fields: Fields) -> None:
        self._tell(line, "netdev", fields["netdev"], "bus_id", bus_id(fields["address"]))

    def take_carrier(self, line: int, fields: Fields) -> None:
        if "address" in fields:
            self.take_renamed(line, fields)
        netdev, back = fields["netdev"], fields["carrier"].lower() in ("gained carrier", "link up")
        if not back:
            said = self._lost.setdefault((self._here, netdev), Counter())
            before = max(said.values(), default=0)
            said[fields.get("driver", "")] += 1
            if max(said.values()) > before:
                self._tell(line, "netdev", netdev, "carrier_lost", str(before + 1), before + 1)
        self._tell(line, "netdev", netdev, "link", "yes" if back else "no")

    # -- IOMMU, guests

    def take_fault(self, line: int, fields: Fields) -> None:
        self._tell(line, "pci", bus_id(fields["address"]), "dma_fault", "yes")

    def take_domain_type(self, line: int, fields: Fields) -> None:
        self._domains[self._here] = (line, fields["mode"].lower())

    def take_iommu_works(self, line: int, fields: Fields) -> None:
        self._iommu_works.add(self._here)

    def take_command_line(self, line: int, fields: Fields) -> None:
        mode = mode_of(fields["rest"])
        if mode == ENABLED:
            self._iommu_works.add(self._here)
        elif mode:
            self._asked.setdefault(self._here, (line, mode))

    def take_hypervisor(self, line: int, fields: Fields) -> None:
        self._tell(line, "host", "", "hypervisor", hypervisor(fields["hypervisor"]))

    def close(self) -> None:
        """A kernel whose IOMMU does not work says "Translated" as well."""
        works = {
            host: said for host, said in self._domains.items() if host in self._iommu_works or said[1] == "passthrough"
        }
        for host, (line, mode) in {**works, **self._asked}.items():
            self.tell(line, "host", "", "iommu", mode, host=host)
