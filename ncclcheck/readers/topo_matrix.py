"""Reads the tables of `nvidia-smi topo -m` and `nvidia-smi topo -p2p` out of a text.

A table may stand anywhere in a log, several in one text, quoted, re-spaced, cut or with characters lost. The grammar
`topo.lark` reads one line; this module decides which lines belong together and what may be believed. Damage is never
repaired in silence: a cell comes from its own place in the table or is marked as taken from the mirror cell, and
everything odd is said in `Matrix.problems`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ncclcheck.readers.grammar_files import grammar_text

if TYPE_CHECKING:  # Lark and its grammar cost a quarter of a second: only a text that holds a table pays it.
    from lark import Lark, Token


@dataclass(frozen=True, slots=True)
class Device:
    """One row or column. name: as the table labels it. line: its row, or the header where it has no row."""

    name: str
    kind: str  # "gpu" or "nic"
    rdma_name: str | None  # mlx5_0: from the NIC legend, or the label itself in old tables
    line: int


@dataclass(frozen=True, slots=True)
class Cell:
    """What the table says about one ordered pair of devices."""

    text: str  # NV, PIX, PXB, PHB, NODE, SYS, C2C; in a p2p table OK, CNS, GNS, TNS, NS, DR, U
    raw: str  # as printed: NV18; SOC where text is SYS
    links: int  # NVLinks in the bond; 0 for everything else
    line: int
    mirrored: bool  # taken from the cell (b, a), because (a, b) is missing or unreadable


@dataclass(frozen=True)
class Matrix:
    """One table. Cells hold no diagonal. Every device is known to every GPU when `complete`."""

    kind: str  # "topo", or "p2p-read" and its sisters; "p2p" where the question asked is not known
    first_line: int
    last_line: int
    devices: tuple[Device, ...]
    cells: Mapping[tuple[str, str], Cell]
    cpu_affinity: Mapping[str, str | None]  # by GPU; None: not printed, empty, N/A or damaged
    numa_affinity: Mapping[str, str | None]
    problems: tuple[str, ...]
    complete: bool
    label: str = ""  # the launcher's label before each line (`[1,0]<stdout>:`, `node1:`)
    nvlink_hidden: bool = False  # made by `topo -mp`, which prints the PCIe path in place of NV#


# The vocabulary stands here once more, because the grammar must not be built to learn that it is not needed. The test
# holds the two together. A literal start keeps the search at memory speed.
_TABLE = (
    r"GPU[0-9]{1,4}[ \t|*`]*(?:CPU[ \t]*Affinity|(?:GPU|NIC)[0-9]|mlx[0-9]"
    r"|[ \t|](?:NV[0-9]|PIX|PXB|PHB|NODE|SYS|SOC|C2C|(?:X|OK|CNS|GNS|TNS|NS|DR|U)(?![A-Za-z0-9])))"
)
_TABLE_TEXT = re.compile(_TABLE)
_TABLE_BYTES = re.compile(_TABLE.encode())


def may_hold_matrix(text_or_lines: str | bytes | Iterable[str]) -> bool:
    """Whether it is worth calling `read_matrices`: some GPU label is followed by a cell or by another label."""
    if isinstance(text_or_lines, bytes):
        return _TABLE_BYTES.search(text_or_lines) is not None
    if isinstance(text_or_lines, str):
        return _TABLE_TEXT.search(text_or_lines) is not None
    return any("GPU" in line and _TABLE_TEXT.search(line) for line in text_or_lines)


def read_matrices(lines: Sequence[tuple[int, str]]) -> list[Matrix]:
    """Read every table in numbered lines, in the order of their first lines."""
    if not may_hold_matrix(text for _, text in lines):
        return []
    reader = MatrixReader()
    reader.read(lines)
    return reader.finish()


_LONGEST_LINE = 8_000  # 256 devices and their blanks stay below it
_MOST_DEVICES = 256
_MOST_LINKS = 36  # twice what any board bonds today: more is two fused numbers
_PATIENCE = 1_000  # lines of other ranks that may stand between two lines of one table
_COMMAND_REACH = 60  # lines between a command and the table it prints

_P2P_KINDS = {
    "r": "p2p-read",
    "w": "p2p-write",
    "n": "p2p-nvlink",
    "a": "p2p-atomics",
    "p": "p2p-pcie",
    "rw": "p2p-read-write",
}

# ---------------------------------------------------------------------------------------------- one line, without Lark

# Colour codes; also as caret or backslash notation, and with the escape byte lost on a web form (`[4m`).
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|(?:\^\[|\\(?:033|x1[bB]|e|u001[bB])|␛)?\[[0-9;]+m")
_MARKUP = str.maketrans({"|": "\t", "│": "\t", "*": " ", "`": " ", "\r": " ", "\0": " ", "\xa0": " ", "\ufeff": " "})
_QUOTE = re.compile(r"[\s>]*")
# mpirun --tag-output, srun -l, pdsh and clush, stern, compose. It keeps the tables of ranks that print at once apart.
_LABEL = re.compile(
    r"\[\d+,\d+\]<std[a-z]+>:|\[[\w./:-]+\](?=\s)|(?!NIC\d)[\w.-]+:(?=\s)|(?=[\w.]*-)[\w.-]+\s*\|(?=\s)", re.ASCII
)
_GPU_LABEL = re.compile("GPU[0-9]")
_NIC_ENTRY = re.compile(r"NIC[0-9]+\s*:")
_COMMAND = re.compile(r"nvidia-smi\S*\s+topo\s+(.*)")
_P2P_OPTION = re.compile(r"-p2p(?:_?status)?[\s=]+([a-z]{1,2})\b")
_HIDDEN_OPTION = re.compile(r"-mp\b")
_CPU_LIST = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", re.ASCII)


def _split_label(text: str) -> tuple[str, str]:
    """Take colours, quote marks and a launcher label off: (label, the rest)."""
    text = _ANSI.sub("", text) if "m" in text or "\x1b" in text else text
    start = _QUOTE.match(text)
    begin = start.end() if start else 0
    label = _LABEL.match(text, begin)
    return (label.group().rstrip("| \t"), text[label.end() :]) if label else ("", text)


def _is_list(text: str) -> bool:
    """Whether a CPU or NUMA list is one the kernel could have printed: numbers that only grow."""
    if not _CPU_LIST.fullmatch(text):
        return False
    numbers = [int(number) for number in re.split("[,-]", text)]
    return all(a <= b for a, b in pairwise(numbers))


# ------------------------------------------------------------------------------------------------- one line, with Lark

_CUT_TITLE = re.compile("CPU?|NU?M?A?|GP?U?|C")
_CELLS = ("NVLINK", "PATH", "SELF", "P2P")
_DEVICES = ("GPU", "NIC", "RDMA", "NAME")
_TITLES = {"CPU_AFFINITY": "cpu", "NUMA_AFFINITY": "numa", "GPU_NUMA_ID": "gpu numa"}


class _Language:
    """The grammar, and the three questions about a line that decide which start rule to try."""

    def __init__(self, lark: "Lark") -> None:
        self._lark = lark
        words = "|".join(self._pattern(name) for name in _CELLS)
        self._cell = re.compile(rf"(?<!\S)(?:{words})+(?!\S)")
        labels = "|".join(self._pattern(name) for name in ("GPU", "NIC", "RDMA"))
        self._device = re.compile(rf"(?<![\w./:-])(?:{labels})(?![\w./:-]*[./:])")
        fields = "|".join(self._pattern(name) for name in (*_TITLES, "LIST", "NA"))
        self._before = re.compile(rf"\s*(?:(?:{fields})(?:\s+|$))*")

    def _pattern(self, terminal: str) -> str:
        return f"(?:{self._lark.get_terminal(terminal).pattern.to_regexp()})"

    def has_cell(self, text: str) -> bool:
        return self._cell.search(text) is not None

    def from_first_device(self, text: str) -> str | None:
        """The line from its first device label on; affinity columns that stand before it (Markdown) are kept."""
        first = self._device.search(text)
        if first is None:
            return None
        before = text[: first.start()]
        return text if self._before.fullmatch(before) else text[first.start() :]

    def tokens(self, start: str, text: str) -> "list[Token] | None":
        """Parse one line; None when it is not of that kind."""
        from lark import Token, UnexpectedInput

        try:
            tree = self._lark.parse(text, start=start)
        except UnexpectedInput:
            return None
        return list(tree.scan_values(lambda value: isinstance(value, Token)))


@cache
def _language() -> _Language:
    from lark import Lark

    return _Language(Lark(grammar_text("topo"), parser="lalr", start=["header", "row", "legend", "nic_legend"]))


# ------------------------------------------------------------------------------------------------------- lines, typed


@dataclass(frozen=True, slots=True)
class _Header:
    line: int
    labels: tuple[str | None, ...]  # None: a label that cannot be read
    titles: tuple[str, ...]
    titles_before: tuple[str, ...]  # Markdown tables with the affinity on the left


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    label: str
    cells: "tuple[Token, ...]"
    before: tuple[str, ...]
    affinity: str  # the text behind the last cell, with its tabs


def _header(number: int, text: str) -> _Header | None:
    tokens = _language().tokens("header", text)
    if tokens is None:
        return None
    places = [i for i, token in enumerate(tokens) if token.type in _DEVICES]
    first = places[0]
    titles = [i for i, token in enumerate(tokens) if token.type in _TITLES]
    after = [i for i in titles if i > first]
    # What stands behind the last label and before no title is a title cut short, not a label.
    end = after[0] if after else places[-1] + 1
    if not after and tokens[end:] and not _CUT_TITLE.fullmatch(tokens[end]):
        return None
    labels = tuple(str(t) if t.type in _DEVICES else None for t in tokens[first:end])
    if len(labels) > _MOST_DEVICES or 4 * labels.count(None) > len(labels):
        return None  # not a header but a sentence
    named = [_TITLES[tokens[i].type] for i in after]
    before = [_TITLES[tokens[i].type] for i in titles if i < first]
    return _Header(number, labels, tuple(named), tuple(before))


def _row(number: int, text: str) -> _Row | None:
    tokens = _language().tokens("row", text)
    if tokens is None:
        return None
    first = next(i for i, token in enumerate(tokens) if token.type in _DEVICES)
    cells = tuple(token for token in tokens[first + 1 :] if token.type in (*_CELLS, "DAMAGED"))
    fields = [i for i, token in enumerate(tokens) if i > first and token.type in ("LIST", "NA")]
    if fields:  # a damaged word behind the first list belongs to the affinity
        cells = tuple(tokens[first + 1 : fields[0]])
    if sum(cell.type == "DAMAGED" for cell in cells) > max(1, len(cells) // 2):
        return None  # not a row but a sentence
    end = (cells[-1] if cells else tokens[first]).end_pos or 0
    return _Row(number, str(tokens[first]), cells, tuple(map(str, tokens[:first])), text[end:])


# ------------------------------------------------------------------------------------------------------- one table


@dataclass
class _Block:
    """The lines of one table, as they come."""

    label: str
    header: _Header | None
    last_line: int
    command: str = ""
    rows: list[_Row] = field(default_factory=list)
    nic_names: dict[str, str] = field(default_factory=dict)

    def takes(self, label: str) -> bool:
        return self.header is None or label in self.header.labels or label[:3] in ("GPU", "NIC")


class MatrixReader:
    """Hands each line of one input to the table it belongs to; one open table per launcher label.

    Lines come in order, in as many calls as one likes.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Block] = {}
        self._closed: list[_Block] = []
        self._commands: dict[str, tuple[int, str]] = {}
        self._latest = 0  # the last line that was one of a table

    @property
    def is_waiting(self) -> bool:
        """A table has begun and may go on."""
        return bool(self._open)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in lines:
            if len(text) <= _LONGEST_LINE:
                self._read(number, text)

    def finish(self) -> list[Matrix]:
        """The input ends: all tables, in the order of their first lines."""
        self._close_all()
        matrices = [_Assembler(block).matrix() for block in self._closed]
        return sorted((matrix for matrix in matrices if matrix), key=lambda matrix: matrix.first_line)

    def _read(self, number: int, text: str) -> None:
        if self._open and number - self._latest > _PATIENCE:
            self._close_all()
        if not self._open and not ("GPU" in text and _GPU_LABEL.search(text)) and "nvidia-smi" not in text:
            return  # almost every line of a log
        label, rest = _split_label(text)
        command = _COMMAND.search(rest)
        if command:
            self._commands[label] = (number, command.group(1))
            return
        if self._read_table_line(number, label, rest, self._open.get(label)):
            self._latest = number

    def _read_table_line(self, number: int, label: str, rest: str, block: _Block | None) -> bool:
        """Whether the line was one of a table."""
        if block is not None and self._read_legend(number, rest, block):
            return True
        plain = rest.translate(_MARKUP)
        text = _language().from_first_device(plain) or self._renamed_row(plain, block)
        if text is None:
            return False
        if _language().has_cell(text):
            return self._add_row(label, block, _row(number, text))
        header = _header(number, text)
        if header is None:
            return False
        if len(header.labels) == 1 and not header.titles and not header.titles_before:
            # A label alone is a row cut right behind it, or the header of a p2p table of one GPU.
            if block is not None and self._waits(block, header.labels[0]):
                return self._add_row(label, block, _row(number, text))
            if plain.strip() != header.labels[0]:
                return False
        self._start(label, header)
        return True

    @staticmethod
    def _waits(block: _Block, name: str | None) -> bool:
        known = block.header is not None and name in block.header.labels
        return known and all(row.label != name for row in block.rows)

    @staticmethod
    def _renamed_row(plain: str, block: _Block | None) -> str | None:
        """A row whose label only the header tells to be a device."""
        words = plain.split(None, 1)
        known = block is not None and block.header is not None and words and words[0] in block.header.labels
        return plain if known else None

    @staticmethod
    def _read_legend(number: int, rest: str, block: _Block) -> bool:
        if "=" in rest and _language().tokens("legend", rest.translate(_MARKUP)) is not None:
            block.last_line = number
            return True
        entry = _NIC_ENTRY.search(rest)
        if entry is None:
            return False
        tokens = _language().tokens("nic_legend", rest[entry.start() :].translate(_MARKUP))
        if tokens is None:
            return False
        name = next(str(token) for token in tokens if token.type in ("RDMA", "NAME", "OTHER_NAME"))
        block.nic_names.setdefault(str(tokens[0]), name)
        block.last_line = number
        return True

    def _add_row(self, label: str, block: _Block | None, row: _Row | None) -> bool:
        if row is None or (block is not None and not block.takes(row.label)):
            return False
        if block is None:  # a table without its header; the assembler drops it if its rows make no table
            block = self._open[label] = _Block(label, None, row.line)
        block.rows.append(row)
        block.last_line = row.line
        return True

    def _start(self, label: str, header: _Header) -> None:
        block = self._open.get(label)
        if block is not None and not block.rows and block.header is not None and block.header.labels == header.labels:
            return  # a second rank prints the same table, line by line
        self._close(label)
        line, command = self._commands.pop(label, (-_COMMAND_REACH, ""))
        near = header.line - line < _COMMAND_REACH
        self._open[label] = _Block(label, header, header.line, command if near else "")

    def _close(self, label: str) -> None:
        block = self._open.pop(label, None)
        if block is not None:
            self._closed.append(block)

    def _close_all(self) -> None:
        for label in list(self._open):
            self._close(label)


