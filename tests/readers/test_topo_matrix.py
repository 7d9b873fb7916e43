import re
import time
from pathlib import Path

import pytest

from ncclcheck.readers.grammar_files import grammar_text
from ncclcheck.readers.topo_matrix import Matrix, may_hold_matrix, read_matrices

_CHECKOUT = Path(__file__).parents[2]
_FIXTURES = _CHECKOUT / "fixtures" / "topo"
_SAMPLES = _CHECKOUT.parent / "shared" / "samples" / "topo-m"


def read(text: str) -> list[Matrix]:
    return read_matrices(list(enumerate(text.split("\n"), 1)))


def fixture(name: str) -> Matrix:
    (matrix,) = read((_FIXTURES / name).read_text(encoding="utf-8"))
    return matrix


def rows(matrix: Matrix) -> dict[str, str]:
    """Each row as one text: `-` is the device itself, `?` an unknown cell, `~` marks a mirrored one."""
    names = [device.name for device in matrix.devices]

    def shown(a: str, b: str) -> str:
        cell = matrix.cells.get((a, b))
        if cell is None:
            return "-" if a == b else "?"
        return cell.text + (str(cell.links) if cell.links else "") + ("~" if cell.mirrored else "")

    return {a: " ".join(shown(a, b) for b in names) for a in names}


# -------------------------------------------------------------------------------------------------- layouts


def test_raw_bytes_of_a_new_driver() -> None:
    matrix = fixture("raw-tabs.txt")
    assert (matrix.kind, matrix.complete, matrix.problems) == ("topo", True, ())
    assert (matrix.first_line, matrix.last_line) == (2, 22)
    assert rows(matrix) == {
        "GPU0": "- NV6 NV6 PIX SYS",
        "GPU1": "NV6 - NV6 PXB SYS",
        "GPU2": "NV6 NV6 - SYS PIX",
        "NIC0": "PIX PXB SYS - SYS",
        "NIC1": "SYS SYS PIX SYS -",
    }
    assert matrix.cpu_affinity == {"GPU0": "0-11,24-35", "GPU1": "0-11,24-35", "GPU2": "12-23,36-47"}
    assert matrix.numa_affinity == {"GPU0": "0", "GPU1": "0", "GPU2": "1"}
    assert [(d.name, d.kind, d.rdma_name, d.line) for d in matrix.devices] == [
        ("GPU0", "gpu", None, 3),
        ("GPU1", "gpu", None, 4),
        ("GPU2", "gpu", None, 5),
        ("NIC0", "nic", "mlx5_3", 6),
        ("NIC1", "nic", "mlx5_bond_0", 7),
    ]
    assert matrix.cells["GPU2", "NIC1"].line == 5


def test_numa_lists_of_a_coherent_platform() -> None:
    matrix = fixture("coherent-lists.txt")
    assert matrix.numa_affinity == {"GPU0": "0,2-9", "GPU1": "1,10-17"}
    assert matrix.devices[2].rdma_name == "roceP2p1s0f1"
    assert matrix.problems == ()


def test_quoted_and_respaced_with_a_bare_colour_code() -> None:
    matrix = fixture("quoted-bare-colour.txt")
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix) == {"GPU0": "- PHB NODE", "GPU1": "PHB - NODE", "NIC0": "NODE NODE -"}
    assert matrix.cpu_affinity == {"GPU0": "0-15", "GPU1": "0-15"}
    assert matrix.devices[2].rdma_name == "irdma0"


def test_lost_tabs() -> None:
    matrix = fixture("lost-tabs.txt")
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix) == {
        "GPU0": "- NV4 SYS SYS PXB NODE",
        "GPU1": "NV4 - SYS SYS PXB NODE",
        "GPU2": "SYS SYS - NV4 SYS SYS",
        "GPU3": "SYS SYS NV4 - SYS SYS",
        "NIC0": "PXB PXB SYS SYS - NODE",
        "NIC1": "NODE NODE SYS SYS NODE -",
    }
    assert matrix.cpu_affinity == {"GPU0": "0-7", "GPU1": "0-7", "GPU2": "8-15", "GPU3": "8-15"}
    assert set(matrix.numa_affinity.values()) == {"0", "1"}


def test_old_names_and_soc() -> None:
    matrix = fixture("old-names.txt")
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix)["GPU0"] == "- PIX PHB SYS"
    assert matrix.cells["GPU0", "mlx4_1"].raw == "SOC"
    assert [d.rdma_name for d in matrix.devices] == [None, None, "mlx5_0", "mlx4_1"]
    assert matrix.numa_affinity == {"GPU0": None, "GPU1": None}


def test_renamed_device() -> None:
    matrix = fixture("renamed-nic.txt")
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix)["rail_a0"] == "PXB PXB -"


