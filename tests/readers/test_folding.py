"""What is all but alike is folded: calls of collectives are counted, channels are numbers."""

from __future__ import annotations

import polars as pl
import pytest
from line_samples import Source, lines_of

from ncclcheck.readers import calls
from ncclcheck.readers.events import read_events
from ncclcheck.readers.memory import Memory
from ncclcheck.readers.nccl_log import WANTED, log_tables


def call(rank: int, number: int, op: str = "AllReduce", count: int = 1024) -> str:
    text = f"{op}: opCount {number:x} sendbuff 0x7f{number:04x} recvbuff 0x7e{number:04x} count {count} datatype 9 op 0"
    return f"n1:{7 + rank}:9 [{rank}] NCCL INFO {text} root 0 comm 0x55d0{rank} [nranks=2] stream 0x55ee"


LOG = lines_of(*(call(rank, number, count=1024 << (number % 2)) for number in range(300) for rank in range(2)))


def test_calls_are_counted_by_operation_and_size() -> None:
    found = log_tables(read_events([LOG], WANTED))["operations"].sort("count")
    columns = ["source", "op", "count", "datatype", "nranks", "calls"]
    assert found.select(columns).rows() == [(0, "AllReduce", 1024, 9, 2, 300), (0, "AllReduce", 2048, 9, 2, 300)]


def test_each_call_of_a_small_log_is_a_row() -> None:
    found = log_tables(read_events([LOG], WANTED))["collectives"]
    assert found.height == 600
    assert found.select("op_count", "comm", "line").row(3) == (1, "0x55d01", 4)


def test_of_a_large_log_the_end_of_each_communicator_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_KEPT", 400)
    tables = log_tables(read_events([LOG], WANTED))
    kept = tables["collectives"].group_by("comm").agg(numbers="op_count").sort("comm")
    assert [sorted(numbers) for numbers in kept.get_column("numbers")] == [list(range(236, 300))] * 2
    assert tables["operations"].get_column("calls").sum() == 600


def test_all_calls_are_kept_where_all_events_are_asked_for() -> None:
    events = read_events([LOG])
    frame = events.typed("collective")
    assert frame is not None
    assert frame.height == 600
    assert frame.row(0, named=True)["sendbuff"] == "0x7f0000"


def test_channels_stand_beside_their_messages() -> None:
    """As numbers, whichever way they came there: two digits, three, or a text that is another's end."""
    edge = " : 3[3] -> 4[4] via P2P/CUMEM"
    texts = [f"Channel 07/0{edge}", f"Channel 31/0{edge}", f"Channel 100/0{edge}", f"Channel 07{edge}"]
    rings = ["Channel 05/08 :    0   1   2", "Channel 06/08 :    0   1   2"]
    lines = [f"n1:7:9 [3] NCCL INFO {text}" for text in (*texts, *rings)]
    tables = log_tables(read_events([lines_of(*lines)], WANTED))
    edges = tables["edges"].select("conn", "channels", "lines").rows()
    assert edges == [(0, [7, 31, 100], [1, 2, 3]), (None, [7], [4])]
    assert tables["rings"].select("channel", "nchannels", "line").rows() == [(5, 8, 5), (6, 8, 6)]
    # a torn line that reads like the rest of a channel line is none
    torn = log_tables(read_events([lines_of(lines[0], f"n1:7:9 [3] NCCL INFO {texts[1][10:]}")], WANTED))
    assert torn["edges"].get_column("channels").to_list() == [[7]]


def test_messages_keep_their_numbers() -> None:
    memory = Memory()
    numbers, shapes = memory.recall(pl.Series(["a", "b", "c"]))
    assert shapes.to_list() == [None, None, None]
    memory.learn(numbers.filter(pl.Series([True, False, True])), pl.Series(["x", "y"]))
    again, shapes = memory.recall(pl.Series(["b", "d", "c", "a"]))
    assert again.to_list()[:1] + again.to_list()[2:] == [numbers[1], numbers[2], numbers[0]]
    assert shapes.to_list() == [None, None, "y", "x"]


def test_many_blocks_give_what_one_gives() -> None:
    """Messages of earlier blocks are not read again."""
    edges = [f"Channel {n:02d}/0 : {s}[0] -> {s + 1}[0] via P2P/CUMEM" for n in range(8) for s in range(6)]
    rings = [f"Channel {n:02d}/08 :    0   1   2   3   4   5   6" for n in range(8)]
    lines = [f"n1:7:9 [3] NCCL INFO {text}" for text in (*edges, *rings, *reversed(edges), "Using network IB", *rings)]
    whole = lines_of(*lines)
    ends = [index + 1 for index, byte in enumerate(whole.text) if byte == ord("\n")]
    tables = [log_tables(read_events([Source(whole.text, cuts)], WANTED)) for cuts in ([], ends[5::7], ends)]
    for name in ("edges", "rings", "networks"):
        assert all(tables[0][name].equals(other[name]) for other in tables[1:]), name
    assert tables[0]["edges"].get_column("channels").list.len().to_list() == [16] * 6


def test_a_network_of_its_own_on_every_line_is_no_crash() -> None:
    """A hostile log: more shapes than any other has."""
    memory = Memory()
    texts = pl.Series([f"m{n}" for n in range(40_000)])
    numbers, _ = memory.recall(texts)
    memory.learn(numbers, texts)
    assert memory.recall(texts)[1].equals(texts)
