"""GID tables of RoCE ports, and whether NCCL_IB_GID_INDEX points at a row that can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, of_kind
from ncclcheck.facts.question import question
from ncclcheck.facts.telemetry_keys import nccl_name
from ncclcheck.facts.traffic import Traffic


class WrongRow(NamedTuple):
    """row: NCCL_IB_GID_INDEX, on one device that the job lists. problem: "absent" or "link-local". right: indexes of
    its rows of RoCE v2 with an IPv4 address."""

    machine: str
    device: str
    row: int
    problem: str
    right: tuple[int, ...]
    evidence: tuple[Evidence, ...]


@question
def wrong_rows(facts: Traffic) -> tuple[WrongRow, ...]:
    """By machine and device, in the order of the input. A table whose rows are all link-local has no better one."""
    settings = [seen for seen in facts.settings("NCCL_IB_GID_INDEX") if seen.value.rstrip(".").isdecimal()]
    if not settings:
        return ()
    tables: dict[tuple[Place, str], dict[int, Part]] = {}
    for part in of_kind(facts, "gid"):
        port, _, row = part.name.rpartition("/")
        if row.isdecimal():
            tables.setdefault((part.place, port), {})[int(row)] = part
    found = []
    for (place, port), rows in tables.items():
        name = nccl_name(port)
        if not _is_listed(facts, place.machine, name):
            continue
        right = tuple(at for at, part in rows.items() if part.text("version") == "v2" and _routable(part))
        for seen in settings:
            index = int(seen.value.rstrip("."))
            problem = _problem(rows, index)
            if problem and right and (place.machine in seen.machines or not seen.machines):
                shown = rows.get(index, rows[right[0]]).values("address")
                lines = (*seen.evidence[:1], *(value.evidence for value in shown[:1]))
                found.append(WrongRow(place.machine, name, index, problem, right, lines))
    return tuple(found)


def _is_listed(facts: Traffic, machine: str, device: str) -> bool:
    """Does NCCL use the device on this machine, as RoCE?"""
    nics = facts.nic_lists.get(machine, ())
    return any(device in nic.name.split("+") and nic.link != "IB" for nic in nics)


def _routable(row: Part) -> bool:
    return bool(row.text("ipv4")) or row.text("address").startswith(("0000:0000:0000:0000:0000:ffff", "::ffff:"))


def _problem(rows: Mapping[int, Part], index: int) -> str:
    if index not in rows:
        return "absent"
    return "link-local" if rows[index].text("address").startswith("fe80:") else ""
