"""The processes of a job, and NCCL's prefixes around what they say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .forms import LINE_LIMIT, Where, bus_id
from .shape import Shape

Stream = list[str]


@dataclass
class Process:
    rank: int
    machine: int
    local: int  # its number on the machine
    device: int  # the GPU it uses
    host: str
    address: str
    pid: int
    init_tid: int  # thread that makes communicators
    connect_tid: int  # thread that connects them at first use, 2.22.3 and newer
    label: str
    bus: int
    world: str = ""  # pointer of the world communicator
    splits: int = 0
    pointers: int = 0
    prefixes: dict[int, str] = field(default_factory=dict)

    def prefix(self, tid: int) -> str:
        if tid not in self.prefixes:
            self.prefixes[tid] = f"{self.host}:{self.pid}:{tid} [{self.device}] "
        return self.prefixes[tid]

    def next_pointer(self) -> str:
        self.pointers += 1
        return f"0x{0x5600_0000_0000 + self.pid * 0x100_0000 + self.pointers * 0x2400:x}"


class Writer:
    """Puts label, host, pid, thread and device in front of messages, as one release does."""

    def __init__(self, shape: Shape) -> None:
        self.version = shape.version
        self.cut = self.version < (2, 29, 2)
        self.seconds = 0

    def info(self, process: Process, tid: int, messages: Iterable[str]) -> Stream:
        start = f"{process.label}{process.prefix(tid)}NCCL INFO "
        if not self.cut:
            return [start + message for message in messages]
        limit = LINE_LIMIT + len(process.label)
        return [(start + message)[:limit] for message in messages]

    def warn(self, process: Process, tid: int, where: Where) -> Stream:
        """An empty line and the WARN."""
        file, line, function, text = where
        time = ""
        if self.version >= (2, 26, 2):
            self.seconds += 1
            minutes, seconds = divmod(self.seconds, 60)
            time = f"[2026-04-11 09:{17 + minutes % 40:02d}:{seconds:02d}] "
        caller = f" ({function or 'ncclFunc'})" if self.version >= (2, 30, 3) else ""
        return [process.label, f"{process.label}{time}{process.prefix(tid)}{file}:{line}{caller} NCCL WARN {text}"]

    def trace(self, process: Process, tid: int, code: int, levels: Iterable[tuple[str, int, str]]) -> Stream:
        """The back trace after a WARN, one INFO line per level."""
        named = self.version >= (2, 30, 7)
        messages = [f"{file}:{line}{f' ({function})' if named else ''} -> {code}" for file, line, function in levels]
        messages[-1] += " [Async thread]"
        return self.info(process, tid, messages)


def processes(shape: Shape) -> list[Process]:
    return [_process(shape, rank) for rank in range(shape.ranks)]


def _process(shape: Shape, rank: int) -> Process:
    machine, local = divmod(rank, shape.gpus)
    host = f"{'vm' if shape.vm else 'gpu'}-{machine + 1:03d}"
    address = f"10.64.{machine // 240 % 250}.{machine % 240 + 11}"
    pid = 3000 + machine * 37 % 4000 + local * 3
    digits = len(str(max(shape.ranks - 1, 1)))
    label = {
        "none": "",
        "mpirun": f"[1,{rank}]<stdout>:",
        "srun": f"{rank:0{digits}d}: ",
        "torchrun": f"[default{local}]:",
        "pdsh": f"{host}: ",
        "kubectl": f"[pod/train-worker-{machine}/pytorch] ",
    }[shape.launcher]
    twin = shape.fault == "duplicate_gpu" and machine == shape.fault_machine and local == 1
    device = 0 if twin else local
    tids = pid + 700, pid + 900
    return Process(rank, machine, local, device, host, address, pid, *tids, label, bus_id(shape, device))
