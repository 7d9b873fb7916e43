"""The small types in which facts are handed to rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Seen:
    """A fact seen on some machines: its value, how many records say so, and the first of them on each of a few."""

    value: str
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Crossing:
    """Does traffic go over the network between machines? confidence: "high" or "medium" where the answer is yes."""

    answer: Answer
    why: str
    confidence: str = "high"
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator, joined over its ranks.

    nranks: its size, None where no line tells. nnodes, local_ranks: NCCL's own count of nodes (2.20.3+), else None.
    ranks: those seen in the input. machines: where they run, of those that are known. networks: what it uses.
    completed: how many of the ranks seen finished init. ambiguous: ranks could not be told apart from those of a twin.
    crossing: does it use the network between machines.
    """

    id: int
    nranks: int | None
    nnodes: int | None
    local_ranks: int | None
    mnnvl: bool
    ranks: tuple[int, ...]
    machines: tuple[str, ...]
    networks: tuple[str, ...]
    started: int
    completed: int
    ambiguous: bool
    crossing: Crossing
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeGroup:
    """Edges that look alike, on all machines that print them.

    transport: P2P, SHM or NET. method: IPC, CUMEM, direct, ... scope: "between" machines, "inside" one, or "unknown".
    machines: of the printing ends. devices: net-device names (NET). edges: how many lines. nnodes_one: all of these
    edges belong to communicators with nNodes 1.
    """

    transport: str
    method: str
    network: str
    direction: str
    gdr: bool | None
    scope: str
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    edges: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Nic:
    """A net device as a machine lists it. gbit: its rate in Gb/s where the input proves it."""

    index: int
    name: str
    link: str
    gbit: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of failure. category: the event's name; fields: as the record gives them (text, errno_text, call...)."""

    category: str
    level: str
    fields: dict[str, str]
    machines: tuple[str, ...]
    count: int
    evidence: tuple[Evidence, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class GdrRefusal:
    """NCCL says that it does without GPUDirect RDMA. kind: "hca", a device as a whole; or "distance", a GPU and a
    device whose path is of type `distance`, further than `limit` (both numbered as in that release)."""

    kind: str
    hca: str
    distance: int | None
    limit: int | None
    reason: str
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """A GPU that several ranks of one communicator say they use."""

    machine: str
    bus_id: str
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]
