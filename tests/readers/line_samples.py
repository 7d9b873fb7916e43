"""NCCL lines of our own, every event and release form, and a source of blocks to read them from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_LEVEL = re.compile(r"(?:NCCL )?(?:INFO|WARN) ")


@dataclass(frozen=True)
class Sample:
    """A line as a release prints it, and how it is to be read. fields: what `ncclcheck parse` prints."""

    release: str
    line: str
    event: str
    fields: dict[str, Any]

    @property
    def message(self) -> str:
        """What stands behind the level word; a bare version line has none."""
        return _LEVEL.split(self.line, maxsplit=1)[-1].rstrip()


def samples() -> list[Sample]:
    text = Path(__file__).with_name("lines.jsonl").read_text(encoding="utf-8")
    return [Sample(**json.loads(line)) for line in text.splitlines()]


SAMPLES = samples()


@dataclass
class Source:
    """Blocks of an input, as the readers take them."""

    text: bytes
    cuts: Sequence[int] = ()
    name: str = "job.log"

    def blocks(self) -> Iterator[tuple[bytes, int]]:
        line = 1
        for start, end in pairwise([0, *self.cuts, len(self.text)]):
            yield self.text[start:end], line
            line += self.text.count(b"\n", start, end)


def lines_of(*lines: str) -> Source:
    return Source("".join(line + "\n" for line in lines).encode())
