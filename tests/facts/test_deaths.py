"""Who died, of what, and who was first."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.deaths import Nature, deaths, first_death

RECORD = "n1:100:100 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    main()"]


def told(*lines: str) -> list[tuple[str, Nature, str, bool]]:
    return [(one.what, one.nature, one.rank, one.sure) for one in deaths(facts_of([RECORD, *lines]))]


@pytest.mark.parametrize(
    ("line", "what", "nature", "rank"),
    [
        ("srun: error: n2: task 3: Exited with exit code 1", "exit code 1", Nature.EXIT, "3"),
        ("srun: error: n2: task 3: Exited with exit code 143", "SIGTERM (15)", Nature.STOPPED, "3"),
        ("srun: error: n[2-3]: tasks 3-7: Killed", "SIGKILL (9)", Nature.OWN, ""),
        ("failed (exitcode: -11) local_rank: 0 (pid: 7) of binary: python", "SIGSEGV (11)", Nature.OWN, ""),
        ("command terminated with exit code 135", "SIGBUS (7)", Nature.OWN, ""),
        ("slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
         "cancelled by Slurm (preemption)", Nature.OWN, ""),
        ("slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "cancelled by Slurm",
         Nature.STOPPED, ""),
        ("mpirun noticed that process rank 3 with PID 7 on node n2 exited on signal 6 (Aborted).", "SIGABRT (6)",
         Nature.OWN, "3"),
    ],
)  # fmt: skip
def test_words_of_launchers(line: str, what: str, nature: Nature, rank: str) -> None:
    assert told(line) == [(what, nature, rank, True)]


def test_code_0_is_no_death() -> None:
    assert told("command terminated with exit code 0", "failed (exitcode: 0) local_rank: 0 (pid: 7)") == []


def test_lines_of_a_block_belong_together() -> None:
    block = ["  host      : n2.lab", "  rank      : 6 (local_rank: 2)", "  exitcode  : -9 (pid: 1134)"]
    (one,) = deaths(facts_of([RECORD, *block]))
    assert (one.rank, one.machine, one.what) == ("6", "n2", "SIGKILL (9)")


def test_an_exception_is_believed_at_the_end_or_with_a_launcher_or_by_its_label() -> None:
    goes_on = ["step"] * 200
    assert told(*TRACEBACK, "ValueError: x", *goes_on) == []
    assert told(*TRACEBACK, "ValueError: x") == [("ValueError: x", Nature.OWN, "", False)]
    assert told(*TRACEBACK, "ValueError: x", "srun: error: n1: task 2: Exited with exit code 1", *goes_on) == [
        ("ValueError: x", Nature.OWN, "2", True),
        ("exit code 1", Nature.EXIT, "2", True),
    ]
    labelled = [f"[rank4]: {line}" for line in (*TRACEBACK, "ValueError: x")]
    assert told(*labelled, *goes_on) == [("ValueError: x", Nature.OWN, "4", True)]


def test_an_exception_that_is_ignored_is_none() -> None:
    assert told("Exception ignored in: <function f>", *TRACEBACK, "ValueError: x") == []


def test_a_process_is_known_by_its_pid() -> None:
    log = [
        "n1:100:800 [0] NCCL INFO comm 0x1 rank 5 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE",
        "failed (exitcode: -9) local_rank: 0 (pid: 100) of binary: python",
    ]
    (one,) = deaths(facts_of(log))
    assert (one.rank, one.machine) == ("5", "n1")


def first(*lines: str) -> tuple[Nature, list[str]]:
    found = first_death(facts_of([RECORD, *lines]))
    assert found is not None
    return found.nature, [one.what for one in found.deaths]


def test_a_reason_comes_before_what_follows_from_it() -> None:
    lost = [f"[rank0]: {line}" for line in (*TRACEBACK, "RuntimeError: NCCL error: remote process exited")]
    killed = "failed (exitcode: -9) local_rank: 2 (pid: 7) of binary: python"
    assert first(*lost, killed) == (Nature.OWN, ["SIGKILL (9)"])
    assert first(*lost) == (Nature.VICTIM, ["RuntimeError: NCCL error: remote process exited"])


def test_who_is_killed_after_another_is_cleaned_up() -> None:
    assert first("srun: error: n1: task 2: Exited with exit code 3", "srun: error: n1: tasks 0-1: Killed") == (
        Nature.EXIT,
        ["exit code 3"],
    )


def test_an_abort_by_the_watchdog_follows_from_something() -> None:
    aborted = "failed (exitcode: -6) local_rank: 0 (pid: 7) of binary: python"
    assert first(aborted)[0] is Nature.OWN
    assert first("[rank0]:[E1 x.cpp:1] [Rank 0] Watchdog caught collective operation timeout", aborted)[0] is (
        Nature.VICTIM
    )


def test_inputs_are_not_ordered_in_time() -> None:
    logs = [[RECORD, "Killed"], [RECORD, "Fatal Python error: Bus error"]]
    found = first_death(facts_of(*logs))
    assert found is not None
    assert [one.what for one in found.deaths] == ["SIGKILL (9)", "SIGBUS (7)"]