@pytest.mark.parametrize("name", ["windows.txt", "windows-respaced.txt"])
def test_windows_has_no_affinity(name: str) -> None:
    matrix = fixture(name)
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix) == {"GPU0": "- SYS", "GPU1": "SYS -"}
    assert matrix.cpu_affinity == matrix.numa_affinity == {"GPU0": None, "GPU1": None}


def test_markdown() -> None:
    matrix = fixture("markdown.txt")
    assert (matrix.complete, matrix.problems) == (True, ())
    assert rows(matrix)["GPU1"] == "NV12 - SYS"
    assert matrix.cpu_affinity == {"GPU0": "0-3,8-11", "GPU1": "4-7,12-15"}
    assert matrix.numa_affinity == {"GPU0": "0", "GPU1": "1"}


def test_p2p_tables() -> None:
    tables = read((_FIXTURES / "p2p.txt").read_text(encoding="utf-8"))
    assert [table.kind for table in tables] == ["p2p-read", "p2p-write", "p2p-nvlink", "p2p"]
    assert all(table.complete and not table.problems for table in tables)
    assert rows(tables[0]) == {"GPU0": "- OK CNS", "GPU1": "OK - CNS", "GPU2": "CNS CNS -"}
    assert rows(tables[1])["GPU0"] == "- GNS"
    assert tables[2].cells == {}


def test_topo_mp_is_told_by_its_command() -> None:
    assert fixture("topo-mp.txt").nvlink_hidden
    assert not fixture("old-names.txt").nvlink_hidden


def test_two_machines_mixed_in_a_log() -> None:
    first, second = read((_FIXTURES / "in-a-log.txt").read_text(encoding="utf-8"))
    assert (first.label, second.label) == ("n1:", "n2:")
    assert first.complete and second.complete and first.problems == second.problems == ()
    assert first.cells["GPU0", "GPU1"].links == 2
    assert second.cells["GPU0", "GPU1"].links == 1
    assert [m.devices[2].rdma_name for m in (first, second)] == ["mlx5_0", "mlx5_9"]


def test_two_ranks_print_one_table_without_labels() -> None:
    text = "".join(line * 2 for line in (_WHOLE.splitlines(keepends=True)))
    (matrix,) = read(text)
    assert matrix.complete and matrix.problems == ()
    assert _texts(matrix) == _texts(read(_WHOLE)[0])


def test_other_lines_between_the_lines_of_a_table_but_not_too_many() -> None:
    head, *rest = _WHOLE.splitlines(keepends=True)
    noise = "n1:1:2 [0] NCCL INFO Connected all trees\n"
    assert read(head + noise * 90 + (noise * 90).join(rest))[0].complete
    assert not read(head + rest[0] + noise * 2000 + "".join(rest[1:]))[0].complete


def test_no_table() -> None:
    assert read((_FIXTURES / "not-a-table.txt").read_text(encoding="utf-8")) == []
    assert read("") == []


# -------------------------------------------------------------------------------------------------- damage


def test_cut_row_is_filled_from_its_mirror_and_marked() -> None:
    matrix = fixture("cut-row.txt")
    assert not matrix.complete
    assert rows(matrix)["GPU2"] == "NV12 NV12~ - ?"
    assert rows(matrix)["NIC0"] == "PXB~ SYS~ ? -"
    assert matrix.problems == (
        "line 5: row GPU2 holds 2 cells for 4 columns",
        "line 5: no rows for NIC0",
        "line 5: not known from any row: (GPU2, NIC0)",
    )


def test_lost_characters_are_reported_and_not_guessed() -> None:
    matrix = fixture("lost-characters.txt")
    assert not matrix.complete
    assert rows(matrix) == {
        "GPU0": "- NV4 ? SYS PIX",
        "GPU1": "NV4 - ? SYS~ PIX~",
        "GPU2": "? ? - NV4~ SYS~",
        "GPU3": "SYS SYS NV4 - SYS",
        "NIC0": "PIX PIX SYS SYS -",
    }
    assert "line 3: cell (GPU0, GPU2) cannot be read: 'SY'" in matrix.problems
    assert "line 5: row GPU2: X is missing; the row is not used" in matrix.problems
    assert sum("'-15' is not a list" in problem for problem in matrix.problems) == 2
    assert matrix.cpu_affinity["GPU3"] is None


def test_a_digit_lost_from_a_cpu_list() -> None:
    (problem,) = fixture("list-digits.txt").problems
    assert "NUMA node 1" in problem and "32-63 and 2-63" in problem


def test_header_that_lost_labels_is_named_by_its_rows() -> None:
    matrix = fixture("header-lost-label.txt")
    assert matrix.complete
    assert rows(matrix)["GPU1"] == "PIX - SYS SYS PIX"
    assert matrix.problems == ("line 2: the header has lost 2 of 5 labels; the columns are named after the rows",)


def test_rows_without_a_header() -> None:
    matrix = fixture("no-header.txt")
    assert matrix.complete and "no header" in matrix.problems[0]
    assert rows(matrix)["GPU2"] == "SYS SYS -"


