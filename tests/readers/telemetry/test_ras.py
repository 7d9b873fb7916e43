"""What RAS says of a job, by hand-written expectation."""

from __future__ import annotations

from telemetry_samples import FIXTURES, read

from ncclcheck.readers.telemetry.outputs import Outputs


def told(kind: str, name: str) -> Outputs:
    return read((FIXTURES / kind / name).read_bytes())


def of(outputs: Outputs, thing: str, key: str, output: int | None = None) -> list[tuple[str, str, float | None]]:
    return [
        (row["name"], row["text"], row["number"])
        for row in outputs.rows
        if (row["thing"], row["key"]) == (thing, key) and output in (None, row["output"])
    ]


def test_a_healthy_job_has_groups_and_nothing_else() -> None:
    outputs = told("nccl-ras", "healthy.txt")
    assert {row["thing"] for row in outputs.rows} == {"communicator"}
    assert of(outputs, "communicator", "ranks") == [("group 0", "12", 12), ("group 1", "3", 3)]
    assert of(outputs, "communicator", "errors") == [("group 0", "ok", None), ("group 1", "ok", None)]


def test_dead_and_silent_processes_are_told_apart() -> None:
    outputs = told("nccl-ras", "dead-and-errors.txt")
    assert of(outputs, "process", "state") == [
        ("10.77.0.3/41077", "unresponsive", None),
        ("10.77.0.2/40991", "dead", None),
    ]
    assert of(outputs, "process", "gpus")[1] == ("10.77.0.2/40991", "0,1 (NVML 2,3)", None)
    assert of(outputs, "job", "dead_processes") == [("", "1", 1)]
    assert of(outputs, "job", "ras_timeouts") == [("", "3", 3)]


def test_ranks_without_data_and_with_errors() -> None:
    outputs = told("nccl-ras", "dead-and-errors.txt")
    comm = "7be20c44d91a03f5"
    assert of(outputs, "rank", "state") == [(f"{comm}/5", "missing", None), (f"{comm}/10", "missing", None)]
    assert of(outputs, "rank", "error") == [
        (f"{comm}/2", "initialization: Unhandled CUDA error", None),
        (f"{comm}/1", "asynchronous: Remote process error", None),
        (f"{comm}/7", "asynchronous: Remote process error", None),
    ]
    assert of(outputs, "rank", "process")[0] == (f"{comm}/5", "10.77.0.2/40991", None)
    assert of(outputs, "communicator", "missing_ranks") == [(comm, "2", 2)]


def test_two_reports_in_one_text_are_two_outputs() -> None:
    outputs = told("nccl-ras", "two-reports-of-a-stuck-rank.txt")
    comm = "00c3a5e1774d20b9"
    for report in (0, 1):
        assert (f"{comm}/6", "AllReduce", 811) in of(outputs, "rank", "launched", report)
        assert (comm, "AllReduce", 812) in of(outputs, "communicator", "launched", report)
    assert of(outputs, "rank", "launched", 0)[1:] == [(f"{comm}/4", "Broadcast", 0), (f"{comm}/5", "Broadcast", 0)]


def test_words_of_2_24() -> None:
    outputs = told("nccl-ras", "2.24-words.txt")
    comm = "51f09a7c2be8d364"
    assert of(outputs, "rank", "state") == [(f"{comm}/3", "missing", None)]
    assert of(outputs, "rank", "status") == [(f"{comm}/1", "nocomm", None)]
    assert of(outputs, "rank", "launched") == [(f"{comm}/1", "any", 0)]
    assert of(outputs, "communicator", "launched") == [(comm, "any", 95)]


def test_events_of_the_monitor_as_text_and_as_json() -> None:
    assert of(told("nccl-ras", "monitor.txt"), "process", "state") == [
        ("10.9.8.7/8123", "unresponsive", None),
        ("10.9.8.7/8123", "dead", None),
        ("10.9.8.8/8200", "keepalive-timeout", None),
    ]
    outputs = told("nccl-ras-events", "two-events.json")
    assert of(outputs, "process", "state") == [
        ("10.30.0.12/6111", "disconnected", None),
        ("10.30.0.12/6111", "dead", None),
    ]
    assert [row["line"] for row in outputs.rows if row["key"] == "state"] == [4, 15]


def test_the_report_as_json() -> None:
    outputs = told("nccl-ras-json", "one-rank-failed.json")
    comm = "03ab90c17e5d402f"
    assert of(outputs, "communicator", "ranks") == [(comm, "4", 4)]
    assert of(outputs, "rank", "state") == [(f"{comm}/2", "dead", None), (f"{comm}/3", "missing", None)]
    assert of(outputs, "process", "state") == [("10.30.0.12/6111", "dead", None)]
    assert of(outputs, "rank", "status") == [(f"{comm}/0", "running", None), (f"{comm}/1", "abort", None)]
    assert of(outputs, "rank", "error") == [(f"{comm}/1", "asynchronous: System error", None)]
    assert (f"{comm}/1", "AllReduce", 217) in of(outputs, "rank", "launched")
    assert next(row["line"] for row in outputs.rows if row["key"] == "error") == 41
