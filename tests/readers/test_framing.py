"""Where a record begins, who printed it and when: all forms of what stands before the message."""

from __future__ import annotations

import time

import pytest
from line_samples import Source, lines_of

from ncclcheck.readers.finding import Piece
from ncclcheck.readers.framing import Head, parse_head
from ncclcheck.readers.labels import Label
from ncclcheck.readers.projection import Projection
from ncclcheck.readers.records import parse_records

COLUMNS = ("level", "host", "pid", "tid", "cuda_dev", "timestamp")


def read(line: str) -> tuple[tuple, dict | None]:
    """COLUMNS of the only record of a line, and its event with its fields."""
    (record,) = parse_records(lines_of(line))
    return tuple(record[name] for name in COLUMNS), {"event": record["event"], **record["fields"]}


@pytest.mark.parametrize(
    ("prefix", "columns"),
    [
        ("n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, None)),
        ("n1:70:71 [-1] NCCL INFO ", ("INFO", "n1", 70, 71, -1, None)),
        ("n1:70:71 [32581] NCCL INFO ", ("INFO", "n1", 70, 71, 32581, None)),
        ("n1:70:71 [-1094795586123] NCCL INFO ", ("INFO", "n1", 70, 71, None, None)),
        ("n1.cluster.example:70:71 [3] NCCL INFO ", ("INFO", "n1.cluster.example", 70, 71, 3, None)),
        ("10:70:71 [3] NCCL INFO ", ("INFO", "10", 70, 71, 3, None)),
        ("3f0c7d1e-66aa-4e0b-9a55-0c1db1f0a7c4:70:71 [3] NCCL INFO ",
         ("INFO", "3f0c7d1e-66aa-4e0b-9a55-0c1db1f0a7c4", 70, 71, 3, None)),
        ("::70:71 [3] NCCL INFO ", ("INFO", "", 70, 71, 3, None)),
        (":70:71 [3] NCCL INFO ", ("INFO", "", 70, 71, 3, None)),
        ("<host-a>:70:71 [3] NCCL INFO ", ("INFO", "<host-a>", 70, 71, 3, None)),
        ("[0] NCCL INFO ", ("INFO", None, None, None, 0, None)),
        ("NCCL INFO ", ("INFO", None, None, None, None, None)),
        ("n1:70:71 [3] INFO ", ("INFO", "n1", 70, 71, 3, None)),
        ("n1:70:71 [3] init.cu:70 WARN ", ("WARN", "n1", 70, 71, 3, None)),
        ("n1:70:71 [3] <812> ncclCommInit:70 NCCL TRACE ", ("TRACE", "n1", 70, 71, 3, None)),
        ("n1:70:71 [3] 12.345678 sendSetup:70 NCCL TRACE ", ("TRACE", "n1", 70, 71, 3, None)),
        ("n1:70:71 NCCL CALL ", ("CALL", "n1", 70, 71, None, None)),
        ("[Wed Feb 11 04:05:06 2026] n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, "Wed Feb 11 04:05:06 2026")),
        ("Wed Feb 11 04:05:06 2026 n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, "Wed Feb 11 04:05:06 2026")),
        ("[02/11/26 04:05:06 PM] n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, "02/11/26 04:05:06 PM")),
        ("[11-Feb-2026 04:05:06.789 CET] n1:70:71 [3] init.cc:70 (f) NCCL WARN ",
         ("WARN", "n1", 70, 71, 3, "11-Feb-2026 04:05:06.789 CET")),
        ("[04:05:06.789] n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, "04:05:06.789")),
        ("1770783906.5 n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, None)),
        ("04:05:06n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, None)),
        ("04:05:06.789n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, None)),
        ("n1:70:71 [3] init.cu:70 NCCL ABORT ", ("ABORT", "n1", 70, 71, 3, None)),
        ("n1:70:71 [3] init.cc:70 NCCL WARN ", ("WARN", "n1", 70, 71, 3, None)),
        ("[2026-02-11 04:05:06] n1:70:71 [3] init.cc:70 NCCL WARN ", ("WARN", "n1", 70, 71, 3, "2026-02-11 04:05:06")),
        ("[2026-02-11 04:05:06.123] n1:70:71 [3] init.cc:70 (f) NCCL WARN ",
         ("WARN", "n1", 70, 71, 3, "2026-02-11 04:05:06.123")),
        ("2026-02-11T04:05:06Z n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, "2026-02-11T04:05:06Z")),
        ("[2026-02-11T04:05:06,5+0200]n1:70:71 [3] NCCL INFO ",
         ("INFO", "n1", 70, 71, 3, "2026-02-11T04:05:06,5+0200")),
        ("04:05:06 n1:70:71 [3] NCCL INFO ", ("INFO", "n1", 70, 71, 3, None)),
    ],
)  # fmt: skip
def test_a_prefix_tells_who_printed_and_when(prefix: str, columns: tuple) -> None:
    found, event = read(prefix + "nranks 4")
    assert found == columns
    assert event is not None
    assert (event["event"], event["nranks"]) == ("nranks", 4)


@pytest.mark.parametrize(
    ("head", "where"),
    [
        ("n1:7:7 [0] ", (None, None, None)),
        ("n1:7:7 [0] enqueue.cc:610 ", ("enqueue.cc", 610, None)),
        ("n1:7:7 [0] transport/net_ib/p2p.cc:57 (ncclIbTest) ", ("transport/net_ib/p2p.cc", 57, "ncclIbTest")),
        ("n1:7:7 [0] /opt/build/src/init.cc:9 ", ("/opt/build/src/init.cc", 9, None)),
        ("n1:7:7 [0] include/shm.h:48 ", ("include/shm.h", 48, None)),
        ("n1:7:7 [0] <12> socketPoll:30 ", ("socketPoll", 30, None)),
    ],
)
def test_a_prefix_tells_the_place_in_the_source(head: str, where: tuple) -> None:
    found = parse_head(head)
    assert (found.host, found.device) == ("n1", 0)
    assert (found.src_file, found.src_line, found.src_func) == where


@pytest.mark.parametrize("word", ["NCCL", "RCCL"])
def test_the_bare_version_line_is_a_record_without_prefix(word: str) -> None:
    found, event = read(f"{word} version 2.18.5+cuda12.1")
    assert found == ("VERSION", None, None, None, None, None)
    assert event is not None
    assert (event["event"], event["version"]) == ("version", "2.18.5")


def test_a_warning_comes_after_an_empty_line() -> None:
    records = list(parse_records(lines_of("n1:7:7 [0] NCCL INFO nranks 4", "", "n1:7:7 [0] a.cc:1 NCCL WARN nranks 5")))
    assert [(record["line"], record["level"]) for record in records] == [(1, "INFO"), (3, "WARN")]


@pytest.mark.parametrize(
    "line",
    [
        "n1:7:7 [0] NCCL WARNING: nothing of NCCL's",
        "INFO nranks 4",
        "2026-02-11 04:05:06 WARN nranks 4",
        "[0] INFO nranks 4",
        "NCCL is not initialized",
        "nccl info nranks 4",
        "NCCL INFO",
        "export NCCL_DEBUG=INFO",
    ],
)
def test_other_lines_are_no_records(line: str) -> None:
    assert [record for record in parse_records(lines_of(line)) if record["kind"] != "settings"] == []


def test_a_host_with_the_end_of_another_line_before_it_is_found_by_its_pid() -> None:
    lines = [f"worker-a:70:{tid} [3] NCCL INFO nranks 4" for tid in (71, 72, 73)]
    glued = "ringsworker-a:70:71 [3] NCCL INFO nranks 4"
    own_names = ["my-worker-a:70:71 [3] NCCL INFO nranks 4", "ringsworker-a:88:71 [3] NCCL INFO nranks 4"]
    hosts = [record["host"] for record in parse_records(lines_of(*lines, glued, *own_names))]
    assert hosts == ["worker-a", "worker-a", "worker-a", "worker-a", "my-worker-a", "ringsworker-a"]


@pytest.mark.parametrize("rest", ["orker-a", "-a", "a", ""])
def test_a_host_whose_beginning_is_cut_is_found_by_its_pid(rest: str) -> None:
    lines = [f"worker-a:70:{tid} [3] NCCL INFO nranks 4" for tid in (71, 72, 73)]
    hosts = [record["host"] for record in parse_records(lines_of(*lines, f"{rest}:70:71 [3] NCCL INFO nranks 4"))]
    assert hosts == ["worker-a"] * 4
    hosts = [record["host"] for record in parse_records(lines_of(*lines, f"{rest}:80:81 [3] NCCL INFO nranks 4"))]
    assert hosts[3] == rest


def test_a_head_without_an_origin_is_only_a_label() -> None:
    assert parse_head("Traceback: ") == Head(Label())


@pytest.mark.parametrize("junk", ["a" * 400_000, "[" * 400_000, "1:" * 200_000, "(pid=1) " * 50_000, "0: " * 130_000])
def test_a_line_of_junk_costs_no_more_than_its_length(junk: str) -> None:
    line = f"{junk}n1:7:7 [0] NCCL INFO {junk} NCCL INFO nranks 4\n"
    start = time.perf_counter()
    assert len(list(parse_records(Source(line.encode())))) == 1
    assert time.perf_counter() - start < 5


def test_heads_are_kept_once_without_their_time() -> None:
    projection = Projection()
    lines = [f"2026-02-11T04:05:{second:02d}Z n1:7:7 [0] NCCL INFO nranks 4\n" for second in range(60)]
    projection.read([Piece(0, "".join(lines).encode(), 1)])
    assert projection.heads.texts() == [(0, "n1:7:7 [0] ")]


def test_a_clock_on_every_line_makes_no_heads() -> None:
    lines = [f"[2026-02-11 04:05:{second:02d}.{second:06d}] n1:7:7 [0] NCCL INFO nranks 4\n" for second in range(60)]
    lines += ["n1:7:8 [1] NCCL INFO nranks 4\n", "NCCL version 2.27.3+cuda12.9\n"]
    projection = Projection(wanted={"nranks"})
    found = projection.read([Piece(0, "".join(lines).encode(), 1)])
    assert found.events["nranks"].rows.height == 61
    assert sorted(text for _, text in projection.heads.texts()) == ["", "n1:7:7 [0] ", "n1:7:8 [1] "]
