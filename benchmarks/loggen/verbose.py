"""What the subsystems NET and GRAPH add: devices with their rates, the tree of a machine, paths, patterns, rings.

The machine is the usual baseboard: two CPU sockets, a PCIe switch for each NIC and the GPUs beside it, NVSwitches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .forms import bus_id
from .graph import Graph
from .process import Process
from .shape import GOOGLE, Shape

SWITCH, CPU_MODEL = "1000c0301000100b", (1, 1)
LONGEST = 1023


@dataclass(frozen=True)
class Hardware:
    """Bandwidths in GB/s as the release writes them. nvlink: of all links of a GPU; net: of a device."""

    nvlink: float
    pci: float
    net: float
    between_sockets: float


def hardware(shape: Shape) -> Hardware:
    v = shape.version
    hopper = bool(shape.nvls) or shape.fabric in GOOGLE
    if hopper:
        nvlink, pci, net = (370.8 if v >= (2, 20, 3) else 360.0), 48.0, 50.0
    else:
        nvlink, pci, net = (240.0 if v >= (2, 18, 1) else 264.0), 24.0, 25.0
    if shape.fabric in GOOGLE:
        net = 25.0
    elif shape.fabric == "efa":
        net = 50.0 if hopper else 12.5
    return Hardware(nvlink, pci, net, 22.0 if v >= (2, 26, 2) else 10.0 if v >= (2, 18, 1) else 9.0)


class Verbose:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.version = shape.version
        self.hardware = hardware(shape)
        self.gpus_per_nic = max(1, shape.gpus // shape.nic_count)
        self.nics_per_gpu = max(1, shape.nic_count // shape.gpus)

    # -- NET

    def devices(self) -> list[str]:
        """Per RDMA device: rate and place, and whether GPUDirect RDMA is on."""
        if self.shape.fabric not in ("ib", "roce") or self.shape.sockets:
            return []
        return [*self._ports(), *self._gdr_of_devices()]

    def _ports(self) -> Iterator[str]:
        if self.version < (2, 27, 3):
            return
        kind, speed = "RoCE" if self.shape.fabric == "roce" else "IB", round(self.hardware.net * 8000)
        for nic in range(self.shape.nic_count):
            bus = self._nic_bus(nic) >> 12
            root = f"pci0000:{bus - 2:02x}/0000:{bus - 2:02x}:01.0"
            path = f"/sys/devices/{root}/0000:{bus - 1:02x}:00.0/0000:{bus:02x}:00.0"
            tail = " oooRqSize=0" if self.version >= (2, 30, 3) else ""
            yield (
                f"NET/IB: [{nic}] mlx5_{nic}:uverbs{nic}:1/{kind} provider=Mlx5 speed={speed} "
                f"context=0x7f3a4{nic:x}c01c00 pciPath={path} ar=1{tail}"
            )

    def _gdr_of_devices(self) -> Iterator[str]:
        state = "Enabled" if self.shape.gdr else "Disabled"
        if self.version >= (2, 13, 4):
            for nic in range(self.shape.nic_count):
                yield f"NET/IB : GPU Direct RDMA {state} for HCA {nic} 'mlx5_{nic}'"

    def _distances(self, process: Process) -> Iterator[str]:
        """One GPU and the NIC beside it, for receiving and for sending."""
        v, nic = self.version, self._near(process.local)
        if v >= (2, 29, 2) or not self.shape.gdr:
            return
        level = "4 <= 5" if v >= (2, 27, 5) else "3 <= 4"
        gpu = str(process.rank) if v >= (2, 24, 3) else f"{bus_id(self.shape, process.device):x}"
        mode = " mode Default" if v >= (2, 26, 2) else ""
        for read in (0, 1):
            yield f"GPU Direct RDMA Enabled for GPU {gpu} / HCA {nic:x} (distance {level}), read {read}{mode}"

    # -- GRAPH

    def graph(self, process: Process, graph: Graph) -> list[str]:
        """Everything that one rank of the world says about its machine and its place in rings and trees."""
        lines = [*self._tree(process), *self._paths(process)]
        if graph.layout.nodes > 1:
            lines += self._distances(process)
        return [*lines, *self._patterns(process, graph), *self._places(process.rank, graph)]

    def _nic_bus(self, nic: int) -> int:
        return bus_id(self.shape, nic * self.gpus_per_nic // self.nics_per_gpu) + ((1 + nic % self.nics_per_gpu) << 12)

    def _near(self, gpu: int) -> int:
        return gpu // self.gpus_per_nic * self.nics_per_gpu

    def _id(self, kind: str, number: int, upper: bool = True) -> str:
        """A node's name: with the number of the system before it from 2.21.5 on."""
        if self.version >= (2, 21, 5):
            return f"{kind}/0-{number:x}"
        return f"{kind}/{number:X}" if upper else f"{kind}/{number:x}"

    def _end(self, kind: str, number: int) -> str:
        """The same at the end of a link that is not PCI."""
        return f"{kind}/0-{number:x}" if self.version >= (2, 23, 4) else f"{kind}/{number:X}"

    def _tree(self, process: Process) -> Iterator[str]:
        shape, hw, v = self.shape, self.hardware, self.version
        words = ("maxBw", "totalBw") if v >= (2, 14, 3) else ("maxWidth", "totalWidth")
        yield f"=== System : {words[0]} {min(hw.pci, hw.net):.1f} {words[1]} {hw.nvlink:.1f} ==="
        sockets = 2 if shape.gpus > 1 else 1
        half = -(-shape.gpus // sockets)
        for socket in range(sockets):
            arch, vendor = CPU_MODEL
            yield f"{self._id('CPU', socket)} ({arch}/{vendor}/{3 if v >= (2, 26, 2) else 2})"
            here = range(socket * half, min(shape.gpus, (socket + 1) * half))
            for first in here[:: self.gpus_per_nic]:
                yield f"+ PCI[{hw.pci:.1f}] - {self._id('PCI', bus_id(shape, first) - 0x1000)} ({SWITCH})"
                pad = " " * len(f"+ PCI[{hw.pci:.1f}] - ")
                for gpu in range(first, min(first + self.gpus_per_nic, here.stop)):
                    rank = process.rank - process.local + gpu
                    yield f"{pad}+ PCI[{hw.pci:.1f}] - {self._id('GPU', bus_id(shape, gpu))} ({rank})"
                    yield f"{pad}{pad}+ NVL[{hw.nvlink:.1f}] - {self._end('NVS', 0)}"
                for nic in range(self._near(first), self._near(first) + self.nics_per_gpu):
                    yield f"{pad}+ PCI[{hw.pci:.1f}] - {self._id('NIC', self._nic_bus(nic))}"
                    if shape.machines > 1 or v >= (2, 28, 7):
                        yield f"{pad}{pad}+ NET[{hw.net:.1f}] - {self._net(nic)}"
            if sockets > 1:
                yield f"+ SYS[{hw.between_sockets:.1f}] - {self._end('CPU', 1 - socket)}"
        yield "=========================================="

    def _net(self, nic: int) -> str:
        coll = "0/" if self.version >= (2, 24, 3) else ""
        return f"{self._end('NET', nic)} ({coll}{0xA088C20003C1A300 + nic:x}/1/{self.hardware.net:.6f})"

    def _paths(self, process: Process) -> Iterator[str]:
        """From each GPU of the machine to the others and to the NICs."""
        shape, hw = self.shape, self.hardware
        half = -(-shape.gpus // 2)
        digits = 1 if self.version >= (2, 21, 5) else 6
        nics = range(shape.nic_count) if shape.machines > 1 or self.version >= (2, 28, 7) else range(0)
        for gpu in range(shape.gpus):
            to = []
            for other in range(shape.gpus):
                hops, bw, kind = (0, 5000.0, "LOC") if other == gpu else (2, hw.nvlink, "NVL")
                to.append(f"{self._id('GPU', bus_id(shape, other))} ({hops}/{bw:.{digits}f}/{kind})")
            for nic in nics:
                owner = nic * self.gpus_per_nic // self.nics_per_gpu
                near = owner // self.gpus_per_nic == gpu // self.gpus_per_nic
                far = (owner < half) != (gpu < half)
                kind = "PIX" if near else "PXN" if shape.pxn else "SYS" if far else "PHB"
                bw = min(hw.pci, hw.net, hw.between_sockets if kind == "SYS" else hw.pci)
                to.append(f"{self._id('NET', nic)} ({3 if near else 6 if far else 5}/{bw:.{digits}f}/{kind})")
            number = bus_id(shape, gpu)
            name = f"GPU/0-{number:x}" if self.version >= (2, 23, 4) else f"GPU/{number:X}"
            yield f"{name} :{' '.join(to)} "[:LONGEST]

    def _patterns(self, process: Process, graph: Graph) -> Iterator[str]:
        shape, hw, layout = self.shape, self.hardware, graph.layout
        channels = max(1, layout.channels // 2)
        word = "bw" if self.version >= (2, 14, 3) else "speed"
        across = layout.nodes > 1
        bw = next(step for step in (40.0, 24.0, 20.0, 12.0, 6.0) if step <= min(hw.pci, hw.net)) if across else 20.0
        inter = "PXN" if across and shape.pxn and layout.width > 1 else "PIX"
        cross = 2 if shape.alternate else 0
        for pattern in (4, 1):
            kinds = f"type {'LOC' if layout.width == 1 else 'NVL'}/{inter}"
            yield (
                f"Pattern {pattern}, crossNic {cross}, nChannels {channels}, {word} {bw:.6f}/{bw:.6f}, {kinds}, "
                f"sameChannels {int(not across)}"
            )
            for channel in range(channels):
                members = self._members(process, graph, channel)
                yield f"{channel:2d} :{members}"[:LONGEST]

    def _members(self, process: Process, graph: Graph, channel: int) -> str:
        layout = graph.layout
        node = process.rank // layout.width
        ring = [rank for rank in graph.rings[channel] if rank // layout.width == node]
        if layout.nodes > 1:
            hop = graph.hop(channel, node)
            first = ring.index(node * layout.width + hop.entry)
            ring = ring[first:] + ring[:first]
        v = self.version
        names = [
            f" {self._id('GPU', bus_id(self.shape, rank % layout.width))}" if v >= (2, 27, 5) else f" GPU/{rank}"
            for rank in ring
        ]
        if layout.nodes == 1:
            return "".join(names)
        ends = [f" NET/0-{nic:x}" if v >= (2, 23, 4) else f" NET/{nic:x}" for nic in (hop.entry_nic, hop.exit_nic)]
        return "".join([ends[0], *names, ends[1]])

    def _places(self, rank: int, graph: Graph) -> Iterator[str]:
        for channel, trees in enumerate(graph.trees):
            down = "/".join(str(peer) for peer in [*trees[rank].down, -1, -1, -1][:3])
            yield f"Tree {channel} : {trees[rank].up} -> {rank} -> {down}"
        for channel, order in enumerate(graph.rings):
            at = order.index(rank)
            yield f"Ring {channel:02d} : {order[at - 1]} -> {rank} -> {order[(at + 1) % len(order)]}"
