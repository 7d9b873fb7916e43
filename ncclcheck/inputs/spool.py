"""Bytes kept for a second look, in one anonymous temporary file.

They are kept compressed: logs shrink tenfold, and what a decompression bomb becomes stays about as small as it came.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, BinaryIO, NamedTuple, cast

from ncclcheck.inputs.errors import NoRoomError, reason

_READ = 1 << 20


class Piece(NamedTuple):
    """Where something lies in the file: compressed bytes, end exclusive."""

    start: int
    end: int


class Spool:
    """Writes at the end; pieces are read by position, so that readers do not disturb each other."""

    def __init__(self) -> None:
        self.end = 0
        self._file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Keep these bytes. NoRoomError: nowhere to keep them; what was kept before stays."""
        import zstandard

        frame = memoryview(zstandard.ZstdCompressor(level=1).compress(data))
        try:
            if self._file is None:
                self._file = TemporaryFile(buffering=0)  # noqa: SIM115  (closed with the process)
            place = self.end
            while frame:
                written = os.pwrite(self._file.fileno(), frame, place)
                frame, place = frame[written:], place + written
        except OSError as error:
            why = "no temporary directory" if error.errno == errno.ENOENT else reason(error)
            raise NoRoomError(f"no room for a temporary copy ({why}); TMPDIR names another place") from None
        self.end = place

    def read(self, piece: Piece) -> Iterator[bytes]:
        """The bytes of a piece as they were."""
        import zstandard

        if self._file is None:
            return
        stored = cast(IO[bytes], _Stored(self._file.fileno(), piece))
        with zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True) as reader:
            while data := reader.read(_READ):
                yield data


class _Stored:
    """A piece as a file to read from."""

    def __init__(self, descriptor: int, piece: Piece) -> None:
        self._descriptor = descriptor
        self._place, self._end = piece

    def read(self, size: int) -> bytes:
        data = os.pread(self._descriptor, min(size, self._end - self._place), self._place)
        self._place += len(data)
        return data
