"""The formats that NCCL prints from, where the collection lies beside the repository, and lines made of them."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ncclcheck.readers.release import code

LIST = Path(__file__).parents[2].parent / "shared" / "reference" / "nccl-messages.tsv"

_CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*[\d*]*(?:\.\d+)?)(?:hh|ll|[hlzjt])?(?P<kind>[a-zA-Z%])|<[A-Z]\w+>")
_TEXTS = (
    "ens32np0", "No route to host", "ncclCommInitAll", "libsite-net.so", "172.27.14.9", "enabled", "mlx5_bond_0", "IB",
    "AllGather", "NODE", "Simple", "",
)  # fmt: skip
_NUMBERS = (1, 2, 16, 511, 4194304)


class Format(NamedTuple):
    """first, last: codes of the releases that print it."""

    level: str
    text: str
    first: int
    last: int

    def lines(self, number: int) -> Iterator[str]:
        """Messages of this format, always the same: its first line, filled in by a hand of chance."""
        line = next(line for line in self.text.replace(r"\"", '"').split(r"\n") if line)
        chance = random.Random(line)
        for _ in range(number):
            yield _CONVERSION.sub(lambda found: _value(found, chance), line).rstrip()


def formats() -> list[Format]:
    with LIST.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Format(
            row["level"].replace("STDOUT", "VERSION"), row["format"], _code(row["first_tag"]), _code(row["last_tag"])
        )
        for row in rows
    ]


def _code(tag: str) -> int:
    return code(tag.removeprefix("v").split("-")[0])


def _value(found: re.Match[str], chance: random.Random) -> str:
    kind, number = found["kind"] or "s", chance.choice(_NUMBERS)
    if kind == "%":
        return "%"
    if kind == "p":
        return f"{0x7F1200000000 + number:#x}"
    if kind in "diuxXc":
        return f"%{found['flags'].replace('*', '4')}{'d' if kind in 'uc' else kind}" % number
    if kind in "fgeE":
        return f"%{found['flags']}{kind}" % (number / 8)
    return chance.choice(_TEXTS)
