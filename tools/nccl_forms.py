"""From a format of printf to the shape that all lines of it have.

A format is filled in with several values in each place, and each text is masked. What is the same in all is literal or
a slot; the rest is a star, any text. The value of a `%s` is always a star.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from random import Random
from typing import NamedTuple

from ncclcheck.readers.choices import SLOT
from ncclcheck.readers.grammar import mask_pattern
from ncclcheck.readers.known_lines import HEAD, hashed

STAR = "\ue001"

_CONVERSION = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?)(?:hh|h|ll|l|z|j|t|q|L)?(?P<kind>[a-zA-Z]))|<[A-Z]\w+>"
)
# What may stand in the places of `%s`, one after the other, over and over: texts of every kind that the mask takes for
# a slot or joins with what is beside it, and those by which the grammar knows a line.
_TEXTS = (
    ("eth0",), ("",), ("Connection refused",), ("GPU",), ("10.0.0.7",), ("7",), (" 3 4",), ("0x3f",), (":a",), ("abc",),
    ("NET/IB",), ("face b00c",), ("NET",), ("10.0.0.7<4321>",), ("/dev/shm/nccl-x",), ("/sys/class/net/eth0/speed",),
    # names of functions, variables and files
    ("init.cc", "ncclCommInitRank"), ("ncclCommInitRank",), ("[Rank 7] ncclCommInitRank",), ("ncclCommSplit", "", ""),
    ("NCCL_P2P_LEVEL", "SYS"), ("AllReduce", "RING", "LL"),
    # plugins
    ("NET", "libnccl-net.so", "libnccl-net.so: cannot open shared object file", "ncclNet_v9"),
    ("NET", "libnccl-net.so: cannot open shared object file"), ("PROFILER", " libnccl-profiler.so", ""),
    ("libnccl-net.so", "libnccl-net.so: cannot open shared object file"), ("libnccl-net.so",),
    ("libnccl-net.so: cannot open shared object file",), ("ncclNetPlugin_v5", "v4"),
    # networks
    (" eth0:10.0.0.7<0>",), (" [0]eth0:10.0.0.7<0>",), (" [0]mlx5_0:1/IB", "[RO]", "eth0", "10.0.0.7<0>"),
    ("eth0", "10.0.0.7<4321>"), ("socketPollConnect", "10.0.0.7<4321>", "Connection refused", "Connection refused"),
    ("socketPollConnect", "send to", "10.0.0.7<4321>", "Broken pipe"), ("socketPollConnect", "Connection refused"),
    ("socketProgress", "10.0.0.7<4321>", "Broken pipe"), ("send to", "10.0.0.7<4321>", "Broken pipe"),
    ("10.0.0.7<4321>", "Connection refused", "Operation now in progress"), ("ibv_reg_mr_iova2", "Bad address", ""),
    ("ibv_create_qp", "Cannot allocate memory"), ("mlx5_0", "QP", "fatal"),
    ("IBV_WC_WR_FLUSH_ERR", "IBV_WC_RECV", "Recv"), ("10.0.0.7<4321>", "IBV_WC_WR_FLUSH_ERR", "IBV_WC_RECV", "Recv"),
    ("Enabled", "<="), ("Disabled", ">"), ("Enabled", "mlx5_0", " (PCI Peer Memory)"), ("IB",),
    ("NCCL Dev",), ("ncclIbConnect", "NCCL MergedDev"),
    ("IB", "Enabled", "mlx5_0"), ("IB", "Disabled", "mlx5_0"),
    # channels, trees, memory, modes
    (" [0] 1/-1/-1->0->-1",), ("send",), ("recv",), ("/read", ""), ("", "/CE"), ("direct",), ("direct", "CE"),
    ("IPC", "/read"), ("SHM", "direct"), ("MNNVL", "", ""), ("TREE",), ("enabled up to size 4096",), ("not ",),
    ("creating", "/dev/shm/nccl-x", "Permission denied"), ("/dev/shm/nccl-x", "No space left on device"),
    ("Group", "/CGMD", "/Stream"), ("Parallel", "", ""), ("On", "Off"),
)  # fmt: skip
_VALUES: dict[str, tuple[object, ...]] = {
    "c": ("A", "B", "1"), "p": ("0x7f3a4c000e00", "0x1", "0xabcdef"),
    "d": (0, 3, 7, -1, 123456, 42), "u": (0, 3, 7, 42, 123456),
    "x": (0, 0xAB, 0x42, 0xD000, 0xDEADBEEF1, 7), "f": (0.0, 1.5, 23.25, 0.00001, 12345.0),
}  # fmt: skip
_PLAIN = 0.4
_KINDS = {"i": "d", "X": "x", "F": "f", "g": "f", "G": "f", "e": "f", "E": "f", "m": "s"}


class Conversion(NamedTuple):
    """A place in a format that is filled in. kind: a key of `_VALUES`, or "s". written: as Python has it."""

    kind: str
    written: str

    def value(self, lot: float) -> str:
        """One of its values: lot is from 0 to below 1."""
        value = _VALUES[self.kind][int(lot * len(_VALUES[self.kind]))]
        return str(value) if self.kind in "cp" else self.written % value


def parts(text: str) -> list[str | Conversion]:
    """A format as single characters and conversions."""
    found: list[str | Conversion] = []
    position = 0
    for match in _CONVERSION.finditer(text):
        found += text[position : match.start()]
        position = match.end()
        if match[0] == "%%":
            found.append("%")
        else:
            kind = match["kind"] or "s"
            written = f"%{match['flags'] or ''}{'d' if kind == 'u' else kind}".replace("*", "3")
            found.append(Conversion(_KINDS.get(kind, kind), written))
    return found + list(text[position:])


def lines(text: str) -> Iterator[str]:
    """Lines that a format may print, with plain numbers."""
    pieces = parts(text)
    return ("".join(_rendered(pieces, turn, plain=True)).rstrip() for turn in range(len(_TEXTS)))


def shape_of(text: str) -> str:
    """The shape that all lines of a format have, with STAR for what differs."""
    pieces = parts(text)
    turns = [_slots(_rendered(pieces, turn)) for turn in range(len(_TEXTS))]
    seen = set().union(*turns)
    covered = {place for start, end, _ in seen for place in range(start, end + 1)}
    stars = {
        place
        for place, piece in enumerate(pieces)
        if isinstance(piece, Conversion) and (piece.kind in "sc" or place not in covered)
    }
    slots = {}
    for start, end, whole in seen:
        places = range(start, end + 1)
        if whole and stars.isdisjoint(places) and all((start, end, whole) in turn for turn in turns):
            slots[start] = end
        else:
            stars.update(places)
    shape, place = "", 0
    while place < len(pieces):
        if place in stars:
            shape += "" if shape.endswith(STAR) else STAR
        else:
            shape += SLOT if place in slots else str(pieces[place])
            place = slots.get(place, place)
        place += 1
    # the text of a star may be empty, and a line does not end with blanks
    return re.sub(rf" +{STAR}$", STAR, shape)


def form_of(shape: str) -> tuple[int, str] | None:
    """Letters that a shape fixes, and the shape as the table has it; None where nothing of it can be searched."""
    pieces = shape.split(STAR)
    letters = sum(character.isalpha() for character in shape)
    if letters == 0 or (not pieces[0] and max(map(len, pieces)) < HEAD):
        return None
    return letters, "*".join(map(_written, pieces))


def _rendered(pieces: Sequence[str | Conversion], turn: int, plain: bool = False) -> list[str]:
    """The text of each piece, with other values in every turn. plain: all numbers are small."""
    likely, chance = cycle(_TEXTS[turn]), Random(turn)
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        elif piece.kind == "s":
            text = next(likely)
            # the slots of addresses and files take in what is glued to them, and NCCL has a blank there
            takes_in = text.startswith("/dev/") or (text.endswith(">") and text[0] != " ")
            glued = not texts or texts[-1][-1:] not in " (["
            texts.append("abc" if takes_in and glued else text)
        else:
            texts.append(piece.value(_PLAIN if plain else chance.random()))
    return texts


def _slots(texts: Sequence[str]) -> set[tuple[int, int, bool]]:
    """The slots of a line of pieces: first and last piece, and whether the slot begins and ends with them."""
    owner = [(place, at, len(text)) for place, text in enumerate(texts) for at in range(len(text))]
    found = set()
    for slot in re.finditer(mask_pattern(), "".join(texts)):
        (first, offset, _), (last, at, length) = owner[slot.start()], owner[slot.end() - 1]
        found.add((first, last, offset == 0 and at == length - 1))
    return found


def _written(piece: str) -> str:
    """A literal piece as the table has it."""
    if not piece:
        return ""
    return f"{len(piece)}:{hashed(piece)}" + (f":{hashed(piece[:HEAD])}" if len(piece) >= HEAD else "")
