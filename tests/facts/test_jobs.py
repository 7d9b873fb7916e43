"""Which processes are of one job?"""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.jobs import job_of


def pair(hosts: tuple[str, str], comm_id: str, pid: int = 7) -> list[str]:
    """Init of a communicator of two ranks on two machines."""
    log = []
    for rank, host in enumerate(hosts):
        log += Process(host, pid).init("COMPLETE", "5500", rank, 2, f"commId 0x{comm_id}")
    return log


def jobs_of(facts: Facts) -> dict[tuple[str, int], int | None]:
    rows = facts["processes"].join(job_of(facts), on="proc")
    return {(host, pid): job for host, pid, job in rows.select("host", "pid", "job").iter_rows()}


def test_processes_that_share_a_communicator_through_others_are_of_one_job() -> None:
    chain = [line for i in range(40) for line in pair((f"n{i}", f"n{i + 1}"), f"ab{i:02d}")]
    assert set(jobs_of(facts_of(chain)).values()) == {0}


def test_a_restart_is_another_job() -> None:
    jobs = jobs_of(facts_of([*pair(("n1", "n2"), "a1"), *pair(("n1", "n2"), "b2", pid=99)]))
    assert jobs["n1", 7] == jobs["n2", 7] != jobs["n1", 99] == jobs["n2", 99]


def test_a_process_without_communicator_is_of_the_only_job_of_its_input() -> None:
    one = [*pair(("n1", "n2"), "a1"), *Process("n3", 3).say("cudaDriverVersion 12080")]
    other = pair(("m1", "m2"), "b2")
    stray = Process("x9", 9).say("cudaDriverVersion 12080")
    jobs = jobs_of(facts_of(one, other, stray))
    assert jobs["n3", 3] == jobs["n1", 7] != jobs["m1", 7]
    assert jobs["x9", 9] is None


def test_without_communicators_all_are_of_one_job() -> None:
    logs = [Process(host, 1).say("cudaDriverVersion 12080") for host in ("n1", "n2")]
    assert set(jobs_of(facts_of(*logs)).values()) == {0}
