"""Records one by one: what stands beside the fields, and what no event matches."""

from __future__ import annotations

from line_samples import lines_of

from ncclcheck.readers.records import parse_records

TIMED = "[2026-02-11 04:05:06] n1:70:71 [3] misc/socket.cc:517 (socketWait) NCCL WARN Error: network Fabric not found."


def test_a_record_says_who_when_and_where() -> None:
    (record,) = parse_records(lines_of(TIMED))
    assert record == {
        "path": "job.log",
        "line": 1,
        "kind": "nccl-log",
        "record": 0,
        "event": "network_not_found",
        "level": "WARN",
        "host": "n1",
        "pid": 70,
        "tid": 71,
        "cuda_dev": 3,
        "timestamp": "2026-02-11 04:05:06",
        "fields": {"src_file": "misc/socket.cc", "src_line": 517, "src_func": "socketWait", "network": "Fabric"},
    }


def test_a_warning_of_unknown_wording_keeps_its_text() -> None:
    (record,) = parse_records(lines_of("n1:70:71 [3] init.cc:9 NCCL WARN The flux capacitor is low on 3 of 8 ranks"))
    assert record["event"] == "warn"
    assert record["fields"]["text"] == "The flux capacitor is low on 3 of 8 ranks"


def test_other_unknown_text_has_no_event_and_keeps_its_text() -> None:
    (record,) = parse_records(lines_of("n1:70:71 [3] NCCL INFO Flux capacitor 1.21 GW"))
    assert record["event"] is None
    assert record["fields"] == {"text": "Flux capacitor 1.21 GW"}


def test_records_come_in_the_order_of_the_input() -> None:
    texts = ["Using network IB", "nonsense", "nranks 4", "Using network Socket", "Connected all rings"]
    records = list(parse_records(lines_of(*(f"n1:1:1 [0] NCCL INFO {text}" for text in texts))))
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]


def test_several_records_of_a_line_are_numbered() -> None:
    glued = "n1:1:1 [0] NCCL INFO nranks 4 n2:2:2 [1] NCCL INFO nranks 5n3:3:3 [2] init.cc:4 NCCL WARN nranks 6"
    records = list(parse_records(lines_of("", glued)))
    assert [(r["line"], r["record"], r["host"], r["level"]) for r in records] == [
        (2, 0, "n1", "INFO"), (2, 1, "n2", "INFO"), (2, 2, "5n3", "WARN"),
    ]  # fmt: skip
    assert [r["fields"].get("nranks") for r in records] == [4, None, 6]


def test_several_inputs_come_one_after_the_other() -> None:
    version, line = "n1:7:7 [0] NCCL INFO NCCL version 2.21.5+cuda12.4", "n1:7:7 [0] NCCL INFO Using network IB"
    inputs = [lines_of(line, version), lines_of("no record"), lines_of("", line, "n2:8:8 [0] NCCL INFO nonsense")]
    for number, one in enumerate(inputs):
        one.name = f"{number}.log"
    assert [(record["path"], record["line"], record["event"]) for record in parse_records(*inputs)] == [
        ("0.log", 1, "net_using"),
        ("0.log", 2, "version"),
        ("2.log", 2, "net_using"),
        ("2.log", 3, None),
    ]
