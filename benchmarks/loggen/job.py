"""A job's whole log: the world communicator, further ones until the log is long enough, and how a fault ends it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from .arrival import interleave, with_training
from .comm import Comm, CommWriter
from .forms import Forms
from .graph import Layout
from .process import Process, Stream, Writer, processes
from .shape import GOOGLE, STOPPING_FAULTS, Shape, resolve

INIT_TRACE = (("init.cc", 1402, "initTransportsRank"), ("group.cc", 64, "ncclAsyncJobMain"))


def lines(shape: Shape) -> Iterator[str]:
    """The whole log, line by line, without line ends. The same shape gives the same lines."""
    return _Job(resolve(shape)).lines()


class _Job:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.version = shape.version
        self.forms = Forms(shape)
        self.writer = Writer(shape)
        self.comms = CommWriter(shape, self.forms, self.writer)
        self.random = random.Random(shape.seed)
        self.processes = processes(shape)
        self.split = self.version >= (2, 21, 5)  # groups are split off the world; before, ordinary communicators
        self.made = 0

    def lines(self) -> Iterator[str]:
        log = self._nccl_lines()
        if not self.shape.other:
            return log
        return with_training(self.random, log, self.shape.other, [process.label for process in self.processes])

    def _nccl_lines(self) -> Iterator[str]:
        shape, count = self.shape, 0
        present = [process for process in self.processes if not self._missing(process)]
        for streams in self._world(present):
            count += sum(map(len, streams))
            yield from interleave(self.random, streams)
        if shape.fault in STOPPING_FAULTS:
            yield from self._ending(present)
        elif shape.lines is not None:
            for streams in self._padding(round(shape.lines * (1 - shape.other)) - count):
                yield from interleave(self.random, streams)

    def _missing(self, process: Process) -> bool:
        shape = self.shape
        if shape.fault != "missing_ranks":
            return False
        return process.machine == shape.fault_machine if shape.machines > 1 else process.local == shape.gpus - 1

    # -- the world communicator

    def _world(self, present: list[Process]) -> Iterator[list[Stream]]:
        shape, locals_ = self.shape, tuple(range(self.shape.gpus))
        yield [self._start(process) for process in present]
        if shape.fabric == "mnnvl":
            layout = Layout(1, shape.ranks, shape.channel_count, locals_ * shape.machines)
        else:
            layout = Layout(shape.machines, shape.gpus, shape.channel_count, locals_)
        ranks = [process.rank for process in present]
        for streams in self.comms.steps(Comm(layout, tuple(self.processes), self._identity(), world=True)):
            yield [streams[rank] for rank in ranks]

    def _start(self, process: Process) -> Stream:
        """From process start to the list of network devices."""
        shape, forms, v = self.shape, self.forms, self.version
        early: list[str] = []
        if v >= (2, 13, 4):
            early.append(f"cudaDriverVersion {forms.driver}")
        if v >= (2, 22, 3):
            early.append(forms.version_line())
        if v >= (2, 29, 2):
            early.append(forms.git_version())
        early += ["NCCL_SOCKET_IFNAME set by environment to eth0", forms.bootstrap(process.address)]
        plugin = shape.fabric in ("efa", *GOOGLE)
        network = forms.plugin_loaded(process.address) if plugin else forms.plugin_missing()
        if shape.fabric == "roce" and not shape.sockets and v < (2, 21, 5):
            network.append("NCCL_IB_GID_INDEX set by environment to 3.")
        if not plugin:
            network += forms.network(process.address)
        if shape.verbose:
            network += self.comms.verbose.devices()
        if v >= (2, 27, 3):
            network.append(f"Initialized NET plugin {shape.network}")
        lines_ = self.writer.info(process, process.pid, early)
        if v < (2, 22, 3) and process.rank == 0:
            lines_.append(process.label + forms.version_line())
        return lines_ + self.writer.info(process, process.init_tid if self.comms.own_thread else process.pid, network)

    def _identity(self) -> str:
        self.made += 1
        return f"0x{random.Random(f'{self.shape.seed}/{self.made}').getrandbits(64) | 1 << 63:x}"

    # -- further communicators

    def _padding(self, room: int) -> Iterator[list[Stream]]:
        """Rounds of tensor groups (one per machine) and data groups (one per local rank) while they fit.

        Then single tensor groups, then groups of two GPUs: no communicator is ever left unfinished.
        """
        machines, gpus = range(self.shape.machines), range(self.shape.gpus)
        tensor = [[machine * len(gpus) + local for local in gpus] for machine in machines] if len(gpus) > 1 else []
        data = [[machine * len(gpus) + local for machine in machines] for local in gpus] if len(machines) > 1 else []
        pairs = [[first, first + 1] for first in range(0, len(machines) * len(gpus) - 1, len(gpus))] if tensor else []
        whole = tensor + data
        round_size = self._size(whole)
        while whole and room >= round_size:
            yield from self._groups(tensor)
            yield from self._groups(data)
            room -= round_size
        for groups in (tensor, pairs):
            if not groups:
                continue
            size = self._size(groups[:1])
            while room >= size:
                some = groups[: min(len(groups), room // size)]
                yield from self._groups(some)
                room -= size * len(some)

    def _size(self, groups: list[list[int]]) -> int:
        """Lines of these groups, measured on a copy of the job: groups of one shape are of one size."""
        copy = _Job(self.shape)
        sizes: dict[tuple[int, bool], int] = {}
        total = 0
        for ranks in groups:
            comm = copy._group(ranks)
            key = len(ranks), comm.spans
            if key not in sizes:
                sizes[key] = sum(len(stream) for streams in copy.comms.steps(comm) for stream in streams)
            total += sizes[key]
        return total

    def _groups(self, groups: list[list[int]]) -> Iterator[list[Stream]]:
        """All these groups at once, step by step."""
        comms = [self._group(ranks) for ranks in groups]
        for comm in comms:
            for process in comm.members:
                process.splits += 1
        for steps in zip(*(self.comms.steps(comm) for comm in comms), strict=True):
            yield [stream for streams in steps for stream in streams]

    def _group(self, ranks: list[int]) -> Comm:
        shape = self.shape
        members = tuple(self.processes[rank] for rank in ranks)
        locals_ = tuple(member.local for member in members)
        if members[0].machine == members[-1].machine:
            layout = Layout(1, len(ranks), {"nvlink": 24, "pcie": 4, "shm": 2}[shape.gpu], locals_)
        elif shape.fabric == "mnnvl":
            layout = Layout(1, len(ranks), 16, locals_)
        else:
            share = max(1, shape.nic_count // shape.gpus)
            layout = Layout(len(ranks), 1, max(4 if shape.nvls else 2, 2 * share), locals_[:1])
        identity = self._identity()
        return Comm(layout, members, identity, self.made if self.split else None)

    # -- how a job with a fault ends

    def _ending(self, present: list[Process]) -> Iterator[str]:
        shape, forms = self.shape, self.forms
        here = [process for process in present if process.machine == shape.fault_machine]
        if shape.fault == "missing_ranks":
            first = present[0]
            reason = f"JOB 41877 ON {first.host} CANCELLED AT 2026-04-11T10:17:44 DUE TO TIME LIMIT"
            yield f"{first.label}slurmstepd: error: *** {reason} ***"
        elif shape.fault == "duplicate_gpu":
            for process, other in zip(here[:2], reversed(here[:2]), strict=True):
                where = forms.duplicate_gpu(process.rank, other.rank, process.bus)
                yield from self._failure(process, process.init_tid, where, 5, INIT_TRACE)
        elif shape.fault == "shm_small":
            trace = (("misc/shmutils.cc", 116, "ncclShmOpen"), ("transport/shm.cc", 114, "shmSendSetup"), *INIT_TRACE)
            for process in here:
                name = "".join(self.random.choices("abcdefghkmnpqrstuvwxyzABCDEFGH23456789", k=6))
                yield from self._failure(process, self._connect_tid(process), forms.shm_too_small(name), 2, trace)
        elif shape.fault == "connect":
            process = here[0]
            peer = next(p for p in present if p.rank != process.rank and (shape.machines == 1 or p not in here))
            trace = (("transport/net.cc", 306, "sendConnect"), ("transport.cc", 165, "setup"), *INIT_TRACE)
            where = forms.connect_failed(f"{peer.address}<{40000 + peer.pid}>")
            yield from self._failure(process, self._connect_tid(process), where, 2, trace)
        elif shape.fault == "cuda":
            process = here[0]
            where = "enqueue.cc", 1451, "ncclLaunchKernel", "Cuda failure 'out of memory'"
            trace = (("enqueue.cc", 1452, "ncclLaunchKernel"), ("group.cc", 181, "doLaunches"))
            yield from self._failure(process, process.pid, where, 1, (*trace, ("group.cc", 424, "groupLaunch")))

    def _connect_tid(self, process: Process) -> int:
        return process.connect_tid if self.comms.late else process.init_tid

    def _failure(
        self,
        process: Process,
        tid: int,
        where: tuple[str, int, str, str],
        code: int,
        trace: tuple[tuple[str, int, str], ...],
    ) -> Stream:
        return self.writer.warn(process, tid, where) + self.writer.trace(process, tid, code, trace)
