"""What launchers and pipelines put before a record: the task and the host they name, and what names none."""

from __future__ import annotations

import json

import pytest
from line_samples import lines_of

from ncclcheck.readers.events import read_events
from ncclcheck.readers.labels import parse_label
from ncclcheck.readers.records import parse_records

RECORD = "n17:70:71 [3] NCCL INFO Using network IB"
TIME = "2026-02-11T04:05:06.123456789Z"
DOCKER = {"log": "n17:70:71 [3] NCCL INFO Ring 00 : 1 -> 2 -> 3\n", "stream": "stdout", "time": TIME}


def wrapped(line: str) -> tuple[str | None, str | None]:
    """Task and host of the label of a wrapped RECORD; the record itself must come out whole."""
    events = read_events([lines_of(line)])
    (who,) = events.processes.iter_rows(named=True)
    assert (who["host"], who["pid"], who["tid"], who["device"]) == ("n17", 70, 71, 3)
    assert events.tables["net_using"].joined().get_column("network_name").to_list() == ["IB"]
    return who["task"], who["label_host"]


@pytest.mark.parametrize(
    ("line", "task", "host"),
    [
        pytest.param("[1,12]<stdout>:{}", "12", None, id="Open MPI"),
        pytest.param("[1,4]<stderr>:{}", "4", None, id="Open MPI stderr"),
        pytest.param("[prterun-head-01-77@1,3]<stdout>: {}", "3", None, id="PRRTE"),
        pytest.param("[3] {}", "3", None, id="Hydra"),
        pytest.param("12: {}", "12", None, id="srun -l"),
        pytest.param("  2: {}", "2", None, id="srun -l, padded"),
        pytest.param("n17: {}", None, "n17", id="pdsh"),
        pytest.param("10.0.0.5: {}", None, "10.0.0.5", id="pdsh, addresses"),
        pytest.param("ip-10-0-0-5.ec2.internal: {}", None, "ip-10-0-0-5.ec2.internal", id="pdsh, full names"),
        pytest.param("[default0]:{}", "0", None, id="torchrun --tee"),
        pytest.param("[rank7]:{}", "7", None, id="PyTorch"),
        pytest.param("[default3]:[rank11]: {}", "11", None, id="torchrun and PyTorch"),
        pytest.param("(RayWorkerWrapper pid=81, ip=10.0.1.18) {}", "RayWorkerWrapper pid=81", "10.0.1.18", id="Ray"),
        pytest.param("(pid=81) {}", "pid=81", None, id="Ray, old"),
        pytest.param("(pid=81, ip=10.0.1.18) {}", "pid=81", "10.0.1.18", id="Ray, old, other host"),
        pytest.param("\x1b[36m(W pid=81, ip=10.0.1.18)\x1b[0m {}", "W pid=81", "10.0.1.18", id="Ray, colours"),
        pytest.param("ESC[36m(W pid=81)ESC[0m {}", "W pid=81", None, id="Ray, colours as text"),
        pytest.param("\\u001b[36m(W pid=81)\\u001b[0m {}", "W pid=81", None, id="Ray, colours as JSON"),
        pytest.param("(W pid=81) {} [repeated 15x across cluster]", "W pid=81", None, id="Ray, folded"),
        pytest.param("(Worker_TP3 pid=77) {}", "Worker_TP3 pid=77", None, id="vLLM"),
        pytest.param("(EngineCore_0 pid=7) (W pid=8, ip=10.0.1.18) {}", "W pid=8", "10.0.1.18", id="vLLM on Ray"),
        pytest.param("[2026-02-11 04:05:06 TP3] {}", "TP3", None, id="SGLang"),
        pytest.param("[2026-02-11 04:05:06 DP1 TP3] {}", "DP1 TP3", None, id="SGLang, two groups"),
        pytest.param("[1]<stderr>:{}", "1", None, id="Horovod"),
        pytest.param("[pod/train-worker-0/pytorch] {}", None, "train-worker-0", id="kubectl --prefix"),
        pytest.param(f"[pod/train-worker-0/c] {TIME} {{}}", None, "train-worker-0", id="kubectl, times"),
        pytest.param("[pod/train-worker-0/pytorch] [default1]:{}", "1", "train-worker-0", id="kubectl and torchrun"),
        pytest.param("[1,5]<stdout>:n17: {}", "5", "n17", id="Open MPI and pdsh"),
        pytest.param("Feb 11 04:05:06 n17 train[4711]: {}", None, "n17", id="syslog"),
        pytest.param("2026-02-11T04:05:06.123456+00:00 n17 train[4711]: {}", None, "n17", id="journald"),
        pytest.param("> 12: {}", "12", None, id="mail and srun"),
        pytest.param("Epoch 3 [1,12]<stdout>:{}", "12", None, id="a sure label behind anything"),
    ],
)
def test_a_label_names_a_task_or_a_host(line: str, task: str | None, host: str | None) -> None:
    assert wrapped(line.format(RECORD)) == (task, host)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{}", id="nothing"),
        pytest.param(f"{TIME} stdout F {{}}", id="CRI"),
        pytest.param("train-worker-0 pytorch {}", id="stern"),
        pytest.param("│ {}                 │", id="k9s"),
        pytest.param("| 2026-02-11T04:05:06-07:00 | {} |", id="CloudWatch"),
        pytest.param("2026-02-11T04:05:06-07:00{}", id="a time glued on"),
        pytest.param("INFO:root:{}", id="logging"),
        pytest.param("INFO: {}", id="INFO"),
        pytest.param("WARNING:  {}", id="WARNING"),
        pytest.param("Error: {}", id="Error"),
        pytest.param("stderr: {}", id="stderr"),
        pytest.param("trainer: {}", id="a word"),
        pytest.param("rank3: {}", id="a rank is no host"),
        pytest.param("step_12: {}", id="a step is no host"),
        pytest.param("loss 0.31: {}", id="a number is no host"),
        pytest.param("Epoch 3: {}", id="a number is no task"),
        pytest.param("took 12.5: {}", id="a time is no task"),
        pytest.param("saved to n17: {}", id="a name within a sentence"),
        pytest.param("INFO n17 train[4711]: {}", id="syslog within a line"),
        pytest.param("2026-02-11 04:05:06,123 [INFO] {}", id="logging with a time"),
        pytest.param("2026-02-11 04:05:06,123 - train - INFO - {}", id="logging with dashes"),
        pytest.param(f"\x1b[32m{TIME}\x1b[0m | \x1b[1mINFO\x1b[0m | a:b:1 - \x1b[1m{{}}\x1b[0m", id="loguru"),
        pytest.param("> > {}", id="mail"),
        pytest.param("    {}", id="Markdown block"),
        pytest.param("`{}`", id="Markdown code"),
        pytest.param("&gt; {}", id="HTML"),
        pytest.param('"{}', id="a quote"),
        pytest.param("\u00a0\u00a0{}", id="hard blanks"),
        pytest.param("\ufeff{}", id="byte order mark"),
        pytest.param("\r 45%|████ | 9/20 [00:03<00:04] {}", id="progress bar"),
        pytest.param("100%|####| 5/5 [00:01<00:00,  3.3it/s]{}", id="progress bar glued on"),
        pytest.param("{}\r 45%|████ | 9/20 [00:03<00:04]", id="progress bar behind"),
        pytest.param("n02:9:9 [1] NCCL IN {}", id="behind a torn record"),
        pytest.param("logs/rank3.log:17:{}", id="grep"),
    ],
)
def test_what_is_no_label_names_nothing_and_hides_nothing(line: str) -> None:
    assert wrapped(line.format(RECORD)) == (None, None)


