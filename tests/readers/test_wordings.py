"""NCCL's own list of messages against the grammar, where it lies beside the repository."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from ncclcheck.readers import nccl_log
from ncclcheck.readers.grammar import DirectParser

MESSAGES = Path(__file__).parents[2].parent / "shared" / "reference" / "nccl-messages.tsv"
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?([diouxXeEfgGcspnm])")
VALUES = {"s": ["172.19.4.2<51123>", "libx.so", "No route to host"], "p": ["0x7f01"], "c": ["A"], "f": ["1.5"]}

pytestmark = pytest.mark.skipif(not MESSAGES.is_file(), reason="no list of messages beside the repository")


def warnings() -> list[str]:
    """Every text at WARN with some values in it."""
    rows = csv.reader(MESSAGES.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE)
    formats = [row[2].split("\\n")[0].replace('\\"', '"') for row in rows if row[0] == "WARN"]

    def value(found: re.Match[str], number: int) -> str:
        values = VALUES.get(found[1], ["7"])
        return values[number % len(values)]

    return [
        CONVERSION.sub(lambda found, n=number: value(found, n), text).rstrip()
        for text in formats
        for number in range(3)
    ]


def test_what_nccl_warns_of_reaches_the_rules(direct: DirectParser) -> None:
    """A WARN with an event of its own is no more one of the unknown warnings: it has to be in a table of its own."""
    read = {parsed[0] for text in warnings() if (parsed := direct.parse(text))}
    tables = nccl_log.WANTED - {"ib_hint"}
    assert read - tables == set()
