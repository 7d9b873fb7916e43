"""NCCL's topology and graph files as rules ask of them: GPUs, NICs, switches, and the paths between them.

Paths are found as NCCL finds them: by the tree of PCI devices in the file. Widths and speeds of PCI links are maxima
of a device and the port above it (GPUs from 2.30.7 on: current values), so they never prove that a link is well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.matrix import Matrix
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question

# GB/s of one lane times 80, by the text in the kernel's link speed; NCCL takes any other text for the third generation.
_LANES = {"2.5": 15, "5": 30, "5.0": 30, "8": 60, "8.0": 60, "16": 120, "32": 240, "64": 480, "16.0": 120, "32.0": 240,
          "64.0": 480}  # fmt: skip
_SPEED = re.compile(r"(\d{1,2}(?:\.\d)?) GT/s( PCIe)?")

_BRIDGE, _NVSWITCH = "0x0604", "0x0680"
_GPU_CLASSES, _NIC_CLASSES = ("0x0302", "0x0300"), ("0x0200", "0x0207")
_BROADCOM = {("0x1000", "0xc010"), ("0x1000", "0xc030")}
# Bridges that exist in emulated machines only: TI's XIO3130 upstream port as a guest sees it, QEMU's root port.
_EMULATED = ("0x104c:0x8232", "0x1b36:0x000c", "0x1b36:0x000e")
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:([0-9a-f]{2}):([0-9a-f]{2})\.[0-7]")
# Beyond these no file tells of a machine.
_MOST_LINKS, _FASTEST_MBPS, _MOST_DEVICES = 72, 10_000_000, 512
_SOCKET_INTERFACE = re.compile(r"(?:eth|en[ops]|ib\d|bond|br|veth|cali|tun|docker|flannel|cni|lxc|team|vlan|wl|lo$)")


Node = Mapping[str, Any]
"""A row of `topo_nodes`."""


class _Spot(NamedTuple):
    """Where a device hangs: the CPU, and the switches between, from the CPU down."""

    cpu: int | None
    switches: tuple[int, ...]


class PciLink(NamedTuple):
    """A device's link as the file gives it. device: "vendor:device". gbps: what NCCL makes of it, None where the file
    tells nothing."""

    bus_id: str
    device: str
    speed: str
    width: int
    gbps: float | None
    line: Evidence


class Gpu(NamedTuple):
    """links: NVLinks of this GPU, summed over its peers; None: the file does not tell. peers: links by the bus id of
    the other end. switched: the other ends are NVSwitches. c2c: joined to its CPU by NVLink."""

    name: str
    sm: int | None
    gdr: bool | None
    links: int | None
    peers: Mapping[str, int]
    switched: bool
    c2c: bool
    pci: PciLink


class Nic(NamedTuple):
    """A net device; in a skeleton a PCI device of that class. rdma: not a socket interface. pci: None for devices that
    are none, and for merged ones."""

    name: str
    gbit: float | None
    rdma: bool
    pci: PciLink | None
    line: Evidence


class TopoFile:
    """One machine of a topology file.

    skeleton: without `gpu` elements, made by hand: what it does not say NCCL finds out itself. bridges: PCI switches.
    """

    def __init__(self, nodes: Sequence[Node], path: str, *, complete: bool) -> None:
        self.path, self.complete = path, complete
        self._nodes = {node["node"]: node for node in nodes}
        self._children: dict[tuple[int | None, str], list[Node]] = {}
        for node in nodes:
            self._children.setdefault((node["parent"], node["tag"]), []).append(node)
        self._spots: dict[str, _Spot] = {}
        self.line = self._at(nodes[0])
        self.skeleton = all(node["tag"] != "gpu" for node in nodes)
        self.gpus = tuple(self._gpus())
        self.nics = tuple(self._nics())
        self.bridges = tuple(self._link(node) for node in self._pci_devices(_BRIDGE))

    # -- the tree

    def _at(self, node: Node) -> Evidence:
        return Evidence(self.path, node["line"], "")

    def _pci_devices(self, *classes: str) -> Iterator[Node]:
        for node in self._nodes.values():
            if node["tag"] == "pci" and (node["pci_class"] or "").startswith(classes):
                yield node

    def _inside(self, node: Node, tag: str) -> list[Node]:
        return self._children.get((node["node"], tag), [])

    def _above(self, node: Node) -> Iterator[Node]:
        """What the element lies in, from the nearest on."""
        while (parent := self._nodes.get(node["parent"])) is not None:
            yield parent
            node = parent

    def _link(self, node: Node) -> PciLink:
        speed, width = node["link_speed"] or "", node["link_width"] or 0
        device = f"{node['vendor'] or ''}:{node['device'] or ''}".lower()
        return PciLink((node["bus_id"] or "").lower(), device, speed, width, link_gbps(speed, width), self._at(node))

    def _spot(self, node: Node) -> _Spot:
        """Where a device hangs. A Broadcom switch shows as several, one below the other: NCCL makes one of them."""
        switches: list[int] = []
        cpu = None
        for above in self._above(node):
            if above["tag"] == "cpu":
                cpu = above["node"]
            elif above["tag"] == "pci" and not _one_card(above, self._nodes.get(above["parent"])):
                switches.append(above["node"])
        return _Spot(cpu, tuple(reversed(switches)))

    # -- devices

    def _gpus(self) -> Iterator[Gpu]:
        """Dumps name the GPUs of the job; a skeleton only has PCI devices of that class."""
        found = [(self._nodes[gpu["parent"]], gpu) for gpu in self._nodes.values() if gpu["tag"] == "gpu"
                 if gpu["whole"] and self._nodes.get(gpu["parent"], {}).get("tag") == "pci"]  # fmt: skip
        devs = Counter(gpu["dev"] for _, gpu in found)
        for pci, gpu in found:
            link = self._link(pci)
            # partitions of one GPU share its address, and what was pasted together may share numbers
            name = f"GPU{gpu['dev']}" if gpu["dev"] is not None and devs[gpu["dev"]] == 1 else link.bus_id
            name = f"{name} #{gpu['node']}" if name in self._spots else name
            self._spots[name] = self._spot(pci)
            nvlinks = self._inside(gpu, "nvlink")
            peers = Counter[str]()
            for one in nvlinks:
                count = one["count"] or 0
                peers[(one["target"] or "").lower()] += count if 0 < count <= _MOST_LINKS else 0
            switched = any((one["target_class"] or "").startswith(_NVSWITCH) for one in nvlinks)
            links = None if link.bus_id in peers else peers.total()  # files with a GPU linked to itself exist
            yield Gpu(name, gpu["sm"], gpu["gdr"] and bool(gpu["gdr"]), links, peers, switched,
                      bool(self._inside(gpu, "c2c")), link)  # fmt: skip
        for pci in self._pci_devices(*_GPU_CLASSES) if self.skeleton else ():
            link = self._link(pci)
            self._spots[link.bus_id] = self._spot(pci)
            yield Gpu(link.bus_id, None, None, None, {}, False, False, link)

    def _nics(self) -> Iterator[Nic]:
        nets = [node for node in self._nodes.values() if node["tag"] == "net" and node["name"]]
        for net in nets:
            pci = next((node for node in self._above(net) if node["tag"] == "pci"), None)
            self._spots[net["name"]] = self._spot(pci or net)
            rdma = bool(net["gdr"]) or not _SOCKET_INTERFACE.match(net["name"])
            gbit = net["mbps"] / 1000 if net["mbps"] and 0 < net["mbps"] <= _FASTEST_MBPS else None
            yield Nic(net["name"], gbit, rdma, self._link(pci) if pci else None, self._at(net))
        for pci in self._pci_devices(*_NIC_CLASSES) if self.skeleton and not nets else ():
            link = self._link(pci)
            self._spots[link.bus_id] = self._spot(pci)
            yield Nic(link.bus_id, None, True, link, link.line)

    # -- paths

    def between(self, a: str, b: str) -> str:
        """The class of the PCI path between two devices, as NCCL names it."""
        here, there = self._spots[a], self._spots[b]
        if here.cpu != there.cpu:
            return "SYS"
        common = 0
        while here.switches[common : common + 1] == there.switches[common : common + 1] != ():
            common += 1
        if not common:
            return "PHB"
        return "PIX" if len(here.switches) == len(there.switches) == common else "PXB"

    @cached_property
    def matrix(self) -> Matrix:
        """The same as a table of paths; NVLink counts as hidden where the file does not tell of it."""
        nics = {nic.name: nic for nic in self.nics if nic.rdma and nic.pci is not None}
        path: dict[tuple[str, str], str] = {}
        links: dict[tuple[str, str], int] = {}
        for place, a in enumerate(self.gpus):
            for b in self.gpus[place + 1 :]:
                bond = _bond(a, b)
                path[a.name, b.name] = "NV" if bond or _neighbours(a) & _neighbours(b) else self.between(a.name, b.name)
                if bond:
                    links[a.name, b.name] = links[b.name, a.name] = bond
            for nic in nics:
                near = self.between(a.name, nic)
                path[a.name, nic] = "P2C" if a.c2c and near == "PHB" else near
        return Matrix(
            kind="topo-xml", complete=self.complete, nvlink_hidden=any(gpu.links is None for gpu in self.gpus),
            gpus=tuple(gpu.name for gpu in self.gpus), nics=tuple(nics), nic_names={}, path=path, links=links,
            cpu_affinity={}, numa_affinity=self._numa_nodes(),
            lines={nic.name: nic.line for nic in nics.values()} | {gpu.name: gpu.pci.line for gpu in self.gpus},
        )  # fmt: skip

    def _numa_nodes(self) -> dict[str, str]:
        """NUMA node of every GPU whose CPU has a number."""
        nodes = {gpu.name: self._nodes.get(self._spots[gpu.name].cpu, {}).get("numa") for gpu in self.gpus}
        return {gpu: str(node) for gpu, node in nodes.items() if node is not None}

    # -- guests

    @cached_property
    def guest_signs(self) -> tuple[tuple[str, Evidence], ...]:
        """What shows that the machine is virtual, at most one line of each kind.

        A GPU is behind a port of its own, as device 0 of a bus: only an emulated bus holds it elsewhere.
        """
        signs = [(f"emulated PCI bridge {bridge.bus_id}", bridge.line) for bridge in self.emulated_bridges[:1]]
        odd = [
            gpu for gpu in self.gpus if (at := _BUS_ID.fullmatch(gpu.pci.bus_id)) and (at[1] == "00" or at[2] != "00")
        ]
        signs += [(f"GPU at {gpu.pci.bus_id}, an address of an emulated bus", gpu.pci.line) for gpu in odd[:1]]
        made = [bridge for bridge in self.bridges if bridge.bus_id.startswith("ffff:")]
        signs += [(f"switch {bridge.bus_id}, made up as in the files of cloud images", bridge.line)
                  for bridge in made[:1]]  # fmt: skip
        return tuple(signs)

    @cached_property
    def emulated_bridges(self) -> tuple[PciLink, ...]:
        return tuple(bridge for bridge in self.bridges if bridge.device in _EMULATED)

    @property
    def slow_bridges(self) -> tuple[PciLink, ...]:
        """Emulated bridges that NCCL takes for slower than one lane of a real link, between GPUs and NICs of a dump."""
        slow = [bridge for bridge in self.emulated_bridges if bridge.gbps is not None and bridge.gbps < 1]
        return tuple(slow) if len(self.gpus) > 1 and self.matrix.nics and not self.skeleton else ()

    @property
    def is_flat(self) -> bool:
        """Several GPUs and NICs of a dump, and no switch above any: what is near cannot be told."""
        several = len(self.gpus) > 1 and len(self.matrix.nics) > 1
        return several and self.complete and not self.skeleton and not self.bridges


def link_gbps(speed: str, width: int) -> float | None:
    """GB/s of a PCI link as NCCL counts it; None where the text or the width is not one that it knows."""
    known = _SPEED.fullmatch(speed)
    if known is None or not 0 < width <= 32 or known[1] not in _LANES:
        return None
    if known[1] in ("16.0", "32.0", "64.0") and not known[2]:
        return None  # kernels print `16 GT/s` or `16.0 GT/s PCIe`; NCCL knows no other form
    return width * _LANES[known[1]] / 80


def _one_card(below: Node, above: Node | None) -> bool:
    if above is None or above["tag"] != "pci":
        return False
    chips = {(node["vendor"], node["device"]) for node in (below, above)}
    return len(chips) == 1 and chips <= _BROADCOM


def _bond(a: Gpu, b: Gpu) -> int:
    """NVLinks between two GPUs; through switches all that both have."""
    if a.switched and b.switched:
        return min(a.links or 0, b.links or 0)
    return a.peers.get(b.pci.bus_id, 0) or b.peers.get(a.pci.bus_id, 0)


def _neighbours(gpu: Gpu) -> set[str]:
    """GPUs that share one reach each other through it."""
    return set() if gpu.switched or gpu.links is None else set(gpu.peers)


@question
def topo_files(facts: Printed) -> tuple[TopoFile, ...]:
    """The machines of all topology files of the input; files of RCCL are left out."""
    files = {row["file"]: row for row in facts["topo_files"].iter_rows(named=True) if not row["rccl"]}
    machines: dict[tuple[int, str | None], list[Node]] = {}
    hosts: dict[tuple[int, int | None], str | None] = {}
    for node in facts["topo_nodes"].iter_rows(named=True):
        if node["file"] not in files:
            continue
        host = node["host_hash"] or hosts.get((node["file"], node["parent"]))
        hosts[node["file"], node["node"]] = host
        if node["tag"] != "system":
            machines.setdefault((node["file"], host), []).append(node)
    return tuple(
        TopoFile(nodes, facts.paths[files[file]["source"]], complete=files[file]["complete"])
        for (file, _), nodes in machines.items()
        if sum(node["tag"] in ("pci", "gpu", "net") for node in nodes) <= 4 * _MOST_DEVICES
        and sum(node["tag"] in ("gpu", "net") for node in nodes) <= _MOST_DEVICES
    )


@question
def rccl_files(facts: Printed) -> tuple[Evidence, ...]:
    """Files of AMD's library: alike in form, and of other meaning."""
    rows = facts["topo_files"].filter("rccl").select("source", "line")
    return tuple(facts.evidence(source, line) for source, line in rows.iter_rows())


class GraphFile(NamedTuple):
    """A graph file. rings: (channels, GPUs per channel, path class inside the node) of its ring; None: it has none."""

    path: str
    line: Evidence
    channels: int | None
    gpus: int | None
    type_intra: str


@question
def graph_files(facts: Printed) -> tuple[GraphFile, ...]:
    found = []
    for file in facts["topo_files"].filter(pl.col("kind") == "graph-xml").iter_rows(named=True):
        mine = facts["graph_files"].filter((pl.col("file") == file["file"]) & (pl.col("pattern") == 4))
        ring = next(mine.iter_rows(named=True), {})
        at = facts.evidence(file["source"], file["line"])
        found.append(GraphFile(at.path, at, ring.get("nchannels"), ring.get("gpus"), ring.get("type_intra") or ""))
    return tuple(found)


@question
def path_tables(facts: Printed) -> tuple[Matrix, ...]:
    """Tables of paths between GPUs and NICs: those of `nvidia-smi topo -m`, and of topology files."""
    smi = tuple(matrix for matrix in facts.matrices if matrix.kind == "topo")
    return smi + tuple(file.matrix for file in topo_files(facts) if file.gpus)
