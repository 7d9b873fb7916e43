"""The picture of the job: what NCCL decided, in the few lines that open a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of a kind of machine and the NIC that serves it.

    gpu: NVML index, or the CUDA device or bus id where the release prints those. nics: net-device names (or "NET/i").
    gdr: "yes", "no", "receive only", "send only", "mixed" or "unknown"; "" on networks that never print it.
    intra: path to its ring peers inside the node ("P2P/CUMEM", "SHM", ...), or "" when no such edge was seen.
    """

    gpu: str
    nics: tuple[str, ...]
    gdr: str
    intra: str


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Machines that look alike: their names, ranks on each, net devices listed, and their GPUs."""

    hosts: tuple[str, ...]
    ranks_per_machine: int
    devices: tuple[str, ...]
    gpus: tuple[GpuRow, ...]


@dataclass(frozen=True, slots=True)
class CommunicatorKind:
    """Communicators of one shape: how many of them, nranks, nnodes (None where the log does not say) and spread.

    spread: "inside one node", "one rank per node", "several per node" or "unknown".
    """

    count: int
    nranks: int
    nnodes: int | None
    spread: str


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Calls of one collective with one size. count: elements, as the program passes it. datatype: "" where unknown.
    nbytes: count times the size of an element, None where that is unknown. calls: over all ranks."""

    op: str
    count: int
    datatype: str
    nbytes: int | None
    nranks: int | None
    calls: int


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """What NCCL's tuner chose for operations of one size.

    op: "" where the release does not print it. algorithm: "ring", "nvlstree", ...; of symmetric memory the kernel.
    protocol: "simple", "ll" or "ll128"; "" for kernels.
    """

    op: str
    nbytes: int
    algorithm: str
    protocol: str
    calls: int


@dataclass(frozen=True, slots=True)
class JobPicture:
    """library: "NCCL" or "RCCL". release: its release(s) as text: those printed, else the range of those with such
    lines, "" if neither is known. cuda: what it was built with (HIP for RCCL). gpu: GPU class(es) the log proves, ""
    if none.

    ranks_seen of ranks_total (None: unknown). networks: names NCCL chose ("IB", "Socket", ...).
    """

    library: str
    release: str
    cuda: str
    gpu: str
    machines: int
    ranks_seen: int
    ranks_total: int | None
    networks: tuple[str, ...]
    communicators: tuple[CommunicatorKind, ...]
    operations: tuple[OperationKind, ...]
    kinds: tuple[MachineKind, ...]
    choices: tuple[ChoiceKind, ...] = ()
