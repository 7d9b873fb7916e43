"""What a job prints with NCCL_DEBUG_SUBSYS=COLL: a line per operation and rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

# Operation, elements, number of the datatype: a step of training.
_STEP = (
    ("AllReduce", 1_048_576, 9),
    ("AllReduce", 26_214_400, 9),
    ("AllGather", 2_097_152, 9),
    ("ReduceScatter", 524_288, 7),
    ("AllReduce", 1, 7),
)


def call_lines(ranks: int, lines: int) -> Iterator[str]:
    """At least `lines` lines of one communicator of `ranks`, eight to a machine; first the start of each rank."""
    for rank in range(ranks):
        yield (
            f"{_head(rank)} ncclCommInitRank comm {_comm(rank)} rank {rank} nranks {ranks} cudaDev {rank % 8} nvmlDev"
            f" {rank % 8} busId {0x1000 * (rank % 8 + 1):x} commId 0x5bd1f0a64c2e9783 - Init START"
        )
    for number in count():
        if number * ranks >= lines:
            return
        op, elements, datatype = _STEP[number % len(_STEP)]
        for rank in range(ranks):
            buffer = (number * 97 + rank * 31) % 0xFFFFF
            yield (
                f"{_head(rank)} {op}: opCount {number:x} sendbuff 0x7e31{buffer:05x}000 recvbuff 0x7e32{buffer:05x}000"
                f" count {elements} datatype {datatype} op 0 root 0 comm {_comm(rank)} [nranks={ranks}]"
                f" stream 0x5611c0de{rank:04x}"
            )


def _head(rank: int) -> str:
    return f"gpu-c{rank // 8:03d}:{4100 + rank}:{9000 + rank} [{rank % 8}] NCCL INFO"


def _comm(rank: int) -> str:
    return f"0x5611ab{rank:06x}"