def test_a_docker_line_is_its_text_with_its_time() -> None:
    line = json.dumps(DOCKER, separators=(",", ":")).replace(">", "\\u003e")
    (record,) = parse_records(lines_of("before", line, "after"))
    assert (record["line"], record["event"], record["host"], record["timestamp"]) == (2, "ring", "n17", TIME)


@pytest.mark.parametrize("line", ['{"log":"n1 NCCL INFO nranks', '{"log":"\\x", NCCL INFO nranks 4}', '{"log":"}'])
def test_what_only_looks_like_docker_stays_as_it_is(line: str) -> None:
    records = list(parse_records(lines_of(line, RECORD)))
    assert records[-1]["line"] == 2
    assert records[-1]["event"] == "net_using"


def test_the_message_twice_in_a_line_is_two_records() -> None:
    records = list(parse_records(lines_of(f"2026-02-11T04:05:06-07:00 {RECORD} {RECORD}")))
    assert [(record["record"], record["host"], record["fields"]) for record in records] == [
        (0, "n17", {"network": "IB"}),
        (1, "n17", {"network": "IB"}),
    ]


@pytest.mark.parametrize("text", ["", " ", "[", "12", "12:", "n17:", "[1,2]<stdout>", "(pid=)", "pid=3) "])
def test_half_a_label_is_none(text: str) -> None:
    assert (parse_label(text).task, parse_label(text).host) == (None, None)
