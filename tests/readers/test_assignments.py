"""Variables that people set in scripts, commands, dumps, pod specs and programs."""

from __future__ import annotations

import pytest

from ncclcheck.readers.assignments import find_assignments


def found(text: str) -> list[tuple[str, str]]:
    return [(name, value) for _, name, value in find_assignments(text.encode(), 1)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("export NCCL_DEBUG=INFO NCCL_IB_TC=106  # NCCL_ALGO=Ring", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "106")]),
        ("NCCL_IB_HCA==mlx5_0,mlx5_1", [("NCCL_IB_HCA", "=mlx5_0,mlx5_1")]),
        ("    NCCL_DEBUG=INFO \\", [("NCCL_DEBUG", "INFO")]),
        ("[1,3]<stdout>:NCCL_IB_TC=106", [("NCCL_IB_TC", "106")]),
        ("3: NCCL_IB_TC=106", [("NCCL_IB_TC", "106")]),
        ('declare -x NCCL_SOCKET_IFNAME="eth0"', [("NCCL_SOCKET_IFNAME", "eth0")]),
        ("+ export FI_PROVIDER=efa", [("FI_PROVIDER", "efa")]),
        ("(env) [kim@n1 work]$ CUDA_LAUNCH_BLOCKING=1 python t.py", [("CUDA_LAUNCH_BLOCKING", "1")]),
        ("A=1 NCCL_ALGO=Ring ./all_reduce_perf -g 2", [("NCCL_ALGO", "Ring")]),
        ("mpirun -np 2 -x NCCL_IB_HCA=^mlx5_2,mlx5_3 -x NCCL_DEBUG ./a", [("NCCL_IB_HCA", "^mlx5_2,mlx5_3")]),
        ("mpiexec -genv NCCL_IB_TC 3 -genv NCCL_DEBUG=INFO ./a", [("NCCL_IB_TC", "3"), ("NCCL_DEBUG", "INFO")]),
        (
            "docker run -e NCCL_DEBUG=INFO --env NCCL_P2P_DISABLE=1 i",
            [("NCCL_DEBUG", "INFO"), ("NCCL_P2P_DISABLE", "1")],
        ),
        ("#SBATCH --export=ALL,NCCL_DEBUG=INFO,NCCL_IB_TC=3", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "3")]),
        ("setenv NCCL_DEBUG WARN", [("NCCL_DEBUG", "WARN")]),
        ("ENV NCCL_SOCKET_IFNAME=eth0 NCCL_DEBUG=INFO", [("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_DEBUG", "INFO")]),
        ("  NCCL_P2P_DISABLE: '1'", [("NCCL_P2P_DISABLE", "1")]),
        ('  - name: NCCL_IB_TC\n    value: "106"', [("NCCL_IB_TC", "106")]),
        ('  - {name: NCCL_ALGO, value: "Ring"}', [("NCCL_ALGO", "Ring")]),
        ('os.environ["NCCL_ALGO"] = "Ring"', [("NCCL_ALGO", "Ring")]),
        ("os.environ.setdefault('NCCL_ALGO', 'Ring')", [("NCCL_ALGO", "Ring")]),
        ("env = {'NCCL_DEBUG': 'INFO', \"NCCL_IB_TC\": 106}", [("NCCL_DEBUG", "INFO"), ("NCCL_IB_TC", "106")]),
        ("\x1b[32mexport NCCL_DEBUG=INFO\x1b[0m", [("NCCL_DEBUG", "INFO")]),
        ("TORCH_NCCL_BLOCKING_WAIT=1\r", [("TORCH_NCCL_BLOCKING_WAIT", "1")]),
    ],
)
def test_ways_to_set_a_variable(line: str, expected: list[tuple[str, str]]) -> None:
    assert found(line + "\n") == expected


@pytest.mark.parametrize(
    "line",
    [
        "# export NCCL_ALGO=Ring",
        "#export NCCL_ALGO=Ring",
        "NCCL_IB_DISABLE=1 did not help",
        "we tried NCCL_IB_DISABLE=1 and it hangs",
        "export NCCL_IB_HCA=$(ls /sys/class/infiniband | paste -sd,)",
        "export NCCL_IB_HCA=${HCAS}",
        "mpirun -x NCCL_DEBUG ./a",
        "echo $NCCL_DEBUG",
        "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
        "n1:1:2 [0] init.cc:9 NCCL WARN mixed counts. Set NCCL_IGNORE_NET_MISMATCH=1 to continue.",
        "n1:1:2 [0] NCCL INFO Comm config minCTAs reset to NCCL_MIN_CTAS=16",
    ],
)
def test_what_sets_nothing(line: str) -> None:
    assert found(line + "\n") == []


def test_lines_are_counted_from_the_first_of_the_block() -> None:
    block = b"x\nexport NCCL_DEBUG=INFO\n\nNCCL_ALGO=Ring\n"
    assert [(row.line, row.name) for row in find_assignments(block, 100)] == [(101, "NCCL_DEBUG"), (103, "NCCL_ALGO")]


def test_hostile_lines_take_no_time() -> None:
    block = b"export NCCL_A=" + b"'" * 100_000 + b"\n" + b"NCCL_" * 100_000 + b"\n" + b"[" * 100_000 + b"NCCL_X=1\n"
    assert all(len(value) < 1000 for _, _, value in find_assignments(block, 1))