def test_asymmetric_pair() -> None:
    assert fixture("asymmetric.txt").problems == ("line 4: (GPU1, GPU0) is PHB, but (GPU0, GPU1) is NV4",)


def test_rows_without_columns() -> None:
    matrix = read("\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \nNIC0\tPIX\tSYS\n")[0]
    assert rows(matrix) == {"GPU0": "- NV2 PIX~", "GPU1": "NV2 - SYS~", "NIC0": "PIX SYS -"}
    assert matrix.problems == ("line 4: rows without a column: NIC0",)


_WHOLE = (
    "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV12\tSYS\tPIX\tNODE\t0-31\t0\n"
    "GPU1\tNV12\t X \tSYS\tPXB\tNODE\t0-31\t0\n"
    "GPU2\tSYS\tSYS\t X \tSYS\tSYS\t32-63\t1\n"
    "NIC0\tPIX\tPXB\tSYS\t X \tPHB\t\t\n"
    "NIC1\tNODE\tNODE\tSYS\tPHB\t X \t\t\n"
)


def _texts(matrix: Matrix) -> dict[tuple[str, str], str]:
    return {pair: cell.raw for pair, cell in matrix.cells.items()}


@pytest.mark.parametrize("blanks", [False, True])
def test_a_text_cut_anywhere_never_gives_a_wrong_cell(blanks: bool) -> None:
    text = _WHOLE.replace("\t", "    ") if blanks else _WHOLE
    whole = _texts(read(text)[0])
    for end in range(len(text)):
        for matrix in read(text[:end]):
            wrong = {pair: raw for pair, raw in _texts(matrix).items() if whole[pair] != raw}
            assert not wrong, (end, wrong)
            if end < text.index("GPU2", 60):
                assert not matrix.complete


@pytest.mark.parametrize("blanks", [False, True])
def test_a_lost_character_is_never_silent(blanks: bool) -> None:
    text = _WHOLE.replace("\t", "    ") if blanks else _WHOLE
    whole = _texts(read(text)[0])
    for place in range(len(text)):
        (matrix,) = read(text[:place] + text[place + 1 :])
        if _texts(matrix) != whole:
            assert matrix.problems, (place, text[max(0, place - 8) : place + 8])


def test_hostile_lines_are_bounded() -> None:
    lines = [
        "\t".join(f"GPU{i}" for i in range(1500)),
        "GPU0 X " + "NV18" * 1900,
        "GPU0 X " + "0" * 7000 + "x",
        "GPU0 X " + "9" * 7000 + " 1",
        "GPU0 " + " " * 7000 + "x",
        "[" * 7900,
        "GPU0 X\t" + "mlx5_0" * 1200,
        "GPU0 " * 1_000_000,
    ]
    begin = time.perf_counter()
    read("\n".join([*_WHOLE.split("\n"), *lines, "\tGPU0\tCPU Affinity", *lines]))
    assert time.perf_counter() - begin < 5


# -------------------------------------------------------------------------------------------------- the cheap test


def test_cheap_test_knows_the_words_of_the_grammar() -> None:
    terminals = dict(re.findall(r"^(PATH|P2P): /(.+)/$", grammar_text("topo"), re.MULTILINE))
    for word in [*terminals["PATH"].split("|"), *terminals["P2P"].split("|"), "X", "NV4"]:
        assert may_hold_matrix(f"GPU0\t {word} \t")


def test_cheap_test_takes_every_fixture_and_passes_over_logs() -> None:
    for path in _FIXTURES.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert may_hold_matrix(text) and may_hold_matrix(text.encode()) and may_hold_matrix(text.split("\n"))
    assert not may_hold_matrix("n1:1:2 [0] NCCL INFO GPU/1000 (1/5.0/SYS)\nGPU 0: Tesla\nGPU0 Utilization\nGPU0: SYS")


def test_grammar_has_no_collisions() -> None:
    pytest.importorskip("interegular")
    from lark import Lark

    Lark(grammar_text("topo"), parser="lalr", start=["header", "row", "legend", "nic_legend"], strict=True)


# -------------------------------------------------------------------------------------------------- tables at hand


def _samples() -> list[Path]:
    return sorted(_SAMPLES.glob("*.txt")) if _SAMPLES.is_dir() else []


@pytest.mark.parametrize("path", _samples(), ids=lambda path: path.stem)
def test_collected_tables(path: Path) -> None:
    matrices = read(path.read_text(encoding="utf-8", errors="backslashreplace"))
    if path.stem == "topo-m-failed":
        assert matrices == []
        return
    (matrix,) = matrices
    assert matrix.complete or path.stem.endswith("-PARTIAL")
    assert matrix.kind.startswith("p2p") == path.stem.startswith("p2p")
    named = re.search(r"(?:^|(?<=[0-9s-]))x([0-9]+)(?=[-.]|$)", path.stem)
    if named:
        assert sum(device.kind == "gpu" for device in matrix.devices) == int(named.group(1))
