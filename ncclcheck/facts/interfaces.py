"""Which interfaces do processes announce to their peers, and which of those can no other machine reach?

The first interface of a list is the one that NCCL announces; the others are candidates. What counts is the choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import MAX_EVIDENCE, Printed
from ncclcheck.facts.question import question

# (names, kind, what it is). Unnamed here: Ethernet, or whatever else leads out of the machine.
_KINDS = [
    (r"lo\d*$", "loopback", "the loopback"),
    (r"docker|podman|cni-podman|cni\d|cbr\d|br-[0-9a-f]{12}|virbr|lx[cd]br|vmnet|vboxnet|vnet\d", "bridge",
     "a bridge inside the machine"),
    (r"veth|cali[0-9a-f]|lxc[0-9a-f]|eni[0-9a-f]{11}|azv[0-9a-f]|tap\d", "pair", "the host's end of a container"),
    (r"nodelocaldns|kube-|flannel|cilium|vxlan|weave|tunl\d|antrea|ovn-", "cluster",
     "an interface of the cluster's own network"),
    (r"tun\d|tailscale|wg\d|zt[0-9a-z]|ppp\d|utun|nordlynx", "vpn", "a VPN"),
    (r"wl|wifi", "wireless", "a wireless link"),
    (r"bmc|idrac|usb\d", "management", "the link to the management controller"),
    (r"ib|hsn", "fabric", "the fabric"),
]  # fmt: skip
_PATTERNS = [(re.compile(pattern, re.I), kind, words) for pattern, kind, words in _KINDS]
# Kinds over which no other machine is reached, or none at the speed of a cluster.
_ASTRAY = frozenset({"loopback", "bridge", "pair", "cluster", "vpn", "wireless", "management"})
# Docker gives these addresses to the containers of its default bridge, the same on every machine.
_LOCAL_ADDRESSES = [
    (r"^127\.|^::1$", "the loopback"),
    (r"^169\.254\.", "a link-local address, such as that of a node-local DNS cache"),
    (r"^172\.17\.0\.\d+$", "Docker's default bridge"),
]
_CONNECT = ["socket_connect_failed", "socket_connect_gaveup"]


class Interface(NamedTuple):
    """An interface that processes announce. kind: "ethernet", "fabric", or one that leads astray; words: what it is."""

    name: str
    address: str
    kind: str
    words: str
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]

    @property
    def astray(self) -> bool:
        return self.kind in _ASTRAY


class Unreachable(NamedTuple):
    """A peer that could not be reached at an address that only means something on the machine that announced it."""

    address: str
    words: str
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


def kind_of(name: str, address: str = "") -> tuple[str, str]:
    """Kind of an interface, and words for it."""
    if re.match(r"127\.|::1$", address):
        return "loopback", "the loopback"
    for pattern, kind, words in _PATTERNS:
        if pattern.match(name) and not (kind == "loopback" and address):  # routed fabrics put the host's address there
            return kind, words
    return "ethernet", "Ethernet"


@question
def announced(facts: Printed) -> tuple[Interface, ...]:
    """The interfaces that processes announce, most common first: that of bootstrap, else the first of the sockets'."""
    rows = facts["interfaces"].filter(pl.col("index").fill_null(0) == 0)
    rank = pl.col("use").replace_strict({"bootstrap": 0, "oob": 1, "socket": 2}, default=3, return_dtype=pl.Int64)
    rows = rows.with_columns(rank=rank).filter(pl.col("rank") == pl.col("rank").min().over("proc"))
    return tuple(
        Interface(name, address, *kind_of(name, address), machines, evidence)
        for name, address, machines, evidence in _grouped(facts, rows)
    )


@question
def astray_devices(facts: Printed) -> frozenset[str]:
    """Names of listed interfaces, chosen or not, that no other machine is reached over."""
    named = facts["interfaces"].drop_nulls("name").group_by("name").agg(pl.col("address").first().fill_null(""))
    return frozenset(name for name, address in named.iter_rows() if kind_of(name, address)[0] in _ASTRAY)


@question
def listed_for_sockets(facts: Printed) -> frozenset[str]:
    """Names of interfaces that the socket transport has to choose from, on every machine that lists any."""
    rows = facts["interfaces"].filter(pl.col("use") == "socket").join(facts.machine_table, on="proc", how="left")
    lists = rows.group_by("machine").agg(pl.col("name").unique()).get_column("name").to_list()
    return frozenset.intersection(*map(frozenset, lists)) if lists else frozenset()


@question
def socket_lists(facts: Printed) -> Mapping[str, int]:
    """How many interfaces each machine lists for sockets."""
    rows = facts["interfaces"].filter(pl.col("use") == "socket").join(facts.machine_table, on="proc")
    counts = rows.drop_nulls("machine").group_by("machine").agg(pl.col("name").n_unique())
    return dict(counts.iter_rows())


@question
def unreachable_peers(facts: Printed) -> tuple[Unreachable, ...]:
    """Connections that failed for good, to addresses of interfaces that no other machine is reached over."""
    failed = facts["failures"].filter(
        pl.col("category").is_in(_CONNECT) & (pl.col("level") == "WARN") & pl.col("peer").is_not_null()
    )
    if failed.height == 0:
        return ()
    failed = failed.with_columns(address=pl.col("peer").str.replace(r"<\d+>$", ""))
    astray = facts["interfaces"].filter(pl.col("name").is_in(list(astray_devices(facts))))
    owners = dict(astray.select("address", "name").unique(keep="first", maintain_order=True).iter_rows())
    right = [interface for interface in announced(facts) if not interface.astray]
    # a flat network without configured addresses, or a network that has the numbers of Docker's
    own_link_local = any(interface.address.startswith("169.254.") for interface in right)
    own_docker = any(interface.address.startswith("172.17.") and interface.name[:3] != "eth" for interface in right)
    rows = failed.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    grouped = rows.group_by("address", maintain_order=True).agg(
        pl.col("machine").drop_nulls().unique().sort(), where=pl.struct("source", "line").head(MAX_EVIDENCE)
    )
    found = []
    for address, machines, where in grouped.iter_rows():
        if (own_link_local and address.startswith("169.254.")) or (own_docker and address.startswith("172.17.")):
            continue
        words = _words(address, owners)
        if words:
            evidence = tuple(facts.evidence(one["source"], one["line"]) for one in where)
            found.append(Unreachable(address, words, tuple(machines), evidence))
    return tuple(found)


def _words(address: str, owners: dict[str, str]) -> str:
    if address in owners:
        return f"{owners[address]}, {kind_of(owners[address])[1]}"
    return next((words for pattern, words in _LOCAL_ADDRESSES if re.match(pattern, address)), "")


def _grouped(facts: Printed, rows: pl.DataFrame) -> list[tuple[str, str, tuple[str, ...], tuple[Evidence, ...]]]:
    """Rows of interfaces by name: name, first address, machines, first lines of some machines."""
    rows = rows.join(facts.machine_table, on="proc", how="left", maintain_order="left")
    first = rows.unique(["name", "machine"], keep="first", maintain_order=True)
    grouped = first.group_by("name", maintain_order=True).agg(
        pl.col("address").first().fill_null(""),
        pl.col("machine").drop_nulls().sort(),
        where=pl.struct("source", "line").sort_by("source", "line").head(MAX_EVIDENCE),
    )
    grouped = grouped.sort(pl.col("machine").list.len(), descending=True, maintain_order=True)
    return [
        (name, address, tuple(machines), tuple(facts.evidence(one["source"], one["line"]) for one in where))
        for name, address, machines, where in grouped.drop_nulls("name").iter_rows()
    ]
