"""Counters of ports between two readings: what was lost, repeated or came out of order on RoCE, links that went down.

A counter's value tells nothing by itself: it counts since the driver was loaded. Only what it rose by between two
outputs of one tool counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.parts import Part, ends, of_job, of_kind, rise
from ncclcheck.facts.question import question
from ncclcheck.facts.rdma_ports import Port, ports, use_of
from ncclcheck.facts.traffic import Traffic

# Packets that were dropped, answered with "repeat from here", or repeated for want of an answer.
_LOSSES = re.compile(
    r"packet_seq_err|local_ack_timeout_err|implied_nak_seq_err|rnr_nak_retry_err|roce_adp_retrans(?:_to)?"
    r"|[rt]x_discards_phy|rx_prio\d_(?:buf_)?discards?|rx_out_of_buffer|out_of_buffer"
)
# Packets that came in another order: a sign of loss too, but the rule with adaptive routing.
_ORDER = re.compile(r"out_of_sequence")
_LINK = "link_downed"


class Rise(NamedTuple):
    """A counter of a port that rose. part: port or interface. loss: it counts losses and what follows from them,
    not only order."""

    machine: str
    part: str
    counter: str
    by: int
    loss: bool
    evidence: tuple[Evidence, ...]


class Counters(NamedTuple):
    """read: some counter of a RoCE port was read. compared: one was read twice. no_layer: counters of ports of which
    nothing tells whether they are RoCE."""

    rises: tuple[Rise, ...]
    read: bool
    compared: bool
    no_layer: bool


@question
def roce_counters(facts: Traffic) -> Counters:
    """Counters of the RoCE ports of the job's machines."""
    by_name: dict[tuple[object, str], Port] = {}
    for port in ports(facts):
        by_name[port.place, port.name] = port
        if port.netdev:
            by_name[port.place, port.netdev] = port
    found, read, twice, no_layer = [], False, False, False
    for part in of_job(facts, "counter"):
        layer = _layer(facts, part, by_name.get((part.place, part.name)))
        keys = [key for key in dict.fromkeys(key for one in part.readings for key in one) if _told(key)]
        no_layer |= bool(keys) and not layer
        if layer != "ethernet":
            continue
        for key in keys:
            read = True
            twice |= ends(part.values(key)) is not None
            found += _rises(part, key)
    return Counters(tuple(found), read, twice, no_layer)


@question
def links_lost(facts: Traffic) -> tuple[Rise, ...]:
    """Rails whose link went down between two readings."""
    found = []
    for part in of_kind(facts, "counter"):
        if use_of(facts, part.place, part.name)[0]:
            found += _rises(part, _LINK)
    return tuple(found)


def _rises(part: Part, key: str) -> list[Rise]:
    """The rise of one counter, if it rose."""
    values = part.values(key)
    lines = tuple(value.evidence for value in ends(values) or ())
    by, loss = rise(values), not _ORDER.fullmatch(key)
    return [Rise(part.machine, part.name, key, by, loss, lines)] if by else []


def _told(key: str) -> bool:
    return bool(_LOSSES.fullmatch(key) or _ORDER.fullmatch(key))


def _layer(facts: Traffic, part: Part, port: Port | None) -> str:
    """By tools, else as the machine lists the device."""
    if port and port.layer:
        return port.layer
    nics = [nic for nic in facts.nic_lists.get(part.machine, ()) if nic.name == part.name.partition("/")[0]]
    return {"RoCE": "ethernet", "IB": "infiniband"}.get(nics[0].link, "") if nics else ""
