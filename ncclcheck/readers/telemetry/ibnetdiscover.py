"""`ibnetdiscover`: the switch behind every port of an InfiniBand fabric.

One output tells of all machines. A machine and its device are told by the node description (`node7 mlx5_3`); an adapter
whose description was never set has none.
"""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry import rdma_words
from ncclcheck.readers.telemetry.reader import Fields, LineReader

_DESCRIPTION = re.compile(r"(\S+) ((?:mlx|HCA-|ib|hfi|roce|rdma)\S*\d\S*)")
# `MF0;leaf3:MQM9701/U1`, and of a chassis with many switches `MF0;core1:MCS8500/L07/U1`
_SWITCH = re.compile(r"(?:[A-Z]{2}\d?;)?([\w.-]+)(?::[\w-]+(?P<part>(?:/[A-TV-Z]\w*)*)(?:/U\d+)?)?")


class Ibnetdiscover(LineReader):
    kind = grammar = "ibnetdiscover"

    def __init__(self) -> None:
        super().__init__()
        self._switch = ""
        self._adapter: re.Match[str] | None = None
        self._names: dict[str, str] = {}  # of switches, by GUID
        self._sections: set[str] = set()
        self._ports: set[tuple[str, str]] = set()
        self._nameless: set[str] = set()

    def take_switch(self, line: int, fields: Fields) -> bool:
        if not self._is_new(fields):
            return False
        self._switch, self._adapter = self._name(fields), None
        return True

    def take_adapter(self, line: int, fields: Fields) -> bool:
        if not self._is_new(fields):
            return False
        self._switch, self._adapter = "", self._described(fields)
        return True

    def take_switch_port(self, line: int, fields: Fields) -> bool:
        if not self._switch:
            return False
        if fields["guid"].startswith("H-") and (node := self._described(fields)):
            self._tell_port(line, node, fields["peer_port"], self._switch, fields["guid"], fields)
        return True

    def take_adapter_port(self, line: int, fields: Fields) -> bool:
        if self._adapter and fields["guid"].startswith("S-"):
            self._tell_port(line, self._adapter, fields["port"], self._name(fields), "", fields)
        return not self._switch

    def take_rest(self, line: int, fields: Fields) -> None:
        """Vendors, GUIDs of chassis, comments."""

    def close(self) -> None:
        if not self._ports:
            self.notes.append(
                "ibnetdiscover: no port of a machine on a switch: it was asked on a port without a fabric, or node"
                " descriptions are not set"
            )
        elif self._nameless:
            self.notes.append(f"ibnetdiscover: {len(self._nameless)} adapters do not say of which machine they are: no"
                              " node description")  # fmt: skip

    def _is_new(self, fields: Fields) -> bool:
        """The same node again is another output."""
        new = fields["guid"] not in self._sections
        self._sections.add(fields["guid"])
        return new

    def _name(self, fields: Fields) -> str:
        """Of a switch: as described, with a number where several share one description."""
        if fields["guid"] not in self._names:
            found = _SWITCH.fullmatch(fields["name"])
            name = found[1] + (found["part"] or "") if found else fields["name"].strip() or "switch"
            others = sum(other == name or other.startswith(f"{name} #") for other in self._names.values())
            self._names[fields["guid"]] = f"{name} #{others + 1}" if others else name
        return self._names[fields["guid"]]

    def _described(self, fields: Fields) -> re.Match[str] | None:
        found = _DESCRIPTION.fullmatch(fields["name"].strip())
        if not found and "Aggregation" not in fields["name"]:
            self._nameless.add(fields["guid"])
        return found

    def _tell_port(self, line: int, node: re.Match[str], port: str, switch: str, guid: str, fields: Fields) -> None:
        host, name = node[1], f"{node[2]}/{port}"
        if (host, name) in self._ports:
            return
        self._ports.add((host, name))
        lanes, speed = float(fields["lanes"]), rdma_words.LANE_GBIT.get(fields["speed"])
        told: list[tuple[str, str, float | None]] = [
            ("switch", switch, None), ("link_layer", "infiniband", None), ("state", "active", None),
            ("lid", fields["lid"], float(fields["lid"])), ("lanes", fields["lanes"], lanes),
        ]  # fmt: skip
        if speed:
            told.append(("rate_gbit", f"{lanes * speed:g}", lanes * speed))
        if digits := rdma_words.guid(guid.removeprefix("H-")):
            told.append(("guid", digits, None))
        for key, text, number in told:
            self.tell(line, "port", name, key, text, number, host=host)
