"""What the facts prove of a job's hardware, for the estimate."""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.answer import Answer

MATRIX = ["      " + "".join(f"GPU{n:<5}" for n in range(8)) + "NIC0    NIC1    CPU Affinity"] + [
    f"GPU{row}  " + "".join(f"{' X ' if row == n else 'NV18':<8}" for n in range(8)) + "NODE    NODE    0-63"
    for row in range(8)
]  # fmt: skip


def test_a_communicator_of_fewer_ranks_than_machines_is_not_the_job() -> None:
    lines = []
    for number in range(3):
        one = Process(f"n{number}", 50 + number, 0)
        lines += one.init("START", "9", 0, 1, f"commId 0xab{number}") + one.init("COMPLETE", "9", 0, 1, "")
    shape = facts_of(lines).shape()
    assert (shape.nranks, shape.nodes, shape.gpus_per_node) == (None, None, None)


def test_a_matrix_tells_the_nics_and_that_no_grace_cpu_is_there() -> None:
    shape = facts_of(MATRIX).shape()
    assert (shape.gpus_per_node, shape.nics_per_node, shape.c2c, shape.network) == (8, 2, Answer.NO, "")


def test_nvlink_over_machines_joins_gpus_on_grace_cpus() -> None:
    one = Process("tray-1", 50, 0)
    domain = "MNNVL busId 0x901000 fabric UUID 4b1f22ac90d1e7f3.71c0de55a6b24418 cliqueId 0x7ffe state 3 healthMask 0x0"
    assert facts_of(one.say("NCCL version 2.28.7+cuda13.0", domain)).shape().c2c is Answer.YES
