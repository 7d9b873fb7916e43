"""Rings, trees and edges as NCCL makes them: who is joined to whom, on which channel, through which NIC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from .shape import Shape


@dataclass(frozen=True)
class Edge:
    """One direction of one channel between two ranks of a communicator."""

    channel: int
    source: int
    target: int
    net: bool
    send_nic: int = -1
    receive_nic: int = -1
    proxy: int = -1  # rank whose NIC the sender uses (PXN)


@dataclass
class Tree:
    """One rank's place in one tree."""

    up: int = -1
    down: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """A communicator: rank = node * width + position. `locals` are the local GPU numbers of the positions."""

    nodes: int
    width: int
    channels: int
    locals: tuple[int, ...]

    @property
    def ranks(self) -> int:
        return self.nodes * self.width


@dataclass(frozen=True)
class Hop:
    """Where ring `channel` enters and leaves a node, as positions, and through which NICs."""

    entry: int
    exit: int
    entry_nic: int
    exit_nic: int
    proxied: bool
    rising: bool


class Graph:
    """The rings, trees and edges of one communicator."""

    def __init__(self, shape: Shape, layout: Layout) -> None:
        self.shape = shape
        self.layout = layout
        self.per_nic = max(1, shape.gpus // shape.nic_count)
        self.rings = [self._ring(channel) for channel in range(layout.channels)]
        self.ring_edges = list(self._ring_edges())
        self.trees = [self._tree(channel) for channel in range(layout.channels)]
        self.tree_edges = list(self._tree_edges())
        self.uses_pxn = any(edge.proxy >= 0 for edge in self.ring_edges)

    def nic_of(self, position: int, channel: int) -> int:
        """The NIC that a GPU reaches without leaving its PCIe switch."""
        shape = self.shape
        if shape.sockets:
            return 0
        local = self.layout.locals[position]
        if shape.nic_count <= shape.gpus:
            return local // self.per_nic
        share = shape.nic_count // shape.gpus
        return local * share + channel % share

    def hop(self, channel: int, node: int) -> Hop:
        """NCCL's choice for one node of a ring that spans nodes."""
        shape, width = self.shape, self.layout.width
        if width == 1:
            nic = self.nic_of(0, channel)
            return Hop(0, 0, nic, nic, False, True)
        if shape.sockets:
            return Hop(0, width - 1, 0, 0, False, True)
        nic = channel % shape.nic_count
        entry = nic * shape.gpus // shape.nic_count
        if shape.alternate:
            other = nic ^ 1
            if node % 2:
                return Hop(other * self.per_nic, entry, other, nic, False, False)
            return Hop(entry, other * self.per_nic, nic, other, False, False)
        if shape.fault == "non_rail":
            leave_nic = (nic + 1) % shape.nic_count
            leave = (entry + self.per_nic) % width
            return Hop(entry, leave, nic, leave_nic, False, False)
        if self.per_nic > 1:
            return Hop(entry, entry + 1, nic, nic, False, False)
        if shape.pxn:
            return Hop(entry, (entry + 1) % width, nic, nic, True, False)
        partner = entry ^ 1 if entry ^ 1 < width else (entry + 1) % width
        return Hop(entry, partner, nic, nic, False, False)

    def _walk(self, hop: Hop) -> list[int]:
        """Positions of one node from entry to exit, each once."""
        width = self.layout.width
        if width == 1:
            return [0]
        step = 1 if hop.rising else -1
        cycle = [(hop.entry + step * i) % width for i in range(width)]
        return [position for position in cycle if position != hop.exit] + [hop.exit]

    def _ring(self, channel: int) -> list[int]:
        layout = self.layout
        if layout.nodes == 1:
            return list(range(layout.width))
        order: list[int] = []
        for node in range(layout.nodes):
            order += [node * layout.width + position for position in self._walk(self.hop(channel, node))]
        start = order.index(0)
        return order[start:] + order[:start]

    def _ring_edges(self) -> Iterator[Edge]:
        width = self.layout.width
        for channel, order in enumerate(self.rings):
            if len(order) < 2:
                continue
            for i, source in enumerate(order):
                target = order[(i + 1) % len(order)]
                if source // width == target // width:
                    yield Edge(channel, source, target, False)
                    continue
                leave, enter = self.hop(channel, source // width), self.hop(channel, target // width)
                proxy = source // width * width + leave.entry if leave.proxied else -1
                yield Edge(channel, source, target, True, leave.exit_nic, enter.entry_nic, proxy)

    def _tree(self, channel: int) -> list[Tree]:
        layout, width = self.layout, self.layout.width
        trees = [Tree() for _ in range(layout.ranks)]
        entry = self.hop(channel, 0).entry if layout.nodes > 1 else 0
        chain = [(entry + i) % width for i in range(width)]
        for node in range(layout.nodes):
            base = node * width
            for above, below in pairwise(chain):
                trees[base + above].down.append(base + below)
                trees[base + below].up = base + above
        # Balanced (first children hang on the second GPU) where two GPUs share the NIC, else plain.
        second = chain[1] if width > 1 and self.per_nic > 1 and not self.shape.sockets else chain[0]
        mirrored = channel >= layout.channels // 2 and layout.channels > 1
        for node in range(layout.nodes):
            parent, first_child = tree_parent(layout.nodes, node, mirrored)
            if parent < 0:
                continue
            above = parent * width + (second if first_child else chain[0])
            below = node * width + chain[0]
            trees[above].down.append(below)
            trees[below].up = above
        return trees

    def _tree_edges(self) -> Iterator[Edge]:
        """Tree edges that the rings have not joined already."""
        known = {(edge.channel, edge.source, edge.target) for edge in self.ring_edges}
        width = self.layout.width
        for channel, trees in enumerate(self.trees):
            nic = self.nic_of(0, channel) if width == 1 else self.hop(channel, 0).entry_nic
            for rank, tree in enumerate(trees):
                for peer in ([tree.up] if tree.up >= 0 else []) + tree.down:
                    if (channel, rank, peer) in known:
                        continue
                    if rank // width == peer // width:
                        yield Edge(channel, rank, peer, False)
                    else:
                        yield Edge(channel, rank, peer, True, nic, nic)


def binary_tree(size: int, rank: int) -> tuple[int, bool]:
    """Parent of a rank in NCCL's in-order binary tree, and whether the rank is the first child there."""
    if rank == 0:
        return -1, False
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    if up >= size:
        up = rank ^ bit
    return up, rank < up


def tree_parent(size: int, rank: int, second: bool) -> tuple[int, bool]:
    """The same in the double tree: the second tree is the first one shifted (odd sizes) or mirrored (even)."""
    if not second:
        return binary_tree(size, rank)
    if size % 2:
        up, first = binary_tree(size, (rank - 1) % size)
        return (-1 if up < 0 else (up + 1) % size), first
    up, first = binary_tree(size, size - 1 - rank)
    return (-1 if up < 0 else size - 1 - up), first
