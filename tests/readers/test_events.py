"""All inputs together: who printed what, under which release, and what is counted."""

from __future__ import annotations

import random

import pytest
from line_samples import SAMPLES, Source, lines_of

from ncclcheck.readers.events import Events, read_events

CHANNEL = "Channel 00/0 : 3[3] -> 4[4] via P2P/IPC"


def record(host: str, pid: int, text: str, tid: int | None = None, device: int = 0) -> str:
    return f"{host}:{pid}:{tid or pid} [{device}] NCCL INFO {text}"


def processes(events: Events) -> list[tuple]:
    rows = events.processes.unique(["_source", "proc"], maintain_order=True).sort("proc")
    return list(rows.select("_source", "task", "host", "pid", "release").iter_rows())


def test_threads_of_a_process_are_one_process() -> None:
    events = read_events([lines_of(record("a", 1, "nranks 2"), record("a", 1, "nranks 2", tid=9, device=3))])
    assert events.processes.get_column("proc").to_list() == [0, 0]
    assert sorted(events.processes.select("tid", "device").iter_rows()) == [(1, 0), (9, 3)]


def test_one_pid_is_a_process_per_host_task_and_input() -> None:
    label = "[1,5]<stdout>:"
    events = read_events(
        [
            lines_of(record("a", 1, "nranks 2"), record("b", 1, "nranks 2"), label + record("a", 1, "nranks 2")),
            lines_of(record("a", 1, "nranks 2")),
        ]
    )
    assert sorted(processes(events), key=str) == [
        (0, "5", "a", 1, None), (0, None, "a", 1, None), (0, None, "b", 1, None), (1, None, "a", 1, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "releases"),
    [
        pytest.param([[record("a", 1, CHANNEL)]], [None], id="no version line"),
        pytest.param([["NCCL version 2.12.12+cuda11.7", record("a", 1, CHANNEL)]], [21212, 21212], id="a bare one"),
        pytest.param(
            [[record("a", 1, "NCCL version 2.27.7+cuda12.9"), record("a", 1, CHANNEL), record("b", 2, CHANNEL)]],
            [22707, 22707],
            id="that of another process",
        ),
        pytest.param(
            [[record("a", 1, "NCCL version 2.27.7+cuda12.9"), record("b", 2, "NCCL version 2.18.3+cuda12.2"),
              record("c", 3, CHANNEL)]],
            [22707, 21803, None],
            id="two in one input",
        ),
        pytest.param(
            [[record("a", 1, "NCCL version 2.27.7+cuda12.9")], [record("b", 2, CHANNEL)]],
            [22707, 22707],
            id="that of another input",
        ),
        pytest.param(
            [["NCCL version 2.12.12+cuda11.7", record("a", 1, CHANNEL)],
             ["NCCL version 2.18.3+cuda12.2", record("b", 2, CHANNEL)]],
            [21212, 21212, 21803, 21803],
            id="each input its own",
        ),
    ],
)  # fmt: skip
def test_the_nearest_version_line_is_the_release(inputs: list[list[str]], releases: list[int | None]) -> None:
    events = read_events([lines_of(*lines) for lines in inputs])
    assert sorted((row[-1] for row in processes(events)), key=str) == sorted(releases, key=str)


def test_typed_rows_know_their_process_and_line() -> None:
    events = read_events([lines_of("", record("a", 1, "nranks 2", tid=9, device=5))])
    frame = events.typed("nranks")
    assert frame is not None
    assert frame.select("_source", "_line", "_proc", "_tid", "nranks").rows() == [(0, 2, 0, 9, 2)]
    assert events.typed("version") is None


def test_events_that_nobody_wants_are_counted_all_the_same() -> None:
    lines = [record("a", 1, "nranks 2"), record("a", 1, CHANNEL), record("a", 1, "hm"), "step 1"]
    events = read_events([lines_of(*lines)], wanted={"nranks"})
    assert set(events.tables) == {"nranks"}
    (count,) = events.counts
    assert (count.lines, count.recognised, count.unrecognised, dict(count.levels)) == (4, 2, 1, {"INFO": 3})


def test_an_input_without_records_is_counted() -> None:
    events = read_events([lines_of("step 1", "step 2"), Source(b""), lines_of(record("a", 1, "nranks 2"))])
    assert [(count.lines, count.recognised) for count in events.counts] == [(2, 0), (0, 0), (1, 1)]
    assert events.processes.get_column("_source").to_list() == [2]


def test_the_numbers_of_processes_do_not_depend_on_the_order_of_blocks() -> None:
    lines = [f"h{index % 7}:{index % 13}:1 [0] NCCL INFO nranks {index}\n" for index in range(300)]
    text = "".join(lines).encode()
    ends = [position + 1 for position, byte in enumerate(text) if byte == ord("\n")]
    tables = []
    for seed in range(3):
        cuts = sorted(random.Random(seed).sample(ends, 40))
        frame = read_events([Source(text, cuts)]).typed("nranks")
        assert frame is not None
        tables.append(frame.sort("_line").select("_line", "_proc", "nranks").rows())
    assert tables[0] == tables[1] == tables[2]
    assert [row[2] for row in tables[0]] == list(range(300))


def test_the_watcher_sees_every_block() -> None:
    seen: list[tuple[int, bytes, int, bool]] = []
    text = lines_of("a", "b", "c").text
    read_events([Source(text, [2]), Source(b"d\n")], watch=lambda piece, other: seen.append((*piece, other)))
    assert seen == [(0, b"a\n", 1, False), (0, b"b\nc\n", 2, False), (1, b"d\n", 1, False)]


def test_all_samples_in_two_inputs_give_the_same_twice() -> None:
    source = lines_of(*(sample.line for sample in SAMPLES))
    events = read_events([source, source])
    for event, table in events.tables.items():
        frame = table.joined()
        first, second = (frame.filter(frame["_source"] == index).drop("_source", "_head") for index in (0, 1))
        assert first.equals(second), event


def test_lines_that_are_cut_at_one_width_say_nothing() -> None:
    """What is left of some of them has a known form, and another meaning."""
    edges = [f"Channel 0{n}/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA" for n in range(3)]
    start = "ncclCommInitRank comm 0x55d001a40276 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 - Init START"
    texts = ["Connected all rings", *edges, start]
    width = len(record("a", 1, edges[0].removesuffix("/GDRDMA")))
    whole = read_events([lines_of(*(record("a", 1, text) for text in texts))])
    events = read_events([lines_of(*(record("a", 1, text)[:width] for text in texts))])
    assert set(whole.tables) == {"connected", "channel_connect", "init_start"}
    assert set(events.tables) == {"connected"}
    assert (events.counts[0].recognised, events.counts[0].unrecognised) == (1, 4)
    assert events.damage.get_column("kind").to_list() == ["cut"] * 4
