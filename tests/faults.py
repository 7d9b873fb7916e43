"""Faults for healthy logs: each changes what one real fault would change in the log, and nothing else.

The logs come from the generator of `benchmarks/loggen`, whose hosts are `gpu-001` (`vm-001`) and so on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from loggen import Shape, lines

Log = list[str]
Edit = Callable[[Log, Shape], Log]
# A text that differs by release: the first release that prints it, and the text.
ByRelease = tuple[tuple[tuple[int, ...], str], ...]

# Everything up to the message: label, host, pid, tid and device.
HEAD = re.compile(r"^(?P<label>.*?)(?P<host>(?:gpu|vm)-\d{3}):(?P<pid>\d+):(?P<tid>\d+) \[(?P<device>\d+)\] ")
ALWAYS = (2, 7, 3)


@dataclass(frozen=True)
class Fault:
    """code: the rule that must speak, with at least this severity. make: the log of a shape, with the fault in it.
    kinds: the shapes (names of test_mutations) to which it applies. since, before: releases to which it applies.
    """

    name: str
    code: str
    make: Callable[[Shape], Log]
    kinds: tuple[str, ...]
    severity: str = "warning"
    since: tuple[int, ...] = ALWAYS
    before: tuple[int, ...] = (9,)

    @property
    def family(self) -> str:
        return self.code.rstrip("0123456789")


def edited(*edits: Edit, fault: str | None = None, **changes: Any) -> Callable[[Shape], Log]:
    """The log of a shape (with a fault that the generator knows, or other changes) with these edits."""

    def make(shape: Shape) -> Log:
        log = list(lines(replace(shape, fault=fault, **changes)))
        for edit in edits:
            log = edit(log, shape)
        return log

    return make


def generated(fault: str) -> Callable[[Shape], Log]:
    return edited(fault=fault)


def host_of(line: str) -> str:
    head = HEAD.match(line)
    return head["host"] if head else ""


def hosts(log: Log) -> list[str]:
    return sorted({host_of(line) for line in log} - {""})


def text_of(texts: str | ByRelease, shape: Shape) -> str:
    if isinstance(texts, str):
        return texts
    return next(text for since, text in reversed(texts) if shape.version >= since)


def swap(pattern: str, text: str | ByRelease, machine: int | None = None, required: bool = True) -> Edit:
    """`re.sub` in every line, or in those of one machine (-1: the last)."""

    def edit(log: Log, shape: Shape) -> Log:
        host = None if machine is None else hosts(log)[machine]
        new = text_of(text, shape)
        changed = [re.sub(pattern, new, line) if host in (None, host_of(line)) else line for line in log]
        assert changed != log or not required, f"no line matches {pattern}"
        return changed

    return edit


def drop(pattern: str, machine: int | None = None) -> Edit:
    def edit(log: Log, shape: Shape) -> Log:
        host = None if machine is None else hosts(log)[machine]
        return [line for line in log if host not in (None, host_of(line)) or not re.search(pattern, line)]

    return edit


def say(*messages: str, after: str = "Bootstrap", machine: int | None = None, local: int | None = None) -> Edit:
    """More INFO records, after the first line with `after` of every process, of one machine's or of one process.
    `RANK` in a message is the rank."""

    def edit(log: Log, shape: Shape) -> Log:
        host = None if machine is None else hosts(log)[machine]
        return list(_with(log, shape, messages, after, host, local))

    return edit


def _with(
    log: Log, shape: Shape, messages: Iterable[str], after: str, host: str | None, local: int | None
) -> Iterator[str]:
    done = set()
    for line in log:
        yield line
        head = HEAD.match(line)
        if not head or after not in line or host not in (None, head["host"]):
            continue
        process = head["host"], head["pid"]
        if process not in done and local in (None, int(head["device"])):
            done.add(process)
            rank = (int(head["host"][-3:]) - 1) * shape.gpus + int(head["device"])
            yield from (f"{head[0]}NCCL INFO {message.replace('RANK', str(rank))}" for message in messages)
    assert done, f"no line has {after}"


def setting(name: str, value: str, machine: int | None = None) -> Edit:
    return say(f"{name} set by environment to {value}", machine=machine)


def warn(text: str | ByRelease, source: str, machine: int = -1, local: int = 0, code: int = 2) -> Edit:
    """A WARN of one process at the end of the log, in the form of the release, with the trace that follows it."""

    def edit(log: Log, shape: Shape) -> Log:
        host = hosts(log)[machine]
        head = next(m for m in map(HEAD.match, reversed(log)) if m and m["host"] == host and m["device"] == str(local))
        place = head[0][len(head["label"]) :]
        time = "[2026-04-11 09:41:07] " if shape.version >= (2, 26, 2) else ""
        function = " (ncclFunc)" if shape.version >= (2, 30, 3) else ""
        record = f"{time}{place}{source}{function} NCCL WARN {text_of(text, shape)}"
        trace = f"{place}NCCL INFO {source}{' (ncclFunc)' if shape.version >= (2, 30, 7) else ''} -> {code}"
        return [*log, head["label"], head["label"] + record, head["label"] + trace]

    return edit


def until(pattern: str, machine: int | None = None) -> Edit:
    """Processes (all, or those of one machine) say nothing more from the first line that matches."""

    def edit(log: Log, shape: Shape) -> Log:
        host = None if machine is None else hosts(log)[machine]
        stopped: set[tuple[str, str]] = set()
        kept = []
        for line in log:
            head = HEAD.match(line)
            if head and host in (None, head["host"]):
                process = head["host"], head["pid"]
                if re.search(pattern, line):
                    stopped.add(process)
                if process in stopped:
                    continue
            kept.append(line)
        return kept

    return edit


def outside(*texts: str, machine: int = -1) -> Edit:
    """Lines at the end that are not NCCL's, with the label of a process of that machine. HOST is its name."""

    def edit(log: Log, shape: Shape) -> Log:
        host = hosts(log)[machine]
        head = next(m for m in map(HEAD.match, log) if m and m["host"] == host)
        return log + [head["label"] + text.replace("HOST", host) for text in texts]

    return edit


