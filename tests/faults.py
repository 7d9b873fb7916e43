"""Faults for healthy logs: each changes what one real fault would change in the log, and nothing else.

The logs come from the generator of `benchmarks/loggen`, whose hosts are `gpu-001` (`vm-001`) and so on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from loggen import Shape, lines

Log = list[str]
Edit = Callable[[Log], Log]

# Everything up to the message: label, host, pid, tid and device.
HEAD = re.compile(r"^(?P<label>.*?)(?P<host>(?:gpu|vm)-\d{3}):(?P<pid>\d+):(?P<tid>\d+) \[(?P<device>\d+)\] ")


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
    since: tuple[int, ...] = (2, 7, 3)
    before: tuple[int, ...] = (9,)

    @property
    def family(self) -> str:
        return self.code.rstrip("0123456789")


def edited(*edits: Edit) -> Callable[[Shape], Log]:
    """The healthy log with these edits."""

    def make(shape: Shape) -> Log:
        log = list(lines(shape))
        for edit in edits:
            log = edit(log)
        return log

    return make


def generated(fault: str) -> Callable[[Shape], Log]:
    """A fault that the generator knows."""
    return lambda shape: list(lines(replace(shape, fault=fault)))


def host_of(line: str) -> str:
    head = HEAD.match(line)
    return head["host"] if head else ""


def hosts(log: Log) -> list[str]:
    return sorted({host_of(line) for line in log} - {""})


def swap(pattern: str, text: str, machine: int | None = None) -> Edit:
    """`re.sub` in every line, or in those of one machine (-1: the last)."""

    def edit(log: Log) -> Log:
        host = None if machine is None else hosts(log)[machine]
        changed = [re.sub(pattern, text, line) if host in (None, host_of(line)) else line for line in log]
        assert changed != log, f"no line matches {pattern}"
        return changed

    return edit


def drop(pattern: str, machine: int | None = None) -> Edit:
    def edit(log: Log) -> Log:
        host = None if machine is None else hosts(log)[machine]
        return [line for line in log if host not in (None, host_of(line)) or not re.search(pattern, line)]

    return edit


def say(*messages: str, after: str = "Bootstrap", machine: int | None = None, local: int | None = None) -> Edit:
    """More INFO records, after the first line with `after` of every process, of one machine's or of one process."""

    def edit(log: Log) -> Log:
        host = None if machine is None else hosts(log)[machine]
        return list(_with(log, messages, after, host, local))

    return edit


def _with(log: Log, messages: Iterable[str], after: str, host: str | None, local: int | None) -> Iterator[str]:
    done = set()
    for line in log:
        yield line
        head = HEAD.match(line)
        if not head or after not in line or host not in (None, head["host"]):
            continue
        process = head["host"], head["pid"]
        if process not in done and local in (None, int(head["device"])):
            done.add(process)
            yield from (f"{head[0]}NCCL INFO {message}" for message in messages)
    assert done, f"no line has {after}"


def setting(name: str, value: str, machine: int | None = None) -> Edit:
    return say(f"{name} set by environment to {value}", machine=machine)


def warn(text: str, source: str, machine: int = -1, local: int = 0, code: int = 2) -> Edit:
    """A WARN of one process at the end of the log, in the form of the release, with the trace that follows it."""

    def edit(log: Log) -> Log:
        host = hosts(log)[machine]
        head = next(m for m in map(HEAD.match, reversed(log)) if m and m["host"] == host and m["device"] == str(local))
        place = head[0][len(head["label"]) :]
        if any("version 2.30" in line for line in log):
            record = f"[2026-04-11 09:41:07] {place}{source} (ncclFunc) NCCL WARN {text}"
            trace = f"{place}NCCL INFO {source} (ncclFunc) -> {code}"
        else:
            time = "[2026-04-11 09:41:07] " if any("version 2.27" in line for line in log) else ""
            record, trace = f"{time}{place}{source} NCCL WARN {text}", f"{place}NCCL INFO {source} -> {code}"
        return [*log, head["label"], head["label"] + record, head["label"] + trace]

    return edit


def until(pattern: str, machine: int | None = None) -> Edit:
    """The job stops: nothing after (and with) the first line that matches, on all machines or on one."""

    def edit(log: Log) -> Log:
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


# What a rank prints from the moment that it connects.
_CONNECTING = r" via |Connected|Init COMPLETE|coll channels"

NODES = ("two", "vm")
RDMA = ("two", "many", "vm")

