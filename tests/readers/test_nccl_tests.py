"""Tables of nccl-tests, as each release prints them and as they arrive in files."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from line_samples import lines_of
from perf_samples import Run

from ncclcheck.readers import grammar
from ncclcheck.readers.read import Reading, read_sources

SIZES = ((1 << 20, 30.5, 31.25), (1 << 27, 410.2, 409.0), (1 << 32, 478.25, 477.5))
RUN = Run(SIZES)
OLD = Run(SIZES, release="2.10", wrong="3e-07")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "nccl_tests"
SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "nccl-tests"


def read(*lines: str) -> Reading:
    return read_sources([lines_of(*lines)])


def rows_of(*lines: str) -> list[dict[str, Any]]:
    table = read(*lines).tables.get("measurements")
    return [] if table is None else table.rows(named=True)


def busbws(rows: list[dict[str, Any]]) -> list[tuple[int, float | None, float | None]]:
    return [(row["size"], row["busbw"], row["in_busbw"]) for row in rows]


WHOLE = [(size, pytest.approx(out, abs=0.06), pytest.approx(inside, abs=0.06)) for size, out, inside in SIZES]


def test_the_grammar_has_no_conflict() -> None:
    grammar.build_block("nccl_tests", strict=True)


@pytest.mark.parametrize("release", ["2.0", "2.10", "2.13", "2.14", "2.17", "2.18", "2.19"])
def test_the_table_of_each_release(release: str) -> None:
    run = replace(RUN, release=release, wrong="4e-07" if release < "2.13" else "0")
    rows = rows_of(*run.lines())
    assert busbws(rows) == WHOLE
    assert {(row["collective"], row["ranks"], row["nodes"], row["gpu"], row["refused"]) for row in rows} == {
        ("all_reduce", 8, 1, "NVIDIA H200", None)
    }
    assert {(row["iters"], row["warmup"], row["validation"], row["concluded"]) for row in rows} == {(30, 3, 1, True)}
    assert [row["wrong"] for row in rows] == [0.0, 0.0, 0.0]
    assert rows[0]["named"] == (release >= "2.17")
    assert rows[0]["release"] == (f"{release}.2" if release >= "2.18" else None)


@pytest.mark.parametrize("name", ["cpu_time", "iterations", "stamps"])
def test_columns_that_an_option_adds(name: str) -> None:
    rows = rows_of(*replace(RUN, **{name: True}).lines())
    assert busbws(rows) == WHOLE
    assert rows[0]["cpu_time"] == (name == "cpu_time")


def test_all_options_at_once() -> None:
    assert busbws(rows_of(*replace(RUN, iterations=True, stamps=True, cpu_time=True).lines())) == WHOLE


def test_a_table_without_the_half_in_place() -> None:
    rows = rows_of(*replace(OLD, points=[(1 << 28, 201.0, None)]).lines())  # type: ignore[list-item]
    assert busbws(rows) == [(1 << 28, pytest.approx(201, abs=0.5), None)]


def test_a_replay_leaves_the_half_out_of_place_blank() -> None:
    size, count = 1 << 28, 1 << 26
    row = f"{size:>12}  {count:>12}  {'float':>8}  {'sum':>6}  {-1:>6}" + " " * 32 + "  " + RUN.half(size, 301.0)
    (found,) = rows_of(*RUN.head(), *RUN.column_lines(), row)
    assert (found["busbw"], found["in_busbw"]) == (None, 301.0)


PREFIXES = [
    "[1,0]<stdout>:", "0: ", "    ", "\t", "> ", "worker-4 | ", "[rank0]: ", "2026-03-04T05:06:07.123Z ",
    "2026-03-04T05:06:07.123456789Z stdout F ", "\x1b[32m",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_stands_before_the_lines(prefix: str) -> None:
    rows = rows_of(*(prefix + line for line in RUN.lines()))
    assert busbws(rows) == WHOLE
    assert rows[0]["nodes"] == 1


def test_a_markdown_table() -> None:
    cells = [f"| {' | '.join(line.strip('# ').split())} |" for line in (RUN.column_lines()[0], *RUN.rows())]
    assert busbws(rows_of(cells[0], "|---|---|", *cells[1:])) == WHOLE


def test_rows_behind_a_comment_sign_and_head_lines_that_lost_theirs() -> None:
    lines = [line.lstrip("# ") for line in RUN.head()] + RUN.column_lines() + [f"#{row}" for row in RUN.rows()]
    rows = rows_of(*lines)
    assert busbws(rows) == WHOLE
    assert rows[0]["ranks"] == 8


def test_nccl_prints_between_the_lines() -> None:
    record = "gx-07:7100:7190 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    lines = [text for line in RUN.lines() for text in (line, record)]
    reading = read(*lines)
    assert busbws(reading.tables["measurements"].rows(named=True)) == WHOLE
    assert reading.inputs[0].recognised == len(lines) // 2
    assert set(reading.inputs[0].kinds) >= {"nccl-log", "nccl-tests"}


def test_without_a_head_the_columns_tell_the_ranks() -> None:
    for ranks in (2, 4, 8, 16, 24, 32):
        run = replace(RUN, ranks=ranks, hosts=("a", "b"), points=[(1 << 32, 471.21, 470.75)], release="2.17")
        (row,) = rows_of(*run.column_lines(), *run.rows())
        assert (row["ranks"], row["nodes"]) == (ranks, None)


def test_too_few_digits_tell_no_number_of_ranks() -> None:
    run = replace(RUN, ranks=64, points=[(1 << 30, 3.15, 3.14)])
    (row,) = rows_of(*run.column_lines(), *run.rows())
    assert (row["ranks"], row["busbw"]) == (None, 3.15)


def test_rows_alone() -> None:
    assert busbws(rows_of(*RUN.rows())) == WHOLE


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("all_reduce", "all_reduce"), ("all_gather", "all_gather or all_to_all"), ("reduce_scatter", "reduce_scatter"),
        ("broadcast", "broadcast"), ("reduce", "reduce"), ("alltoall", "all_gather or all_to_all"),
        ("gather", "gather or scatter"),
    ],
)  # fmt: skip
def test_the_collective_by_name_and_by_the_cells(program: str, told: str) -> None:
    run = replace(RUN, program=program)
    named = rows_of(*run.lines())
    assert {(row["named"], row["ranks"]) for row in named} == {(True, 8)}
    assert named[0]["collective"] == {"alltoall": "all_to_all"}.get(program, program)
    rows = rows_of(*run.column_lines(), *run.rows())
    assert {row["collective"] for row in rows} == {told}
    assert {row["refused"] for row in rows} == {None}


def test_the_old_tables_of_gather_and_alltoall_differ() -> None:
    for program, told in (("all_gather", "all_gather"), ("alltoall", "all_to_all")):
        rows = rows_of(*replace(OLD, program=program).lines())
        assert busbws(rows) == WHOLE
        assert {(row["collective"], row["named"], row["redop"]) for row in rows} == {(told, False, None)}


def test_two_ranks_may_be_two_collectives() -> None:
    run = replace(RUN, ranks=2, release="2.14", wrong="N/A")
    assert {row["collective"] for row in rows_of(*run.lines())} == {"all_reduce or sendrecv"}
    assert {row["collective"] for row in rows_of(*replace(run, wrong="0").lines())} == {"all_reduce"}
    command = "+ mpirun -np 2 ./build/sendrecv_perf -b 1M -e 4G"
    assert {row["collective"] for row in rows_of(command, *run.lines())} == {"sendrecv"}


def test_several_tables_each_with_its_own_head() -> None:
    second = replace(RUN, program="broadcast", hosts=("gx-08", "gx-09"), ranks=4)
    rows = rows_of(*RUN.lines(), *second.lines(), *RUN.column_lines(), *RUN.rows())
    assert [(row["table"], row["collective"], row["nodes"]) for row in rows[::3]] == [
        (0, "all_reduce", 1), (1, "broadcast", 2), (2, "all_reduce", None),
    ]  # fmt: skip


def test_tables_of_several_processes_side_by_side() -> None:
    """Without MPI every process runs a world of its own."""
    alone = replace(RUN, ranks=1, points=[(1 << 27, 0.0, 0.0)], release="2.14")
    pairs = zip(alone.lines(), alone.lines(), strict=True)
    rows = rows_of(*(f"[1,{task}]<stdout>:{line}" for pair in pairs for task, line in enumerate(pair)))
    assert [(row["table"], row["ranks"], row["busbw"]) for row in rows] == [(0, 1, 0.0), (1, 1, 0.0)]


def test_a_list_of_devices_that_leaves_out_the_middle() -> None:
    run = replace(RUN, ranks=16, hosts=("a1", "a2"))
    head = [line for line in run.head() if " Rank " not in line or any(f"Rank {n:2} " in line for n in (0, 7, 8, 15))]
    rows = rows_of(*head, "...", *run.column_lines(), "  ...", *run.rows(), *run.end())
    assert {(row["ranks"], row["nodes"]) for row in rows} == {(16, 2)}


def test_a_list_of_devices_that_is_cut_gives_way_to_the_columns() -> None:
    run = replace(RUN, ranks=16, hosts=("a1", "a2"))
    head = [line for line in run.head() if " Rank " not in line or "on         a1" in line]
    assert {(row["ranks"], row["nodes"]) for row in rows_of(*head, *run.column_lines(), *run.rows())} == {(16, None)}


def test_relative_errors_are_no_wrong_values() -> None:
    rows = rows_of(*replace(OLD, wrong="2e-01").lines())
    assert {row["wrong"] for row in rows} == {0.2}
    assert {row["wrong"] for row in rows_of(*replace(OLD, wrong="2e-03", type="half").lines())} == {0.0}


def test_unchecked_and_wrong_rows() -> None:
    assert {row["wrong"] for row in rows_of(*replace(RUN, wrong="N/A").lines())} == {None}
    assert {row["wrong"] for row in rows_of(*replace(RUN, wrong="1e+03").lines())} == {1000.0}


def refusals(*lines: str) -> set[str | None]:
    return {row["refused"] for row in rows_of(*RUN.column_lines(), *lines)}


def test_rows_that_no_test_prints_are_refused() -> None:
    good = RUN.rows()[2]
    assert refusals(good) == {None}
    (edited,) = refusals(good.replace("478.25", "273.29"))
    assert edited and "edited" in edited
    assert refusals(good.replace("478.25", "XXX.XX")) == {"placeholders in place of numbers"}
    assert refusals(good.replace("478.25", "   nan")) == {"not a number, or infinite"}
    assert refusals(good.replace("478.25", "-478.2")) == {"a negative number"}
    assert refusals(good.replace("478.25", "9" * 40)) == {"faster than any machine"}
    assert refusals(good.replace("478.25", "1e+9999")) == {"not a number, or infinite"}
    assert refusals(good.replace("4294967296", "4" * 39)) == {"a size that no memory holds"}
    assert refusals(good[:60]) == {"torn"}
    assert refusals(good.replace("478.25", "478.25.1")) == {"torn"}


def test_what_is_refused_is_said() -> None:
    notes = read(*RUN.column_lines(), *(row.replace("478.25", "XXX.XX") for row in RUN.rows())).inputs[0].notes
    assert notes == ("line 5 of an nccl-tests table not used: placeholders in place of numbers",)


@pytest.mark.parametrize("cut", range(0, 130, 9))
def test_torn_lines_do_no_harm(cut: int) -> None:
    lines = RUN.lines()
    rows = rows_of(*(line[:cut] + line[cut + 7 :] for line in lines), *lines)
    assert busbws(rows)[-3:] == WHOLE


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3: 128 256 float tensors moved",
        "Rank 0 is up",
        "step: 2(factor)",
        "nThread pool",
        "12 24 float",
        "{",
        "}",
    ],
)
def test_other_lines_are_no_table(line: str) -> None:
    assert rows_of("x algbw float  ", line, line) == []


# ------------------------------------------------------------------------------------------------------------- JSON


def document(**changes: Any) -> dict[str, Any]:
    devices = [
        {"rank": rank, "group": 0, "pid": 5 + rank, "hostname": f"jx-{rank}", "device": 0, "device_hex": "0000:1b:00",
         "device_info": "NVIDIA B200"}
        for rank in (0, 8)
    ]  # fmt: skip
    config = {
        "nthreads": 1, "ngpus": 8, "minimum_bytes": 8, "maximum_bytes": 1 << 33, "step_factor": 2, "warmup_iters": 1,
        "iterations": 50, "aggregated_iterations": 1, "validation": 1, "graph": 0, "blocking_collectives": "false",
        "devices": devices,
    }  # fmt: skip
    results = [
        {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
         "out_of_place": {"time": size / gbps / 1e3, "alg_bw": gbps, "bus_bw": gbps * 1.875, "nwrong": 0.0},
         "in_place": {"time": size / gbps / 1e3, "alg_bw": gbps, "bus_bw": gbps * 1.875, "nwrong": None},
         "actual_iterations": 50, "experiment_name": ""}
        for size, gbps in ((1 << 20, 31.25), (1 << 33, 402.5))
    ]  # fmt: skip
    return {
        "version": 3, "start_time": "2026-03-04 05:06:07", "args": ["/opt/tests/all_reduce_perf", "-J", "out.json"],
        "env": ["TOKEN=do-not-show", "NCCL_DEBUG=WARN"], "nccl_version": 22807, "config": config, "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 400.0, "okay": "unchecked"}, "errors": [],
        "end_time": "2026-03-04 05:07:07", **changes,
    }  # fmt: skip


EXPECTED = [(1 << 20, 58.59375, 58.59375), (1 << 33, 754.6875, 754.6875)]


@pytest.mark.parametrize("indent", [None, 2])
def test_json(indent: int | None) -> None:
    lines = json.dumps(document(), indent=indent).split("\n")
    rows = rows_of("some log line", *lines, "another")
    assert busbws(rows) == EXPECTED
    assert {(row["collective"], row["named"], row["ranks"], row["nodes"], row["gpu"]) for row in rows} == {
        ("all_reduce", True, 16, 2, "NVIDIA B200")
    }
    assert (rows[0]["wrong"], rows[0]["in_wrong"], rows[0]["iters"]) == (0.0, None, 50)
    said = [lines[row["line"] - 2] for row in rows]
    assert all('"size"' in line for line in said)


def test_json_of_a_run_that_was_killed() -> None:
    text = json.dumps(document())
    for cut, number in (('"out_of_bounds"', 2), ('"bus_bw": 754', 1), ('"results"', 0)):
        reading = read(text[: text.index(cut)])
        table = reading.tables.get("measurements", pl.DataFrame())
        assert table.height == number
        (note,) = reading.inputs[0].notes
        assert "JSON" in note and "ends" in note
    assert read(text).inputs[0].notes == ()


def test_json_with_numbers_that_are_none() -> None:
    text = json.dumps(document()).replace("754.6875", "inf", 1).replace("58.59375", '"nan"', 1)
    assert [row["refused"] for row in rows_of(text)] == ["not a number, or infinite"] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"results": "none"}, {"results": [1, None, {"size": -4, "count": 2}]}, {"config": {"nthreads": "many"}},
        {"args": 7}, {"config": {"nthreads": 1, "devices": [{"rank": "zero"}, 8]}}, {"average_bus_bandwidth": []},
        {"results": [{"size": 1 << 80, "count": 1, "out_of_place": {}, "in_place": None}]},
    ],
)  # fmt: skip
def test_json_of_strangers(changes: dict[str, Any]) -> None:
    rows = rows_of(json.dumps(document(**changes)))
    assert all(row["busbw"] is None or row["size"] in (1 << 20, 1 << 33) for row in rows)


# --------------------------------------------------------------------------------------------------------- fixtures


@pytest.mark.parametrize(
    ("name", "collective", "ranks", "nodes", "busbw"),
    [
        ("2.10-v100.txt", "all_reduce", 4, 1, 128.31), ("2.10-alltoall-blank-cell.txt", "all_to_all", 8, 1, 223.5),
        ("2.13-tagged.txt", "all_reduce", 16, 2, 188.64), ("2.17-srun-timestamps.txt", "reduce_scatter", 64, 8, 372.8),
        ("2.19-options.txt", "all_reduce", 8, 1, 836.4), ("two-tables-in-a-log.txt", "broadcast", 8, 1, 361.7),
        ("rows-not-to-believe.txt", "all_reduce", 8, None, 471.3), ("run.json", "all_reduce", 16, 2, 754.6875),
        ("killed.json", "all_reduce", 16, 2, 58.59375),
    ],
)  # fmt: skip
def test_fixtures(name: str, collective: str, ranks: int, nodes: int | None, busbw: float) -> None:
    last = rows_of(*(FIXTURES / name).read_text().splitlines())[-1]
    told = (last["collective"], last["ranks"], last["nodes"], last["busbw"])
    assert told == (collective, ranks, nodes, pytest.approx(busbw, rel=1e-3))


def test_rows_not_to_believe() -> None:
    reasons = [row["refused"] for row in rows_of(*(FIXTURES / "rows-not-to-believe.txt").read_text().splitlines())]
    assert [bool(reason) for reason in reasons] == [True] * 6 + [False]
    assert len(set(reasons)) == 7


# ---------------------------------------------------------------------------------------------------------- samples


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not part of the repository")
def test_all_samples_are_read_or_refused_with_a_reason() -> None:
    refused = {}
    for file in sorted(SAMPLES.iterdir()):
        rows = rows_of(*file.read_text(encoding="utf-8", errors="backslashreplace").splitlines())
        assert rows, file.name
        if reasons := {row["refused"] for row in rows} - {None}:
            refused[file.name] = reasons
        large = [row for row in rows if row["busbw"] and row["busbw"] > 1 and not row["refused"]]
        assert large or file.name in refused, file.name
    assert set(refused) == {"azure-ndh100v5-skill.txt", "gcp-a3-megagpu-8g.txt"}
    assert refused["gcp-a3-megagpu-8g.txt"] == {"placeholders in place of numbers"}
    assert all("edited or invented" in reason for reason in refused["azure-ndh100v5-skill.txt"] if reason)
