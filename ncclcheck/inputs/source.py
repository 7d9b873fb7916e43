"""One input: a name to print and blocks of its lines."""

from __future__ import annotations

import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ncclcheck.inputs.blocks import BLOCK_BYTES, KEPT_OF_LONG_LINE, Block, cut_blocks
from ncclcheck.inputs.decode import as_text, decode
from ncclcheck.inputs.errors import NoRoomError, UnreadableInputError, reason
from ncclcheck.inputs.meter import Meter
from ncclcheck.inputs.spool import Piece, Spool

STDIN = "-"

Opener = Callable[[], AbstractContextManager[Iterator[bytes]]]
"""Opens an input; inside are its decoded bytes."""


@dataclass(slots=True)
class Source:
    """One input. `blocks()` never raises for what the input is: it stops, and `error` says why.

    name: as the user gave it, or joined below the directory or archive given; always valid Unicode.
    argument: the argument that named it (a directory, an archive or a glob names many).
    error: known at once for what cannot be opened, else after the last block. What came before it counts.
    once: it can be read a single time only (a pipe); what it gives is then kept in a spool for `quote`.
    size: bytes before decoding, None where nobody knows.
    long_lines: how many lines were cut, and the first one's number in `first_long_line`.
    """

    name: str
    argument: str
    open: Opener | None = None
    error: str | None = None
    once: bool = False
    size: int | None = None
    long_lines: int = field(default=0, init=False)
    first_long_line: int = field(default=0, init=False)
    _kept: Spool | None = field(default=None, init=False, repr=False)
    _lost: str = field(default="", init=False, repr=False)

    def blocks(self) -> Iterator[Block]:
        """Blocks of whole lines, at most `BLOCK_BYTES` each, with the number of their first line."""
        if self.open is None:
            return
        try:
            if self.once:
                self._kept = Spool()
            with self.open() as chunks:
                for block in cut_blocks(chunks, self._long_line):
                    if self._kept is not None and not self._lost:
                        self._keep(self._kept, block)
                    yield block
        except (OSError, UnreadableInputError) as error:
            self.error = reason(error)

    def _keep(self, spool: Spool, block: Block) -> None:
        """A copy that fails costs quotations, not the judgement."""
        try:
            spool.write(block[0])
        except NoRoomError as error:
            self._lost = f"{error}: lines from {block[1]} on are judged but not quoted"

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
                yield from cut_blocks(self._kept.read(Piece(0, self._kept.end)), lambda number: None)
            elif self.open is not None and not self.once:
                with self.open() as chunks:
                    yield from cut_blocks(chunks, lambda number: None)
        except (OSError, UnreadableInputError):
            return

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know although nothing is wrong with the input."""
        told = [self._lost] if self._lost else []
        if self.long_lines:
            others = f" and {self.long_lines - 1} more" if self.long_lines > 1 else ""
            limits = f"over {BLOCK_BYTES >> 20} MiB: only the first {KEPT_OF_LONG_LINE >> 20} MiB was read"
            told.append(f"line {self.first_long_line}{others} {limits}")
        return tuple(told)

    def _long_line(self, number: int) -> None:
        self.first_long_line = self.first_long_line or number
        self.long_lines += 1


def file_source(path: str, argument: str, meter: Meter | None = None) -> Source:
    """A source for a path the user means: a regular file, or a pipe (`<(command)`, a FIFO)."""
    try:
        status = Path(path).stat()
    except OSError as error:
        return failed_source(path, argument, reason(error))
    mode = status.st_mode
    for test, what in ((stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "character device"), (stat.S_ISBLK, "block device")):
        if test(mode):
            return failed_source(path, argument, f"is a {what}, not a log")
    regular = stat.S_ISREG(mode)
    size = status.st_size if regular else None
    return Source(
        printable(path), printable(argument), partial(_open, path, meter or Meter()), once=not regular, size=size
    )


@contextmanager
def _open(path: str, meter: Meter) -> Iterator[Iterator[bytes]]:
    with Path(path).open("rb") as file:
        yield decode(meter.count(read_chunks(file)))


def stdin_source(head: bytes, chunks: Iterator[bytes]) -> Source:
    """Standard input, named `-`, from what `decompress` gave."""
    return Source(STDIN, STDIN, lambda: nullcontext(as_text(head, chunks)), once=True)


def failed_source(name: str, argument: str, error: str) -> Source:
    """An input that cannot be read: it still has its place in the report."""
    return Source(printable(name), printable(argument), None, error, size=0)


def printable(path: str) -> str:
    r"""Names on Linux are bytes: those that are not UTF-8 arrive as lone surrogates and leave as `\udcff`."""
    return path.encode("utf-8", "backslashreplace").decode()


def read_chunks(file: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The bytes of a file in pieces."""
    while chunk := file.read(size):
        yield chunk