FAULTS = (
    Fault("no HCA on any machine", "IB001", generated("socket_fallback"), RDMA, "error"),
    Fault("NCCL_IB_DISABLE", "IB003", generated("ib_disabled"), RDMA),
    Fault("no GPUDirect anywhere", "GDR002", generated("gdr_off"), RDMA),
    Fault("rings that cross rails", "TOP001", generated("non_rail"), RDMA),
    Fault(
        "each rank on one core",
        "HST007",
        edited(swap(r"(Setting affinity for GPU \d+ to) .*", r"\1 01,00000001")),
        NODES,
        since=(2, 12),
        before=(2, 28),
    ),
    Fault(
        "a cpuset of one CPU",
        "HST007",
        edited(swap(r"(Affinity for GPU \d+ is) [^.]*\.", r"\1 0.")),
        NODES,
        since=(2, 28),
    ),
    Fault(
        "CPUs of the other socket",
        "TOP003",
        edited(
            swap(
                r"is 32-63\. \(GPU affinity = 32-63 ; CPU affinity = 0-63\)",
                "is empty, ignoring. (GPU affinity = 32-63 ; CPU affinity = 0-31)",
            )
        ),
        NODES,
        since=(2, 28),
    ),
    Fault(
        "ranks with fewer channels", "TOP005", edited(swap(r"\d+ coll channels", "1 coll channels", machine=-1)), NODES
    ),
    Fault(
        "memory that the NIC cannot reach",
        "PCI004",
        edited(
            warn(
                "NET/IB : Got completion from peer 10.0.0.2<40001> with status=4 opcode=0 len=0 vendor err 81 (Recv)",
                "transport/net_ib.cc:1295",
            )
        ),
        ("two",),
        since=(2, 20, 3),
        before=(2, 22),
    ),
    Fault("P2P switched off", "PCI002", generated("p2p_disabled"), ("one", "two"), "error"),
    Fault("two GPUs without peer access", "PCI002", generated("p2p_pair"), ("one", "two"), "error"),
    Fault("/dev/shm too small", "HST001", generated("shm_small"), ("one", "two"), "error"),
    Fault("a route is missing", "HST005", generated("connect"), ("two", "many"), "error"),
    Fault("two ranks on one GPU", "RUN002", generated("duplicate_gpu"), ("one", "two"), "error"),
    Fault("a traffic class out of range", "ENV003", edited(setting("NCCL_IB_TC", "512.")), RDMA),
    Fault(
        "a host with its own thread count",
        "ENV004",
        edited(setting("NCCL_NTHREADS", "256.", 0), setting("NCCL_NTHREADS", "512.", 1)),
        ("two", "vm"),
        "error",
    ),
    Fault("LL forced", "ENV005", edited(setting("NCCL_PROTO", "LL")), ("two", "many")),
    Fault("CUDA fails", "RUN007", generated("cuda"), ("one", "two", "efa", "tcpx"), "error"),
    Fault(
        "a bridge for bootstrap",
        "NET002",
        edited(
            swap(r"eth0:10\.\d+\.\d+\.\d+", "docker0:172.17.0.1"),
            until(r"Using network"),
            warn("Net : Connect to 172.17.0.1<40231> failed : Connection refused", "misc/socket.cc:121"),
        ),
        ("two",),
        "error",
        since=(2, 10, 3),
    ),
    Fault(
        "no interface of that name",
        "NET002",
        edited(until(r"Bootstrap"), warn("Bootstrap : no socket interface found", "bootstrap.cc:49", code=3)),
        ("two", "one"),
        "error",
    ),
    Fault(
        "one machine with another network",
        "NET003",
        edited(
            setting("NCCL_NET", "Socket", machine=-1),
            drop(r"NET/IB : Using", machine=-1),
            swap(r"Using network IB", "Using network Socket", machine=-1),
            until(_CONNECTING),
        ),
        ("two", "many"),
        "error",
    ),
    Fault(
        "EFA did not reach the container",
        "NET004",
        edited(
            swap(r"NET/OFI Selected [Pp]rovider.*", "NET/OFI No eligible providers were found"),
            swap(r"Using network .*", "Using network Socket"),
            drop(r"NET/OFI NIC group|Assigned NET|Initialized NET"),
            swap(r"via NET/(?:AWS )?Libfabric/\d+\S*", "via NET/Socket/0"),
        ),
        ("efa",),
        "error",
    ),
    Fault(
        "little memory may be locked",
        "HST002",
        edited(
            until(_CONNECTING),
            warn("Call to ibv_create_cq failed with error Cannot allocate memory", "misc/ibvwrap.cc:150"),
        ),
        ("two", "vm"),
        "error",
        since=(2, 14, 3),
    ),
    Fault(
        "devices that may not be opened",
        "HST003",
        lambda shape: warn("NET/IB : Unable to open device mlx5_0", "transport/net_ib.cc:149")(
            generated("socket_fallback")(shape)
        ),
        ("two", "many"),
        "error",
    ),
)
