"""Lines in which several writers met: what is put together again, and what is counted as lost."""

from __future__ import annotations

import pytest

from ncclcheck.readers.finding import Piece
from ncclcheck.readers.projection import Projection

A, B = "n1:7:7 [0] NCCL INFO ", "n2:9:9 [1] NCCL INFO "
WHOLE = [f"{A}Connected all rings", f"{B}Connected all rings"]


def read(*lines: str, knows_hosts: bool = True) -> tuple[list[tuple[int, str | None, str]], list[tuple[int, str]]]:
    """(line, host, event or text) of each record, and (line, kind) of each damaged line; lines are counted behind
    those that make the hosts known."""
    before = WHOLE if knows_hosts else []
    block = "\n".join([*before, *lines, ""]).encode()
    projection = Projection()
    found = projection.read([Piece(0, block, 1 - len(before))])
    heads = [text.rpartition(":")[0].rpartition(":")[0] for _, text in projection.heads.texts()]
    rows = [
        (line, record, heads[head], event)
        for event, table in found.events.items()
        for line, record, head in table.rows.select("_line", "_record", "_head").iter_rows()
    ]
    if found.unrecognised is not None:
        rows += [
            (line, record, heads[head], text)
            for line, record, head, text in found.unrecognised.joined()
            .select("_line", "_record", "_head", "message")
            .iter_rows()
        ]
    records = [(line, host, what) for line, _, host, what in sorted(rows) if line > 0]
    return records, list(found.damage.select("_line", "kind").iter_rows())


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((f"{A}Connected all tr{B}nranks 4", "ees"), id="the end on the next line"),
        pytest.param((f"{A}Connected all tr{B}nranks 4", f"{B}nranks 4", "step 12 loss 3", "ees"), id="some lines on"),
        pytest.param((f"{A}Connected all tr{B}nranks 4ees",), id="the end behind the other record"),
        pytest.param((f"n1:7:7 [0] NCCL IN{B}nranks 4", "FO Connected all trees"), id="the word INFO is cut"),
        pytest.param((f"{A}{B}nranks 4", "Connected all trees"), id="only the head"),
        pytest.param((f"n1:7:7 [0] NC{B}nranks 4", "CL INFO Connected all trees"), id="the word NCCL is cut"),
        pytest.param((f"{A}Connected all tr{B}nranks 4", "[1,0]<stdout>:ees"), id="the end with a label"),
    ],
)
def test_halves_are_put_together(lines: tuple[str, ...]) -> None:
    records, damage = read(*lines)
    assert [row for row in records if row[0] == 1] == [(1, "n1", "connected"), (1, "n2", "nranks")]
    assert damage == [(1, "mended")]


@pytest.mark.parametrize(
    ("lines", "records", "kinds"),
    [
        pytest.param(
            (f"{A}Connected all tr{B}nranks 4", "step 12"),
            [(1, "n1", "Connected all tr"), (1, "n2", "nranks")],
            ["torn"],
            id="no end anywhere",
        ),
        pytest.param((f"n1:7:7 [0] NCCL IN{B}nranks 4",), [(1, "n2", "nranks")], ["torn"], id="the word INFO is cut"),
        pytest.param(
            (f"{A}Connected all tr{B}Connected all tr", "ees"),
            [(1, "n1", "connected"), (1, "n2", "Connected all tr")],
            ["mended", "cut"],
            id="one end for two halves",
        ),
    ],
)
def test_what_is_lost_is_counted(lines: tuple[str, ...], records: list[tuple[int, str, str]], kinds: list[str]) -> None:
    assert read(*lines) == (records, [(1, kind) for kind in kinds])


def test_an_edge_that_lost_its_end_does_not_say_that_gdr_is_off() -> None:
    edge = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0"
    assert read(f"{A}{edge}/GDRDMA", f"{A}{edge}{B}nranks 4") == (
        [(1, "n1", "channel_connect"), (2, "n2", "nranks")],
        [(2, "torn")],
    )
    assert read(f"{A}{edge}{B}nranks 4")[1] == [(1, "joined")]  # nobody has GDR here


@pytest.mark.parametrize("at", range(3, len("n1:7:7 [0] ") + 1))
def test_a_head_is_put_together(at: int) -> None:
    head = "n1:7:7 [0] "
    lines = [f"{head[:at]}{B}nranks 4", f"{head[at:]}NCCL INFO Connected all trees"]
    records, damage = read(*lines, *WHOLE * 9)
    assert records[:2] == [(1, "n2", "nranks"), (2, "n1", "connected")]
    assert damage == [(1, "mended")]


def test_of_two_heads_cut_in_one_line_nobody_knows_whose_an_end_is() -> None:
    lines = [f"{A[:-3]}{B[:-3]}n3:4:4 [2] NCCL INFO nranks 4", "FO Connected all trees"]
    records, damage = read(*lines)
    assert records == [(1, "n3", "nranks")]
    assert damage == [(1, "torn")]