class _Assembler:
    """Makes the matrix of one block: which column each cell stands in, and which cells are to be believed."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self._header = block.header or _Header(block.rows[0].line, (), (), ())
        self._problems: list[str] = []
        self._rows = self._without_doubles()
        self._columns: tuple[str | None, ...] = ()
        self._cells: dict[tuple[str, str], Cell] = {}

    def matrix(self) -> Matrix | None:
        titled = bool(self._header.titles or self._header.titles_before)
        if not self._rows and not titled:
            return None  # a sentence that names two GPUs
        self._columns = self._named_columns()
        if any(self._columns):
            for place, row in enumerate(self._rows):
                self._read_row(row, is_last=place == len(self._rows) - 1)
        elif sum(any(cell.type == "SELF" for cell in row.cells) for row in self._rows) > 1:
            self._say(self._header.line, "no header can be read: the columns have no names")
        else:
            return None
        self._check_symmetry()
        self._mirror()
        return self._build()

    def _say(self, line: int, text: str) -> None:
        self._problems.append(f"line {line}: {text}")

    def _without_doubles(self) -> list[_Row]:
        kept: dict[str, _Row] = {}
        for row in self._block.rows:
            first = kept.setdefault(row.label, row)
            if first.cells != row.cells:  # two ranks may print one table, line by line
                self._say(row.line, f"row {row.label} stands a second time; the one on line {first.line} is used")
        return list(kept.values())

    # -- columns

    def _named_columns(self) -> tuple[str | None, ...]:
        """The header's labels; the rows' labels where the header has lost some and the rows leave no doubt."""
        labels = self._header.labels
        names = tuple(row.label for row in self._rows)
        doubled = {name for name in labels if name is not None and labels.count(name) > 1}
        if doubled:
            self._say(self._header.line, f"the header names {_some(sorted(doubled))} twice")
        if labels != names and self._rows_name_columns(labels, names):
            line, lost = self._header.line, len(names) - sum(label is not None for label in labels)
            what = f"the header has lost {lost} of {len(names)} labels" if labels else "the table has no header"
            self._say(line, f"{what}; the columns are named after the rows")
            return names
        if None in labels:
            self._say(self._header.line, f"{labels.count(None)} labels of the header cannot be read")
        return tuple(None if name in doubled else name for name in labels)

    def _rows_name_columns(self, labels: tuple[str | None, ...], names: tuple[str, ...]) -> bool:
        """Whether the rows make a square with X on its diagonal, in which the header's labels come in this order."""
        rest = iter(names)
        in_order = all(label in rest for label in labels if label is not None)
        whole = sum(label is not None for label in labels) == len(names)
        square = all(
            len(row.cells) == len(names) and [i for i, cell in enumerate(row.cells) if cell.type == "SELF"] == [place]
            for place, row in enumerate(self._rows)
        )
        return len(names) > 1 and in_order and square and not whole

    # -- cells

    def _read_row(self, row: _Row, *, is_last: bool) -> None:
        own = self._columns.index(row.label) if row.label in self._columns else None
        for place, token in enumerate(row.cells[: self._believed(row, own, is_last=is_last)]):
            name = self._columns[place]
            if place == own or name is None:
                continue
            cell = _cell(token, row.line)
            if cell is None:
                self._say(row.line, f"cell ({row.label}, {name}) cannot be read: {str(token)[:20]!r}")
            else:
                self._cells[row.label, name] = cell

    def _believed(self, row: _Row, own: int | None, *, is_last: bool) -> int:
        """How many cells of a row, from the left, surely stand in their own columns.

        X anchors the row: cells up to it are in place when it is. Behind it, a row that is short because the line
        was cut can be believed; one that has lost a cell somewhere inside cannot.
        """
        count, width = len(row.cells), len(self._columns)
        if own is not None and own < count and not self._anchored(row, own):
            return 0
        if count == width:
            return count
        self._say(row.line, f"row {row.label} holds {count} cells for {width} columns")
        if count < width and self._is_cut(row, is_last=is_last):
            # A line cut inside its last word: `NV1` of `NV18` would be read as it stands. No other cell begins another.
            half = count > 0 and row.cells[-1].type == "NVLINK" and not row.affinity
            return count - 1 if half else count
        return own + 1 if own is not None and own < count else 0

    def _anchored(self, row: _Row, own: int) -> bool:
        selves = [place + 1 for place, cell in enumerate(row.cells) if cell.type == "SELF"]
        if own + 1 in selves:
            return True
        if not selves and len(row.cells) == len(self._columns):  # only the X itself is damaged
            self._say(row.line, f"row {row.label}: the cell in the row's own column is not X")
            return True
        there = f"in column {selves[0]}, not in column {own + 1}" if selves else "missing"
        self._say(row.line, f"row {row.label}: X is {there}; the row is not used")
        return False

    def _is_cut(self, row: _Row, *, is_last: bool) -> bool:
        """Whether a short row ends where its line was cut, and so has lost nothing inside."""
        if row.affinity.strip():
            return False
        narrow = all(len(other.cells) < len(self._columns) for other in self._rows)  # cut at one width
        bare_gpu = bool(self._header.titles) and row.label.startswith("GPU")
        return is_last or narrow or bare_gpu

    def _check_symmetry(self) -> None:
        for (a, b), cell in self._cells.items():
            other = self._cells.get((b, a))
            if other is not None and other.line > cell.line and (other.text, other.links) != (cell.text, cell.links):
                self._say(other.line, f"({b}, {a}) is {other.raw}, but ({a}, {b}) is {cell.raw}")

    def _mirror(self) -> None:
        for (a, b), cell in list(self._cells.items()):
            self._cells.setdefault((b, a), replace(cell, mirrored=True))

    # -- the whole

    def _build(self) -> Matrix:
        devices = self._devices()
        gpus = [device.name for device in devices if device.kind == "gpu"]
        pairs = [(gpu, device.name) for gpu in gpus for device in devices if gpu != device.name]
        absent = [pair for pair in pairs if pair not in self._cells]
        self._say_missing(devices, absent)
        affinity = self._affinities(gpus)
        self._check_affinity(affinity)
        kind = self._kind()
        return Matrix(
            kind=kind,
            first_line=self._header.line,
            last_line=self._block.last_line,
            devices=devices,
            cells=self._cells,
            cpu_affinity={gpu: affinity[gpu][0] for gpu in gpus},
            numa_affinity={gpu: affinity[gpu][1] for gpu in gpus},
            problems=tuple(self._problems),
            complete=bool(self._rows) and bool(gpus) and not absent and None not in self._columns,
            label=self._block.label,
            nvlink_hidden=kind == "topo" and _HIDDEN_OPTION.search(self._block.command) is not None,
        )

    def _devices(self) -> tuple[Device, ...]:
        lines = {row.label: row.line for row in self._rows}
        names = [name for name in self._columns if name is not None]
        unnamed = [name for name in lines if name not in names]
        if unnamed:
            self._say(lines[unnamed[0]], f"rows without a column: {_some(unnamed)}")
        return tuple(self._device(name, lines.get(name, self._header.line)) for name in (*names, *unnamed))

    def _device(self, name: str, line: int) -> Device:
        if name.startswith("GPU"):
            return Device(name, "gpu", None, line)
        own_name = None if name.startswith("NIC") else name
        return Device(name, "nic", self._block.nic_names.get(name, own_name), line)

    def _say_missing(self, devices: Sequence[Device], absent: Sequence[tuple[str, str]]) -> None:
        """Rows that are cut off take nothing away where the others have their cells."""
        if not absent:
            return
        present = {row.label for row in self._rows}
        without = [device.name for device in devices if device.name not in present]
        if without:
            self._say(self._block.last_line, f"no rows for {_some(without)}")
        self._say(self._block.last_line, f"not known from any row: {_some([f'({a}, {b})' for a, b in absent])}")

    def _kind(self) -> str:
        p2p = sorted(cell.raw for cell in self._cells.values() if cell.text in _P2P_TEXTS)
        asked = _P2P_OPTION.search(self._block.command)
        if p2p and len(p2p) != len(self._cells):
            self._say(self._header.line, "cells of `topo -m` and of `topo -p2p` stand in one table")
        if not p2p and (self._cells or not asked):
            return "topo"
        return _P2P_KINDS.get(asked.group(1), "p2p") if asked else "p2p"

    # -- affinity

    def _affinities(self, gpus: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
        found = dict.fromkeys(gpus, (None, None)) | {
            row.label: self._affinity(row) for row in self._rows if row.label.startswith("GPU")
        }
        return {gpu: found[gpu] for gpu in gpus}

    def _affinity(self, row: _Row) -> tuple[str | None, str | None]:
        if self._header.titles_before:
            titles, fields = self._header.titles_before, list(row.before)
            if len(titles) != len(fields):
                return None, None
        else:
            titles, fields = self._header.titles, _affinity_fields(row.affinity, self._header.titles)
        named = dict(zip(titles, fields, strict=False))
        return self._checked(row, named.get("cpu", "")), self._checked(row, named.get("numa", ""))

    def _checked(self, row: _Row, text: str) -> str | None:
        if text in ("", "N/A"):
            return None
        if _is_list(text):
            return text
        self._say(row.line, f"row {row.label}: the affinity {text[:40]!r} is not a list; characters are lost")
        return None

    def _check_affinity(self, affinity: Mapping[str, tuple[str | None, str | None]]) -> None:
        """GPUs of one NUMA node see the same CPUs: a difference is the only trace of digits lost from a list."""
        first: dict[str, tuple[str, str]] = {}
        for gpu, (cpus, node) in affinity.items():
            if cpus is None or node is None:
                continue
            other, others = first.setdefault(node, (gpu, cpus))
            if others != cpus:
                text = f"{other} and {gpu} are on NUMA node {node}, but on the CPUs {others} and {cpus}"
                self._say(self._block.last_line, f"{text}; one list has lost characters")


def _some(names: Sequence[str]) -> str:
    """At most six of them: a cut table lacks hundreds."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


_P2P_TEXTS = frozenset(("OK", "CNS", "GNS", "TNS", "NS", "DR", "U"))


def _cell(token: "Token", line: int) -> Cell | None:
    """None: damaged, or X in another device's column."""
    raw = str(token)
    if token.type == "NVLINK":
        links = int(raw[2:])
        return Cell("NV", raw, links, line, mirrored=False) if links <= _MOST_LINKS else None
    if token.type not in ("PATH", "P2P"):
        return None
    return Cell("SYS" if raw == "SOC" else raw, raw, 0, line, mirrored=False)


def _affinity_fields(text: str, titles: Sequence[str]) -> list[str]:
    """The affinity columns from the left, empty ones too where tabs still hold their places."""
    if "\t" in text:
        fields = [part.strip() for part in text.split("\t")]
        return fields[1:] if not fields[0] else fields  # a lost tab leaves the first list at the last cell
    words = text.split()
    # Windows prints no affinity: the one N/A that is left is the last column, not the first.
    return [] if words == ["N/A"] and len(titles) > 1 else words