def torn(log: Log, shape: Shape) -> Log:
    """One record begins within another, whose end is lost."""
    at = next(i for i, line in enumerate(log) if " via P2P" in line)
    return [*log[:at], log[at][: log[at].index("P2P") + 2] + log[at + 1], *log[at + 2 :]]


IN_SHM: ByRelease = (
    (ALWAYS, r"\1\2 via direct shared memory"),
    ((2, 13, 4), r"\1\2 via SHM/direct/direct"),
    ((2, 30, 7), r"\1\2 via SHM/direct"),
)
PORT_ERROR: ByRelease = (
    (ALWAYS, "NET/IB : Got async event : port error"),
    ((2, 20, 3), "NET/IB : mlx5_1:1 Got async event : port error"),
    ((2, 23, 4), "NET/IB : mlx5_1:1 Got async error event: port error"),
    ((2, 28, 7), "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)"),
)
QP_TIMEOUT: ByRelease = (
    (ALWAYS, "Call to ibv_modify_qp failed with error Connection timed out"),
    ((2, 19, 1), "Call to ibv_modify_qp failed with error Connection timed out errno 110"),
    ((2, 24, 3), "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next"
     " state RTR, local GID index 3, local GID ::ffff:10.21.1.5, remote GID ::ffff:10.21.1.6"),
)  # fmt: skip
PATH_GONE: ByRelease = (
    (ALWAYS, "NET/IB : Got completion from peer 10.64.0.11<41233> with error 12, opcode 0, len 0, vendor err 129"),
    ((2, 18, 1), "NET/IB : Got completion from peer 10.64.0.11<41233> with error 12, opcode 0, len 0, vendor err 129"
     " (Send) localGid ::ffff:10.21.1.5 remoteGid ::ffff:10.21.1.6"),
    ((2, 20, 3), "NET/IB : Got completion from peer 10.64.0.11<41233> with status=12 opcode=0 len=0 vendor err 129"
     " (Send) localGid ::ffff:10.21.1.5 remoteGids::ffff:10.21.1.6"),
    ((2, 22, 3), "NET/IB: Got completion from peer 10.64.0.11<41233> with status=12 opcode=0 len=0 vendor err 129"
     " (Send) localGid ::ffff:10.21.1.5 remoteGids::ffff:10.21.1.6 hca mlx5_1"),
    ((2, 29, 2), "NET/IB: Got completion from peer 10.64.0.11<41233> with status=IBV_WC_RETRY_EXC_ERR(12)"
     " opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 localGid ::ffff:10.21.1.5 remoteGids::ffff:10.21.1.6 hca mlx5_1"),
)  # fmt: skip
# What a rank prints from the moment that it connects.
_CONNECTING = r" via |Connected|Init COMPLETE|coll channels"

# Kinds of healthy logs.
NODES = ("two", "vm")
INSIDE = ("one", "two", "one-graph", "graph")
RDMA = ("two", "many", "vm", "graph")

