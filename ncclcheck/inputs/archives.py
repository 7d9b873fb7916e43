"""What lies in a tar or zip archive, member by member.

Nothing is written under a member's name and no link is followed: a name is only printed.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, BinaryIO, NamedTuple, cast

from ncclcheck.inputs.errors import UnreadableInputError
from ncclcheck.inputs.meter import Meter

ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second: one that holds nothing

_SUFFIXES = {".tar", ".tgz", ".tzst", ".zip"}
_COMPRESSED = {".gz", ".zst"}
_PIECE = 1 << 20
_MOST_HEADERS = 1 << 20
"""Bytes in front of one member (a long name, extended attributes, the map of a sparse file): tarfile holds them all."""

# What the standard library raises on archives that are damaged or made to hurt.
_TAR_TROUBLE = (tarfile.TarError, ValueError, LookupError, ArithmeticError)
_ZIP_TROUBLE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, ArithmeticError)
_DAMAGED_TAR = "damaged tar archive; what came before the damage was read"


class Member(NamedTuple):
    """name: as the archive spells it. chunks: its bytes, to be read before the next member; None: no regular file.

    A failure while they are read ends the member; the archive may go on.
    """

    name: str
    chunks: Iterator[bytes] | None


def is_tar(head: bytes, name: str = "") -> bool:
    """By the first bytes, decompressed. A tar of nothing is all NULs, as a log that lost its beginning may be."""
    return head[257:262] == b"ustar" or (len(head) >= tarfile.BLOCKSIZE and not any(head) and is_called_archive(name))


def is_called_archive(name: str) -> bool:
    """By the name: `run.tar.zst`."""
    path = PurePath(name.lower())
    return path.suffix in _SUFFIXES or (path.suffix in _COMPRESSED and PurePath(path.stem).suffix == ".tar")


def tar_members(chunks: Iterator[bytes]) -> Iterator[Member]:
    """All but the directories, in order, from a decompressed tar of any dialect that Python reads.

    UnreadableInputError, OSError: the archive is damaged or ends too early; what came before was given out.
    """
    stream = _TarStream(chunks)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|", tarinfo=_Header, errors="surrogateescape") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # or it would remember them all
                if member.isdir():
                    continue
                data = None if member.islnk() or member.issym() else _data(tar, member, stream)
                yield Member(member.name, data if member.isreg() else None)
                for _ in data or ():  # what nobody wanted
                    pass
                stream.expect_headers()
            assert tar.fileobj is not None
            stream.expect_nothing(cast(IO[bytes], tar.fileobj))
    except _TAR_TROUBLE:
        raise stream.failure or UnreadableInputError(_DAMAGED_TAR) from None


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
                raise UnreadableInputError("tar archive with a header of over 1 MiB; what came before it was read")
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
        """Hold no more of what comes than headers may be long."""
        self._headers = 0

    def data(self, file: IO[bytes], start: int) -> Iterator[bytes]:
        """The bytes of `file`, which begins at byte `start` of the tar, as far as they were really there."""
        self._headers = None
        while True:
            try:
                chunk = file.read(_PIECE)
            except _TAR_TROUBLE:
                raise UnreadableInputError(_DAMAGED_TAR) from None
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


def zip_members(file: BinaryIO, meter: Meter) -> Iterator[Member]:
    """All but the directories, in order. UnreadableInputError, OSError: no table of contents can be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    is_link = stat.S_ISLNK(info.external_attr >> 16)
                    yield Member(info.filename, None if is_link else meter.count(_unzip(archive, info)))
    except _ZIP_TROUBLE:
        raise UnreadableInputError("damaged zip archive: its table of contents cannot be read") from None


def _unzip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(info) as file:
            while chunk := file.read(_PIECE):
                yield chunk
    except (NotImplementedError, RuntimeError):
        raise UnreadableInputError("zip archive with encrypted or oddly compressed members: unpack it first") from None
    except _ZIP_TROUBLE:
        raise UnreadableInputError("damaged zip archive; what could be unpacked was read") from None
