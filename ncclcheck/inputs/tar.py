"""The members of a tar, in one pass over its bytes."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, cast

from ncclcheck.inputs.archives import Member
from ncclcheck.inputs.errors import UnreadableInputError

_PIECE = 1 << 20
_MOST_HEADERS = 32 << 10
"""Bytes in front of one member: a long name, extended attributes, the map of a sparse file. tarfile holds them all, and
those of Python before 3.11.10 and 3.12.6 take time with the square of them."""

# What tarfile raises on archives that are damaged or made to hurt.
_TROUBLE = (tarfile.TarError, ValueError, LookupError, ArithmeticError)
_DAMAGED = "damaged tar archive; what came before the damage was read"


def tar_members(chunks: Iterator[bytes]) -> Iterator[Member]:
    """All but the directories, in order, from a decompressed tar of any dialect that Python reads.

    UnreadableInputError, OSError: the archive is damaged or ends too early; what came before was given out.
    """
    stream = _TarStream(chunks)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|", tarinfo=_Header, errors="surrogateescape") as tar:
            while (member := _next(tar, stream)) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # or it would remember them all
                if member.isdir():
                    continue
                data = None if member.islnk() or member.issym() else _data(tar, member, stream)
                yield Member(member.name, data if member.isreg() else None)
                for _ in data or ():  # what nobody wanted
                    pass
            assert tar.fileobj is not None
            stream.expect_nothing(cast(IO[bytes], tar.fileobj))
    except _TROUBLE:
        raise stream.failure or UnreadableInputError(_DAMAGED) from None


def _next(tar: tarfile.TarFile, stream: _TarStream) -> tarfile.TarInfo | None:
    stream.expect_headers()
    return tar.next()


def _data(tar: tarfile.TarFile, member: tarfile.TarInfo, stream: _TarStream) -> Iterator[bytes] | None:
    sparse = cast("list[tuple[int, int]] | None", member.sparse)
    if sparse is not None:  # read as if its parts were all: the holes hold no line, and may be of any size
        member.sparse, member.size = None, sum(size for _, size in sparse)
    file = tar.extractfile(member)  # also for a type that Python does not know
    return None if file is None else stream.data(file, member.offset_data)


class _Header(tarfile.TarInfo):
    """Python takes a header that makes no sense for the end of the archive; here it is damage."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):
                raise  # the mark at the end
            raise tarfile.ReadError(str(error)) from None
        if header.size < 0:
            raise tarfile.ReadError("negative size")
        return header


class _TarStream:
    """The bytes of a tar as tarfile wants them.

    Where they break off NULs follow, which tarfile takes for the end: so it hands out what was there. `failure` tells.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.failure: OSError | UnreadableInputError | None = None
        self._chunks = chunks
        self._chunk = memoryview(b"")
        self._received = 0
        self._headers: int | None = 0  # bytes given since the last member's data; None: inside data

    def read(self, size: int) -> bytes:
        if self._headers is not None:
            self._headers += size
            if self._headers > _MOST_HEADERS:
                raise UnreadableInputError("tar archive with a header of over 32 KiB; what came before it was read")
        while not self._chunk:
            self._chunk = memoryview(bytes(_PIECE) if self.failure else self._receive())
        data = bytes(self._chunk[:size])
        self._chunk = self._chunk[size:]
        return data

    def _receive(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self.failure = _EndError("the tar archive ends too early; what is there was read")
        except (OSError, UnreadableInputError) as error:
            self.failure = error
        else:
            self._received += len(chunk)
            return chunk
        return b""

    def expect_headers(self) -> None:
        """What is read from now on is held by tarfile: no more of it than headers may be long."""
        self._headers = 0

    def data(self, file: IO[bytes], start: int) -> Iterator[bytes]:
        """The bytes of `file`, which begins at byte `start` of the tar, as far as they were really there."""
        self._headers = None
        while True:
            try:
                chunk = file.read(_PIECE)
            except _TROUBLE:
                raise UnreadableInputError(_DAMAGED) from None
            if not chunk:
                return
            start += len(chunk)
            if self.failure and start > self._received:
                yield chunk[: max(0, len(chunk) - (start - self._received))]
                raise self.failure
            yield chunk

    def expect_nothing(self, file: IO[bytes]) -> None:
        """Behind the mark at the end there are only NULs; a checksum of the compression comes even later."""
        start = file.tell()
        if self.failure and start > self._received:
            raise self.failure  # there was no mark
        try:
            for rest in self.data(file, start):
                if rest.strip(b"\0"):
                    raise UnreadableInputError("something follows the end of the tar archive; it was not read")
        except _EndError:
            return


class _EndError(UnreadableInputError):
    """No more bytes: an error everywhere but at the end."""
