"""What the members of one communicator print, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from .forms import Forms
from .graph import Edge, Graph, Layout
from .process import Process, Stream, Writer
from .shape import GOOGLE, Shape
from .verbose import Verbose

Texts = list[list[str]]  # per rank: messages without prefix; "@" stands for the communicator's pointer


@dataclass(frozen=True)
class Comm:
    """One communicator: its members by rank, and how it came to be."""

    layout: Layout
    members: tuple[Process, ...]
    identity: str  # commId
    color: int | None = None  # for a split
    world: bool = False

    @property
    def function(self) -> str:
        return "ncclCommInitRank" if self.color is None else "ncclCommSplit"

    @property
    def spans(self) -> bool:
        """Members sit on several machines."""
        return self.members[0].machine != self.members[-1].machine


class CommWriter:
    def __init__(self, shape: Shape, forms: Forms, writer: Writer) -> None:
        self.shape = shape
        self.version = shape.version
        self.forms = forms
        self.writer = writer
        self.verbose = Verbose(shape)
        self.late = self.version >= (2, 22, 3)  # connections come after COMPLETE
        self.own_thread = self.version >= (2, 11, 4)
        self.graph = cache(lambda layout: Graph(shape, layout))
        self.connections = cache(self._connections)

    def steps(self, comm: Comm) -> Iterator[list[Stream]]:
        """Steps that no rank passes before all have done the one before; each is one stream per member."""
        layout, forms, fault = comm.layout, self.forms, self.shape.fault
        graph = self.graph(layout)
        pointers = [process.next_pointer() for process in comm.members]
        tails = self._tails(comm)
        if comm.world:
            for process, pointer in zip(comm.members, pointers, strict=True):
                process.world = pointer

        def step(messages: Iterable[list[str]], late: bool = False, main: bool = False) -> list[Stream]:
            streams = []
            for process, pointer, texts in zip(comm.members, pointers, messages, strict=True):
                tid = process.pid if main else process.connect_tid if late else process.init_tid
                streams.append(self.writer.info(process, tid, (text.replace("@", pointer, 1) for text in texts)))
            return streams

        starts, completes = [], []
        for rank, process in enumerate(comm.members):
            start, complete = (
                forms.init(state, comm.function, rank, layout.ranks, process.device, process.bus, tails[rank])
                for state in ("START", "COMPLETE")
            )
            starts.append(self._before_start(comm, process) + ([start] if self.version >= (2, 18, 3) else []))
            timings = [forms.init_timings(comm.function, rank, layout.ranks)] if self.late else []
            completes.append([complete, *timings])
        yield step(starts, main=not self.own_thread)
        if fault in ("duplicate_gpu", "missing_ranks"):
            return
        plans = [self._plan(comm, graph, rank) for rank in range(layout.ranks)]
        counts = [self._counts(layout)] * layout.ranks
        if self.late:
            yield step(plan + count + done for plan, count, done in zip(plans, counts, completes, strict=True))
        else:
            yield step(plans)
        machines = tuple(process.machine for process in comm.members)
        # Communicators of one layout print the same, unless one of their pairs has no peer access.
        special = fault == "p2p_pair" and self.shape.fault_machine in machines
        rings, trees = self.connections(layout, machines if special else (), comm.spans)
        if fault in ("shm_small", "connect"):
            yield step((texts[: len(texts) // 3] for texts in rings), late=self.late)
            return
        yield step(rings, late=self.late)
        nvls = [self._nvls(layout, rank) for rank in range(layout.ranks)]
        yield step((tree + buffers for tree, buffers in zip(trees, nvls, strict=True)), late=self.late)
        if not self.late:
            yield step(count + done for count, done in zip(counts, completes, strict=True))

    def _tails(self, comm: Comm) -> list[str]:
        """commId, or parent and color, per member."""
        if comm.color is None:
            return [f"commId {comm.identity}"] * comm.layout.ranks
        tails = []
        for key, process in enumerate(comm.members):
            counter = ""
            if self.version >= (2, 24, 3):
                counter = f"{'childCount' if self.version >= (2, 29, 2) else 'splitCount'} {process.splits} "
            tail = f"parent {process.world} {counter}color {comm.color} key {key}"
            tails.append(tail if self.version >= (2, 23, 4) else f"{tail} commId {comm.identity}")
        return tails

    def _before_start(self, comm: Comm, process: Process) -> list[str]:
        shape = self.shape
        texts = [] if comm.color is not None else self.forms.network_chosen()
        verbs = shape.fabric in ("ib", "roce", "mnnvl") and not shape.sockets
        if verbs and not shape.vm and shape.gdr and self.version >= (2, 13, 4):
            texts.append(f"DMA-BUF is available on GPU device {process.device}")
        return texts

    def _plan(self, comm: Comm, graph: Graph, rank: int) -> list[str]:
        """Topology, rings and trees of one rank."""
        forms, shape, v, layout = self.forms, self.shape, self.version, comm.layout
        process = comm.members[rank]
        texts = self._settings(process) if comm.world else []
        if comm.world and shape.verbose:
            texts += self.verbose.graph(process, graph)
        if v >= (2, 24, 3) and comm.world and process.local == 0:
            texts.append("RAS client listening socket at 127.0.0.1<28028>")
        if v >= (2, 23, 4):
            texts.append(forms.bootstrap_timings())
        affinity = forms.affinity(process.local, shape.gpus)
        if v >= (2, 12, 12):
            texts.append(affinity)
        if shape.gpu == "nvlink" and v >= (2, 17, 1) and layout.width > 1 and shape.fabric not in GOOGLE:
            texts.append(forms.multicast(process.local))
        rack = shape.fabric == "mnnvl" and comm.spans
        if rack:
            texts.append(forms.mnnvl(rank, layout.ranks))
        if v >= (2, 20, 3):
            texts.append(forms.comm_nodes(rank, layout.ranks, layout.nodes, layout.width, int(rack)))
        if rank == 0:
            texts += [forms.ring_order(channel, layout.channels, order) for channel, order in enumerate(graph.rings)]
        if v < (2, 8, 3):
            texts.append(forms.thresholds(layout.ranks))
        texts.append(forms.trees(rank, [trees[rank] for trees in graph.trees]))
        if v < (2, 12, 12):
            texts.append(affinity)
        if v >= (2, 16, 2):
            inside = layout.nodes == 1 and shape.gpu == "nvlink"
            texts.append(f"P2P Chunksize set to {524288 if inside else 131072}")
        if v >= (2, 24, 3):
            without = shape.gpu == "shm" or shape.fault in ("p2p_disabled", "p2p_pair")
            texts.append(forms.p2p_check(int(not without)))
        return texts

    def _settings(self, process: Process) -> list[str]:
        """What the environment sets, printed at first use, and what the topology search says."""
        shape, forms = self.shape, self.forms
        texts: list[str] = []
        if shape.vm:
            texts.append("NCCL_TOPO_FILE set by environment to /etc/nccl/vm-topology.xml")
        if shape.fabric in GOOGLE:
            texts += forms.google_settings()
        if shape.fault == "p2p_disabled":
            texts.append(forms.p2p_setting())
        if shape.fault == "non_rail":
            texts.append("NCCL_CROSS_NIC set by environment to 1.")
        if shape.fault == "gdr_off" and not shape.verbose:
            texts += forms.hca_gdr()
        if shape.fault == "p2p_pair" and process.machine == shape.fault_machine and process.local < 2:
            texts.append(forms.pair_without_p2p(process.local))
        return texts

    def _counts(self, layout: Layout) -> list[str]:
        forms = self.forms
        texts = [] if self.version < (2, 8, 3) else [forms.thresholds(layout.ranks)]
        texts.append(forms.channel_counts(layout.channels, layout.ranks, layout.nodes))
        return [*texts, forms.confidential()] if self.late else texts

    def _nvls(self, layout: Layout, rank: int) -> list[str]:
        if not self.shape.nvls_used or layout.width < 2 or self.version < (2, 18, 1):
            return []
        return [self.forms.nvls_buffers(rank % layout.width, layout.width)]

    def _connections(self, layout: Layout, machines: tuple[int, ...], spans: bool) -> tuple[Texts, Texts]:
        """Per rank: what it prints while rings connect, and while trees connect."""
        graph = self.graph(layout)
        rings, trees = by_printer(graph.ring_edges, layout.ranks), by_printer(graph.tree_edges, layout.ranks)

        def text(edge: Edge, send: bool) -> str:
            return self._edge(layout, edge, send, machines, spans)

        if self.version < (2, 8, 3):  # ring and tree of a channel, then the next channel; no "Connected" lines
            texts = []
            for ring, tree in zip(rings, trees, strict=True):
                both = [(edge.channel, 0, send, edge) for edge, send in ring]
                both += [(edge.channel, 1, send, edge) for edge, send in tree]
                both.sort(key=lambda item: item[:3])
                texts.append([text(edge, send) for _, _, send, edge in both])
            return texts, [[] for _ in range(layout.ranks)]
        return (
            [[text(*entry) for entry in ring] + [self.forms.rings_connected(graph)] for ring in rings],
            [[text(*entry) for entry in tree] + ["Connected all trees"] for tree in trees],
        )

    def _edge(self, layout: Layout, edge: Edge, send: bool, machines: tuple[int, ...], spans: bool) -> str:
        forms, shape = self.forms, self.shape
        source, target = (layout.locals[rank % layout.width] for rank in (edge.source, edge.target))
        name = forms.bus if self.version < (2, 18, 3) else str
        devices = name(source), name(target)
        if edge.net:
            return forms.net_edge(edge, devices, send)
        if shape.fabric == "mnnvl" and spans:
            return forms.p2p_edge(edge, devices, True)
        half = shape.gpus / 2
        sockets_apart = shape.gpu == "pcie" and self.version >= (2, 23, 4) and (source < half) != (target < half)
        pair = (
            bool(machines)
            and machines[edge.source] == machines[edge.target] == shape.fault_machine
            and {source, target} == {0, 1}
        )
        if shape.gpu == "shm" or shape.fault == "p2p_disabled" or sockets_apart or pair:
            return forms.shm_edge(edge, devices)
        return forms.p2p_edge(edge, devices, False)


def by_printer(edges: Iterable[Edge], ranks: int) -> list[list[tuple[Edge, bool]]]:
    """Who prints which edge: the source prints all of its own, the target a NET edge too. In NCCL's order."""
    printed: list[list[tuple[Edge, bool]]] = [[] for _ in range(ranks)]
    for edge in edges:
        printed[edge.source].append((edge, True))
        if edge.net:
            printed[edge.target].append((edge, False))

    def order(rank: int, entry: tuple[Edge, bool]) -> tuple[int, bool, int]:
        edge, send = entry
        distance = (edge.target - rank) % ranks if send else (rank - edge.source) % ranks
        return distance, send, edge.channel

    return [sorted(entries, key=lambda entry, rank=rank: order(rank, entry)) for rank, entries in enumerate(printed)]
