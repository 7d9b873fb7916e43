from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclcheck.readers.read import Reading, read_sources
from ncclcheck.readers.topo_xml import Document, XmlReader

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "topo_xml"


def read(text: str) -> list[Document]:
    reader = XmlReader()
    reader.read(enumerate(text.split("\n"), 1))
    return reader.finish()


def fixture(name: str) -> str:
    return (_FIXTURES / name).read_text(encoding="utf-8")


def only(text: str) -> Document:
    (document,) = read(text)
    return document


def gpus(document: Document) -> list[tuple[int, str, bool]]:
    return [(node.line, node.attributes.get("dev", ""), node.whole) for node in document.nodes if node.tag == "gpu"]


def test_a_dump_is_read_whole() -> None:
    document = only(fixture("nvswitch.xml"))
    assert (document.kind, document.line, document.complete, document.rccl) == ("topo-xml", 1, True, False)
    assert gpus(document) == [(5, "0", True), (20, "1", True), (37, "2", True), (52, "3", True)]
    first = next(node for node in document.nodes if node.tag == "gpu")
    assert first.parent is not None and document.nodes[first.parent].attributes["busid"] == "0000:19:00.0"


def test_a_graph_file_is_told_from_a_topology_file() -> None:
    document = only(fixture("rings.xml"))
    assert (document.kind, document.complete) == ("graph-xml", True)
    assert [node.attributes["nchannels"] for node in document.nodes if node.tag == "graph"] == ["2", "0"]


def test_comments_as_nccl_takes_them() -> None:
    text = fixture("guest-file.xml").replace("</pci>", "</pci> <!-- switch -- ends -->")
    document = only(text)
    assert document.complete and document.line == 4


def test_files_of_rccl_are_marked() -> None:
    assert only(fixture("amd.xml")).rccl


@pytest.mark.parametrize("before", ["", "    ", "> ", "[1,0]<stdout>:", "node7: ", "2026-05-04T10:11:12.5Z stdout F "])
def test_inside_a_log_behind_a_label(before: str) -> None:
    record = "box:100:100 [0] NCCL INFO Using network IB"
    lines = fixture("cube.xml").rstrip("\n").split("\n")
    text = "\n".join([record, *(before + line for line in lines[:4]), record, *(before + line for line in lines[4:])])
    document = only(text)
    assert document.complete and document.line == 2
    assert [dev for _, dev, _ in gpus(document)] == ["0", "1", "2", "3"]


def test_two_hosts_print_their_files_at_once() -> None:
    lines = fixture("cube.xml").rstrip("\n").split("\n")
    text = "\n".join(f"{host}: {line}" for line in lines for host in ("n1", "n2"))
    assert [(document.line, document.complete) for document in read(text)] == [(1, True), (2, True)]


@pytest.mark.parametrize("length", range(1, 40))
def test_a_cut_file_gives_what_was_readable(length: int) -> None:
    text = fixture("nvswitch.xml")
    (document,) = read(text[: length * len(text) // 40])
    whole = only(text)
    assert not document.complete
    assert [(node.line, node.tag) for node in document.nodes] == [
        (node.line, node.tag) for node in whole.nodes[: len(document.nodes)]
    ]
    assert all(node.whole for node in document.nodes if node.tag == "nvlink")


def test_a_gpu_that_is_cut_is_not_whole() -> None:
    text = fixture("nvswitch.xml")
    document = only(text[: text.index("</gpu>")])
    assert gpus(document) == [(5, "0", False)]


def test_pieces_without_a_root() -> None:
    lines = fixture("cube.xml").split("\n")
    document = only("\n".join(lines[2:8]))
    assert (document.kind, document.complete, len(gpus(document))) == ("topo-xml", False, 1)


def test_what_follows_an_error_is_left_out() -> None:
    lines = fixture("switch-box.xml").split("\n")
    lines[6] = '<net name="mlx5_0 dev="0"/> & < '
    documents = read("\n".join(lines) + fixture("cube.xml"))
    assert [(document.complete, len(gpus(document))) for document in documents] == [(False, 1), (True, 4)]


def test_no_entity_is_expanded_and_no_file_is_read() -> None:
    bomb = (
        '<!DOCTYPE system [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>\n'
    )
    text = (
        '<?xml version="1.0"?>\n' + bomb + '<system version="1">\n<cpu numaid="0" arch="&b;">\n&f;\n</cpu>\n</system>\n'
    )
    document = only(text)
    assert not document.complete
    assert [node.tag for node in document.nodes] == ["system"]
    inside = only('<system version="1">\n' + bomb + '<cpu numaid="0"/>\n</system>\n')
    assert not inside.complete and len(inside.nodes) == 1


def test_depth_and_number_are_bounded() -> None:
    deep = only('<system version="1">\n' + '<pci busid="0">\n' * 100_000)
    assert not deep.complete and len(deep.nodes) < 100
    wide = only('<system version="1">\n' + '<pci busid="0"/>\n' * 100_000 + "</system>\n")
    assert not wide.complete and len(wide.nodes) <= 50_000


@pytest.mark.parametrize(
    "text",
    [
        "the <system is down>",
        '<gpu id="00000000:17:00.0"><pci><pci_bus>17</pci_bus></pci></gpu>',
        "<cpu mode='host-passthrough'/>",
        '<graph name="x"/>',
        'step 5 loss <pci> "',
    ],
)
def test_other_angle_brackets(text: str) -> None:
    assert not any(node.tag != "system" for document in read(text) for node in document.nodes)


# ------------------------------------------------------------------------------------------- over borders of blocks


class _Blocks:
    """An input that is cut into blocks of so many lines."""

    name = "input"

    def __init__(self, text: str, lines: int) -> None:
        self._text, self._lines = text, lines

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        lines = self._text.encode().splitlines(keepends=True)
        for start in range(0, len(lines), self._lines):
            yield b"".join(lines[start : start + self._lines]), start + 1


def tables(reading: Reading) -> dict[str, list[tuple[object, ...]]]:
    return {name: table.rows() for name, table in reading.tables.items()}


@pytest.mark.parametrize("lines", [1, 2, 3, 7])
def test_files_and_matrices_over_the_borders_of_blocks(lines: int) -> None:
    matrix = (_FIXTURES.parent / "topo" / "raw-tabs.txt").read_text(encoding="utf-8")
    mute = "box:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2\n"
    text = mute + fixture("nvswitch.xml") + mute + matrix + mute + fixture("rings.xml")
    whole = read_sources([_Blocks(text, 10_000)])
    cut = read_sources([_Blocks(text, lines)])
    assert cut.inputs[0].kinds == whole.inputs[0].kinds == ("nccl-log", "graph-xml", "topo-matrix", "topo-xml")
    assert tables(cut) == tables(whole)


def test_a_command_at_the_end_of_a_block() -> None:
    lines = ["node$ nvidia-smi topo -mp", "\tGPU0\tGPU1\tCPU Affinity", "GPU0\t X \tSYS\t0-7", "GPU1\tSYS\t X \t8-15"]
    (hidden,) = read_sources([_Blocks("\n".join(lines), 1)]).tables["matrices"].get_column("nvlink_hidden")
    assert hidden


def test_a_document_does_not_run_into_the_next_input() -> None:
    text = fixture("cube.xml")
    reading = read_sources([_Blocks(text[:1500], 100), _Blocks(text, 100)])
    assert reading.tables["topo_files"].get_column("complete").to_list() == [False, True]
    assert [row.kinds for row in reading.inputs] == [("topo-xml",), ("topo-xml",)]