# fmt: off
FAULTS = (
    Fault("no HCA on any machine", "IB001", generated("socket_fallback"), RDMA, "error"),
    Fault("NCCL_IB_DISABLE", "IB003", generated("ib_disabled"), RDMA),
    Fault("NCCL_NET=Socket", "NET001", edited(
        swap("NCCL_IB_HCA set to mlx5", "NCCL_NET set by environment to Socket"), drop("No device found"),
        fault="socket_fallback"), RDMA),
    Fault("an interface that does not exist", "NET002", edited(
        swap("IFNAME set by environment to eth0", "IFNAME set by environment to bond7", -1),
        until("Bootstrap", -1), until("Init START|NET/"),
        warn("Bootstrap : no socket interface found", "bootstrap.cc:65")),
        NODES, "error"),
    Fault("no HCA on one machine", "IB001", edited(
        swap("NET/IB : Using.*", "NET/IB : No device found.", -1), swap("(network|plugin) IB", r"\1 Socket", -1),
        until(" via |Ring |Connected")), NODES, "error"),
    Fault("a port goes down", "IB006", edited(warn(PORT_ERROR, "transport/net_ib.cc:93")), RDMA),
    Fault("GID without a route", "IB007", edited(
        until(" via NET"), warn(QP_TIMEOUT, "misc/ibvwrap.cc:200"), fabric="roce"), ("two", "graph"), "error"),
    Fault("the path is gone", "IB010", edited(warn(PATH_GONE, "transport/net_ib.cc:1295", code=6)), RDMA, "error"),
    Fault("no GPUDirect anywhere", "GDR002", generated("gdr_off"), RDMA),
    Fault("no GPUDirect on one machine", "GDR001", edited(
        swap("/GDRDMA", "", -1), swap("GDR 1$", "GDR 0", -1, required=False)), ("two", "many", "vm", "efa")),
    Fault("rings that cross rails", "TOP001", generated("non_rail"), RDMA),
    Fault("a group over two machines", "TOP008", edited(
        say("comm 0x77f0 rank RANK nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0", after="Init COMPLETE",
            local=0)),
        ("two", "graph"), since=(2, 20, 3)),
    Fault("P2P switched off", "PCI002", generated("p2p_disabled"), INSIDE, "error"),
    Fault("two GPUs without peer access", "PCI002", generated("p2p_pair"), INSIDE, "error"),
    Fault("host memory between NVLink GPUs", "PCI002", edited(
        swap(r"(Channel \d+)(?:/0)?( : \S+ -> \S+) via P2P/\S+", IN_SHM, -1)), INSIDE, since=(2, 18, 1)),
    Fault("NVLS is not there on one machine", "NVL003", edited(
        swap("NVLS multicast support is available on", "NVLS multicast support is not available on", -1)),
        ("two", "vm", "graph"), since=(2, 18, 1)),
    Fault("/dev/shm too small", "HST001", generated("shm_small"), INSIDE, "error"),
    Fault("a route is missing", "HST005", generated("connect"), RDMA, "error"),
    Fault("a traffic class out of range", "ENV003", edited(setting("NCCL_IB_TC", "512.")), RDMA),
    Fault(
        "a host with its own thread count",
        "ENV004",
        edited(setting("NCCL_NTHREADS", "256.", 0), setting("NCCL_NTHREADS", "512.", 1)),
        ("two", "vm"),
        "error",
    ),
    Fault("LL forced", "ENV005", edited(setting("NCCL_PROTO", "LL")), ("two", "many")),
    Fault("another NCCL on one machine", "RUN001", edited(
        swap(r"(NCCL version) 2\.\d+\.\d+", r"\1 2.26.2", -1), until("Bootstrap timings|nRanks| via ")),
        ("two", "rack", "efa", "tcpxo"), "error", since=(2, 22, 3)),
    Fault("NCCL says that versions differ", "RUN001", edited(
        until("nRanks| via "), warn("Mismatched NCCL version detected : rank 0 version 22707 rank 8 version 22602",
        "init.cc:1032", code=5)), ("two", "efa", "tcpxo"), "error", since=(2, 23, 4)),
    Fault("two ranks on one GPU", "RUN002", generated("duplicate_gpu"), ("one", "two"), "error"),
    Fault("CUDA fails", "RUN007", generated("cuda"), ("one", "two", "many", "rack", "efa", "tcpx", "tcpxo", "vm"),
        "error"),
    Fault("warnings only", "LOG001", edited(drop("NCCL INFO (?!NCCL version)")), ("one", "two", "rack"), "info"),
    Fault("torn lines", "LOG002", edited(torn), ("one", "two", "vm", "efa", "tcpxo", "rack"), "info"),
    Fault("the log of one machine is not there", "LOG003", edited(drop("(?=)", -1)),
        ("two", "many", "vm", "efa", "tcpx"), "info"),
)
# fmt: on
