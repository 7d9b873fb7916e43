"""From raw bytes to text bytes: decompression, byte order marks, and what is no text at all.

Everything streams in bounded pieces, so a decompression bomb costs time but no memory. What a file is tells its
first bytes, not its name: `run.log` may be gzip, `run.log.gz` may be plain, and stdin has no name.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath

from ncclcheck.inputs.archives import ZIP, is_tar
from ncclcheck.inputs.errors import NotTextError, UnreadableInputError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a first byte 0x50..0x5f: parallel compressors open with such a frame

_OTHER_CONTAINERS = (
    *((magic, "a zip archive") for magic in ZIP),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
)
_HEAD = 512  # enough for every mark below; a tar archive shows itself at byte 257
_FEWEST_UTF16 = 16  # bytes; fewer tell nothing

_GZIP_FED = 64 << 10  # compressed bytes at a time
_GZIP_GOT = 1 << 20  # decompressed bytes at a time
_ZSTD_FED = 256  # zstd bounds no output, and one byte can become 32,000: 8 MB at most come back

_TEXT_SUFFIXES = {".log", ".txt", ".out", ".err", ".xml"}


def decode(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """UTF-8 (or whatever one-byte soup the input is), decompressed, without a byte order mark."""
    return as_text(*decompress(chunks))


def decompress(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and an iterator over all of them; gzip and zstd are undone, once."""
    head, chunks = _peek(chunks)
    if head.startswith(GZIP):
        return _peek(_gunzip(chunks))
    if head.startswith(ZSTD) or (head[1:4] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return _peek(_unzstd(chunks))
    return head, chunks


def as_text(head: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What `decompress` gave, as UTF-8. NotTextError: it is a container."""
    for magic, what in _OTHER_CONTAINERS:
        if head.startswith(magic):
            raise NotTextError(f"{what}: unpack it first")
    if is_tar(head):
        raise NotTextError("a tar archive: unpack it first")
    if head.startswith(codecs.BOM_UTF8):
        return chain((next(chunks)[3:],), chunks)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _from_utf16(chunks, "utf-16")
    for low, encoding in ((0, "utf-16-le"), (1, "utf-16-be")):
        if _is_utf16(head[low::2], head[1 - low :: 2]):
            return _from_utf16(chunks, encoding)
    return chunks


def _is_utf16(low: bytes, high: bytes) -> bool:
    """Without a mark, from the bytes of the first characters: text in the lower halves, nearly nothing in the upper."""
    enough = len(low) + len(high) >= _FEWEST_UTF16
    return enough and not low.count(0) and high.count(0) * 4 >= len(high) * 3 and looks_like_text(low)


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and an iterator that still gives them. A failure before `_HEAD` bytes waits its turn."""
    taken: list[bytes] = []
    failure: OSError | UnreadableInputError | None = None
    try:
        while sum(map(len, taken)) < _HEAD:
            taken.append(next(chunks))
    except StopIteration:
        pass
    except (OSError, UnreadableInputError) as error:
        failure = error
    head = b"".join(taken)

    def again() -> Iterator[bytes]:
        if head:
            yield head
        if failure is not None:
            raise failure
        yield from chunks

    return head[:_HEAD], again()


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """All members of a gzip stream. Damage is reported after the last byte that could be saved."""
    member = zlib.decompressobj(wbits=31)
    started = False  # the present member has had input
    for piece in chain.from_iterable(_pieces(chunk, _GZIP_FED) for chunk in chunks):
        data = piece
        while data:
            if member.eof:
                data = data.lstrip(b"\0")  # padding after a member is legal
                if not data:
                    break
                if data[:1] != GZIP[:1]:
                    raise UnreadableInputError("something follows the end of the gzip data; it was not read")
                member = zlib.decompressobj(wbits=31)
            started = True
            before = member.copy()
            try:
                text = member.decompress(data, _GZIP_GOT)
            except zlib.error:
                yield from _salvage(before, data)
                raise UnreadableInputError("damaged gzip data; what came before the damage was read") from None
            data = member.unused_data if member.eof else member.unconsumed_tail
            if text:
                yield text
    if started and not member.eof:
        yield member.flush()  # what the bound on a call's output held back: a window at most
        if not member.eof:
            raise UnreadableInputError("the gzip data ends too early; what is there was read")


def _salvage(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """The output up to the damage: zlib throws a whole call's output away, so feed it byte by byte."""
    try:
        for byte in _pieces(data, 1):
            yield member.decompress(byte)
    except zlib.error:
        return


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """All frames of a zstd stream. A window is memory: the library's limit of 128 MiB holds."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    started = False
    for piece in chain.from_iterable(_pieces(chunk, _ZSTD_FED) for chunk in chunks):
        data = piece
        while data:
            if frame.eof:
                frame = decompressor.decompressobj()
            started = True
            try:
                text = frame.decompress(data)
            except zstandard.ZstdError as error:
                if "too much memory" in str(error):
                    raise UnreadableInputError(
                        "zstd data that needs over 128 MiB of memory (zstd --long): unpack it with zstd -d --long=31"
                    ) from None
                raise UnreadableInputError("damaged zstd data; what came before the damage was read") from None
            data = frame.unused_data if frame.eof else b""
            if text:
                yield text
    if started and not frame.eof:
        raise UnreadableInputError("the zstd data ends too early; what is there was read")


def _from_utf16(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk in chunks:
        text = decoder.decode(chunk)
        if text:
            yield text.encode()
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest.encode()


def is_called_text(name: str) -> bool:
    """Text without a look inside: a log truncated while its writer ran begins with megabytes of NULs."""
    return PurePath(name).suffix.lower() in _TEXT_SUFFIXES


def looks_like_text(head: bytes) -> bool:
    """Is this the beginning of a text file? Colour codes and a few NULs are no objection."""
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\b\x1b\0" for byte in head)
    return controls * 50 <= len(head) and head.count(0) * 10 <= len(head)
