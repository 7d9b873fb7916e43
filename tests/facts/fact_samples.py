"""Small logs in NCCL's own words with invented hosts, and the facts of any text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ncclcheck.facts.facts import Facts
from ncclcheck.readers.read import read_sources


@dataclass
class Text:
    """An input made of lines."""

    name: str
    lines: tuple[str, ...]

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        yield "".join(f"{line}\n" for line in self.lines).encode(), 1


def facts_of(*logs: Iterable[str]) -> Facts:
    """The facts of logs, each given as its lines; they are called log0, log1, ..."""
    sources = [Text(f"log{index}", tuple(lines)) for index, lines in enumerate(logs)]
    return Facts(read_sources(sources).tables, [source.name for source in sources])


@dataclass
class Process:
    """One process that talks. device: CUDA and NVML device of its rank. busy: thread of init; late: of connections."""

    host: str
    pid: int
    device: int = 0
    address: str = ""
    label: str = ""

    @property
    def bus(self) -> str:
        return f"{16 + 8 * self.device:x}000"

    def say(self, *texts: str, tid: int | None = None) -> list[str]:
        head = f"{self.label}{self.host}:{self.pid}:{self.pid + 700 if tid is None else tid} [{self.device}] NCCL INFO "
        return [head + text for text in texts]

    def version(self, release: str) -> list[str]:
        return self.say(f"NCCL version {release}+cuda12.2", tid=self.pid)

    def bootstrap(self) -> list[str]:
        return self.say(f"Bootstrap: Using eth0:{self.address}<0>", tid=self.pid) if self.address else []

    def init(
        self, end: str, comm: str, rank: int, nranks: int, tail: str, name: str = "ncclCommInitRank "
    ) -> list[str]:
        """START or COMPLETE as 2.18.3 and newer print it; tail: commId, or parent and colour."""
        where = f"cudaDev {self.device} nvmlDev {self.device} busId {self.bus}"
        return self.say(f"{name}comm 0x{comm} rank {rank} nranks {nranks} {where} {tail} - Init {end}")

    def nodes(self, comm: str, rank: int, nranks: int, nnodes: int, local: int, mnnvl: int = 0) -> list[str]:
        at = f"localRanks {local} localRank {rank % local}"
        return self.say(f"comm 0x{comm} rank {rank} nRanks {nranks} nNodes {nnodes} {at} MNNVL {mnnvl}")

    def whole(
        self, comm: str, rank: int, nranks: int, tail: str, nnodes: int = 1, local: int | None = None, mnnvl: int = 0
    ) -> list[str]:
        """A communicator from START to COMPLETE."""
        return [
            *self.init("START", comm, rank, nranks, tail),
            *self.nodes(comm, rank, nranks, nnodes, local or nranks // nnodes, mnnvl),
            *self.init("COMPLETE", comm, rank, nranks, tail),
        ]


def net(
    channel: int, src: int, dst: int, way: str, nic: int | str, devices: tuple[int, int] = (0, 0),
    tail: str = "/GDRDMA", network: str = "IB",
) -> str:  # fmt: skip
    """A network edge as 2.18.3 and newer print it."""
    return f"Channel {channel:02d}/0 : {src}[{devices[0]}] -> {dst}[{devices[1]}] [{way}] via NET/{network}/{nic}{tail}"


def p2p(channel: int, src: int, dst: int, devices: tuple[int, int], how: str = "CUMEM") -> str:
    return f"Channel {channel:02d}/0 : {src}[{devices[0]}] -> {dst}[{devices[1]}] via P2P/{how}"


def ring(*ranks: int, channel: int = 0, channels: int = 1) -> str:
    return f"Channel {channel:02d}/{channels:02d} : {' '.join(map(str, ranks))}"


def hosts(count: int, gpus: int = 1, release: str = "2.26.2") -> tuple[list[Process], list[str]]:
    """Processes of `count` machines with `gpus` GPUs each, by rank, and the lines in which they begin."""
    processes = [
        Process(f"n{machine + 1}", 100 + local, local, f"10.0.0.{machine + 1}")
        for machine in range(count)
        for local in range(gpus)
    ]
    return processes, [line for process in processes for line in process.version(release) + process.bootstrap()]
