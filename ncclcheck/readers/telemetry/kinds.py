"""Kinds of outputs: by which lines they are told, and who reads them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import NamedTuple

from ncclcheck.readers.telemetry.reader import Reader


class Kind(NamedTuple):
    """name: as `ncclcheck parse` prints it. starts: what in a line begins such an output, for Python and Polars alike
    (no look-around, no group that captures); it must be rare in logs of jobs. reader: module in this package and class.
    brace: the output may begin some lines above, with a line that holds nothing but `{` or `[`.
    """

    name: str
    starts: str
    reader: tuple[str, str]
    brace: bool = False

    def open(self) -> Reader:
        module, name = self.reader
        reader: type[Reader] = getattr(import_module(f"ncclcheck.readers.telemetry.{module}"), name)
        return reader()


KINDS = (
    # nvidia-smi

    # devices and ports of networks
    Kind("ibdev2netdev", r"\S+ port [0-9]+ ==> \S+ \((?:Up|Down)\)", ("ibdev2netdev", "Ibdev2netdev")),

    # the machine: PCIe, kernel, limits

    # NCCL's own tools, DCGM
)  # fmt: skip

# For Polars: is there anything to read here?
STARTS = "|".join(kind.starts for kind in KINDS)


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"({kind.starts})" for kind in KINDS))


def find_start(text: str) -> tuple[Kind, int] | None:
    """The kind of output that begins in this line, and where in the line."""
    found = _pattern().search(text)
    return (KINDS[(found.lastindex or 1) - 1], found.start()) if found else None
