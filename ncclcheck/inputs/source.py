"""One input: a name to print and blocks of its lines."""

from __future__ import annotations

import stat
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from ncclcheck.inputs.blocks import BLOCK_BYTES, KEPT_OF_LONG_LINE, Block, cut_blocks
from ncclcheck.inputs.decode import decode
from ncclcheck.inputs.errors import UnreadableInputError, reason

STDIN = "-"

Opener = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(slots=True)
class Source:
    """One input. `blocks()` never raises for what the input is: it stops, and `error` says why.

    name: as the user gave it, or joined below the directory given; always valid Unicode.
    argument: the argument that named it (a directory or a glob names many).
    error: known at once for what cannot be opened, else after the last block. What came before it counts.
    once: it can be read a single time only (a pipe); what it gives is then kept in a temporary file for `quote`.
    long_lines: how many lines were cut, and the first one's number in `first_long_line`.
    """

    name: str
    argument: str
    open: Opener | None = None
    error: str | None = None
    once: bool = False
    long_lines: int = field(default=0, init=False)
    first_long_line: int = field(default=0, init=False)
    _kept: BinaryIO | None = field(default=None, init=False, repr=False)

    def blocks(self) -> Iterator[Block]:
        """Blocks of whole lines, at most `BLOCK_BYTES` each, with the number of their first line."""
        if self.open is None:
            return
        try:
            if self.once:
                self._kept = TemporaryFile()  # noqa: SIM115  (closed with the process)
            with self.open() as file:
                for block in cut_blocks(decode(_chunks(file)), self._long_line):
                    if self._kept is not None:
                        self._kept.write(block[0])
                    yield block
        except (OSError, UnreadableInputError) as error:
            self.error = reason(error)

    def quote(self, numbers: Collection[int]) -> dict[int, str]:
        """Lines of the input by number, as text: read again, which costs little beside what was done with them."""
        wanted = sorted(numbers)
        found: dict[int, str] = {}
        for block, first in self._again() if wanted else ():
            last = first + block.count(b"\n")
            inside = wanted[bisect_left(wanted, first) : bisect_right(wanted, last)]
            if inside:
                lines = block.split(b"\n")
                found.update(
                    (n, lines[n - first].decode("utf-8", "backslashreplace")) for n in inside if n - first < len(lines)
                )
            if last > wanted[-1]:
                break
        return found

    def _again(self) -> Iterator[Block]:
        """The same blocks once more; what goes wrong the second time is left out."""
        try:
            if self._kept is not None:
                self._kept.seek(0)
                yield from cut_blocks(_chunks(self._kept), lambda number: None)
            elif self.open is not None and not self.once:
                with self.open() as file:
                    yield from cut_blocks(decode(_chunks(file)), lambda number: None)
        except (OSError, UnreadableInputError):
            return

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know although nothing is wrong with the input."""
        if not self.long_lines:
            return ()
        others = f" and {self.long_lines - 1} more" if self.long_lines > 1 else ""
        limits = f"over {BLOCK_BYTES >> 20} MiB: only the first {KEPT_OF_LONG_LINE >> 20} MiB was read"
        return (f"line {self.first_long_line}{others} {limits}",)

    def _long_line(self, number: int) -> None:
        self.first_long_line = self.first_long_line or number
        self.long_lines += 1


def file_source(path: str, argument: str) -> Source:
    """A source for a path the user means: a regular file, or a pipe (`<(command)`, a FIFO)."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        return failed_source(path, argument, reason(error))
    for test, what in ((stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "character device"), (stat.S_ISBLK, "block device")):
        if test(mode):
            return failed_source(path, argument, f"is a {what}, not a log")
    once = not stat.S_ISREG(mode)
    return Source(printable(path), printable(argument), lambda: Path(path).open("rb"), once=once)


def stdin_source() -> Source:
    """Standard input, named `-`."""
    stdin = sys.stdin
    if stdin is None:  # closed by the caller: `<&-`
        return failed_source(STDIN, STDIN, "standard input is closed")
    return Source(STDIN, STDIN, lambda: nullcontext(stdin.buffer), once=True)


def failed_source(name: str, argument: str, error: str) -> Source:
    """An input that cannot be read: it still has its place in the report."""
    return Source(printable(name), printable(argument), None, error)


def printable(path: str) -> str:
    r"""Names on Linux are bytes: those that are not UTF-8 arrive as lone surrogates and leave as `\udcff`."""
    return path.encode("utf-8", "backslashreplace").decode()


def head_of(path: str) -> bytes:
    """The first decoded bytes of a file."""
    with Path(path).open("rb") as file:
        return next(decode(_chunks(file, 64 << 10)), b"")[:8192]


def _chunks(file: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    while chunk := file.read(size):
        yield chunk