def test_a_record_of_nobody_is_lost_where_all_others_have_a_host() -> None:
    lines = ["7:7 [0] NCCL INFO Connected all trees", *WHOLE * 9]
    assert read(*lines)[1] == [(1, "torn")]
    assert all(line > 1 for line, *_ in read(*lines)[0])
    assert read("[0] NCCL INFO nranks 4", "[1] NCCL INFO nranks 4", knows_hosts=False)[1] == []


def test_a_text_that_may_be_half_of_one_says_nothing_unless_somebody_says_the_same() -> None:
    glued = f"{A}Using network I{B}nranks 4"
    assert read(glued, "step 12") == ([(1, "n2", "nranks")], [(1, "torn")])
    assert read(glued, "B", f"{B}Using network IB")[0][0] == (1, "n1", "net_using")
    assert read(f"{A}Using network IB{B}nranks 4", f"{B}Using network IB")[1] == [(1, "joined")]


def test_a_warning_or_version_before_another_record_is_read() -> None:
    warned = f"n1:7:7 [0] init.cc:5 NCCL WARN Cuda failure 'oom'{B}nranks 4"
    assert read(warned) == ([(1, "n1:7", "cuda_failure"), (1, "n2", "nranks")], [(1, "joined")])
    version = f"NCCL version 2.18.5+cuda12.2{B}nranks 4"
    assert read(version) == ([(1, "", "version"), (1, "n2", "nranks")], [(1, "joined")])


def test_a_last_record_that_may_hold_the_end_of_another_says_nothing() -> None:
    assert read(f"{A}NCCL_CGA_CLUSTER_SIZE value 16 is too big. {B}NET/OFI Running on xLimiting value to 8.") == (
        [(1, "n1", "NCCL_CGA_CLUSTER_SIZE value 16 is too big.")],
        [(1, "torn")],
    )


def test_several_whole_records_are_no_loss() -> None:
    version = f"{A}Bootstrap : Using eth0:10.1.2.3<0>NCCL version 2.18.5+cuda12.2"
    assert read(version) == ([(1, "n1", "bootstrap_using"), (1, "", "version")], [(1, "joined")])
    both = f"[1,0]<stdout>:{A}nranks 4[1,1]<stdout>:{B}nranks 4"
    assert read(both, knows_hosts=False)[1] == [(1, "joined")]


def test_more_records_than_fit_a_byte_stand_in_one_line() -> None:
    records, damage = read(" ".join([f"{A}nranks 4"] * 700))
    assert (len(records), damage) == (700, [(1, "joined")])


def test_the_end_is_not_looked_for_in_another_input() -> None:
    pieces = [Piece(0, f"{A}Connected all tr{B}nranks 4\n".encode(), 1), Piece(1, b"ees\n", 1)]
    assert Projection().read(pieces).damage.rows() == [(0, 1, "torn")]


@pytest.mark.parametrize(
    "text", ["Connected all t", "Conn", "Trees [0] 1/-1/-1->0", "comm 0x55d0 rank 3 nranks 16 cudaDev 3 nvml"]
)
def test_a_record_that_ends_too_early_is_cut(text: str) -> None:
    assert read(f"{A}{text}")[1] == [(1, "cut")]


@pytest.mark.parametrize("text", ["NET/FastPath : on", "Connected all the dots", "nranks four"])
def test_an_unknown_form_is_not_cut(text: str) -> None:
    assert read(f"{A}{text}")[1] == []


def test_a_list_of_devices_that_fills_the_line_is_cut() -> None:
    devices = "NET/IB : Using" + "".join(f" [{i}]mlx5_{i}:1/RoCE" for i in range(70))
    assert read((A + devices)[:1023])[1] == [(1, "cut")]
    assert read(f"[1,3]<stdout>:{(A + devices)[:1023]}")[1] == [(1, "cut")]
    assert read((A + devices)[:980])[1] == []


def test_the_input_that_makes_most_work_ends_soon() -> None:
    line = f"{A}Connected all tr{B}Connected all tr" + "x" * 200 + "\n"
    found = Projection().read([Piece(0, line.encode() * 3000, 1)])
    assert found.damage.get_column("_line").n_unique() == 3000


def test_the_label_of_a_pod_is_no_part_of_the_value_before_it() -> None:
    """A line's end is lost between two records, of which the second has a label."""
    line = f"{A}NET/Plugin: Using internal network plugin.[pod/n2-0/trainer] {B}nranks 4"
    assert read(line)[0] == [(1, "n1", "net_plugin_using_internal"), (1, "[pod/n2-0/trainer] n2", "nranks")]
