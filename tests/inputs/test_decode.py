"""Compressed and marked streams, whole and damaged."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Iterator

import pytest
import zstandard

from ncclcheck.inputs.decode import decode, looks_like_text
from ncclcheck.inputs.errors import NotTextError, UnreadableInputError

LOG = b"".join(b"n1:%d:7 [0] NCCL INFO Channel %02d/08\n" % (random.Random(i).randrange(10**6), i) for i in range(3000))


def read(data: bytes, chunk: int = 1000) -> tuple[bytes, str | None]:
    """All that comes out, and the complaint that ends it."""
    got: list[bytes] = []
    try:
        for piece in decode(data[i : i + chunk] for i in range(0, len(data), chunk)):
            got.append(piece)
    except UnreadableInputError as error:
        return b"".join(got), str(error)
    return b"".join(got), None


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_streams_of_two_parts(compress, chunk) -> None:  # type: ignore[no-untyped-def]
    assert read(compress(LOG[:5000]) + compress(LOG[5000:]), chunk) == (LOG, None)


def test_gzip_padding_is_legal_and_garbage_is_told() -> None:
    assert read(gzip.compress(LOG) + bytes(700)) == (LOG, None)
    text, error = read(gzip.compress(LOG) + b"torn")
    assert text == LOG
    assert error is not None and "follows the end" in error


def test_zstd_may_open_with_a_skippable_frame() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    assert read(skippable + zstandard.compress(LOG)) == (LOG, None)


@pytest.mark.parametrize("cut", [20, 3000, 9000])
def test_a_gzip_cut_short_keeps_what_it_holds(cut: int) -> None:
    text, error = read(gzip.compress(LOG)[:cut])
    assert LOG.startswith(text)
    assert error is not None and "ends too early" in error
    if cut > 1000:
        assert len(text) > cut  # compressed text grows


def test_a_gzip_with_a_damaged_middle_keeps_what_precedes_it() -> None:
    data = bytearray(gzip.compress(LOG))
    middle = len(data) // 2
    data[middle : middle + 40] = bytes(40)
    text, error = read(bytes(data))
    assert error is not None and "damaged gzip" in error
    assert text[:middle] == LOG[:middle]


def test_a_gzip_with_a_wrong_checksum_keeps_all() -> None:
    data = bytearray(gzip.compress(LOG))
    data[-8] ^= 1
    text, error = read(bytes(data))
    assert text == LOG
    assert error is not None and "damaged gzip" in error


def test_a_zstd_cut_short_or_damaged() -> None:
    dice = random.Random(1)
    big = b"".join(b"%x\n" % dice.randrange(1 << 60) for _ in range(40_000))  # zstd blocks: only whole ones survive
    data = zstandard.ZstdCompressor(level=1).compress(big)
    text, error = read(data[: len(data) * 3 // 4])
    assert error is not None and "ends too early" in error
    assert text and big.startswith(text)
    damaged = bytearray(data)
    damaged[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    assert "damaged zstd" in str(read(bytes(damaged))[1])


def test_a_zstd_window_that_costs_too_much_memory() -> None:
    settings = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    frame = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    data = frame.compress(LOG) + frame.flush()
    text, error = read(data)
    assert text == b""
    assert error == "zstd data that needs over 128 MiB of memory (zstd --long): unpack it with zstd -d --long=31"


@pytest.mark.parametrize("compressor", ["gzip", "zstd"])
def test_a_bomb_costs_no_memory(compressor: str) -> None:
    bomb = gzip.compress(bytes(200 << 20)) if compressor == "gzip" else zstandard.compress(bytes(200 << 20))

    def drain() -> int:
        return sum(len(piece) for piece in decode(iter([bomb])))

    tracemalloc.start()
    assert drain() == 200 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str) -> None:
    text = "n1 NCCL WARN é\n"
    assert read(text.encode(encoding), 3) == (text.encode(), None)
    assert read("\ufeffNCCL\n".encode("utf-16-be"), 3) == (b"NCCL\n", None)
    assert read(gzip.compress(text.encode(encoding))) == (text.encode(), None)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(encoding: str) -> None:
    text = LOG.decode() + "100%|█████| Größe\n"
    assert read(text.encode(encoding), 3) == (text.encode(), None)
    assert read(gzip.compress(text.encode(encoding))) == (text.encode(), None)


@pytest.mark.parametrize(
    "data",
    [
        b"NCCL",
        b"a\0b\0",  # too short to tell
        bytes(4000) + LOG,  # truncated while the writer ran
        LOG + bytes(100) + LOG,
        "".join(map(chr, range(40, 140))).encode("utf-16-le").replace(b"\0", b"\x01"),
        bytes(2 * (i % 8) if i % 2 else 0 for i in range(600)),  # small numbers of 16 bits
    ],
)
def test_nuls_alone_make_no_utf16(data: bytes) -> None:
    assert read(data) == (data, None)


def test_a_torn_utf16_keeps_its_beginning() -> None:
    assert read("NCCL\n".encode("utf-16")[:-1]) == ("NCCL\ufffd".encode(), None)


@pytest.mark.parametrize(
    "magic", [b"PK\x03\x04...", b"BZh9...", b"\xfd7zXZ\x00.", b"name".ljust(257, b"\0") + b"ustar"]
)
def test_other_containers_are_refused(magic: bytes) -> None:
    for data in (magic, gzip.compress(magic)):
        text, error = read(data)
        assert text == b""
        assert error is not None and "unpack it first" in error


def test_a_container_is_told_apart_from_damage() -> None:
    with pytest.raises(NotTextError):
        next(decode(iter([b"PK\x03\x04"])))


def test_nothing_is_nothing() -> None:
    assert read(b"") == (b"", None)
    assert read(b"\x1f\x8b")[1] is not None


def test_a_failing_device_keeps_what_was_read() -> None:
    def torn() -> Iterator[bytes]:
        yield b"short"
        raise OSError(5, "Input/output error")

    chunks = decode(torn())
    assert next(chunks) == b"short"
    with pytest.raises(OSError, match="Input/output"):
        next(chunks)


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        (b"", True),
        (LOG[:4000], True),
        (b"\x1b[31mred\x1b[0m\n", True),
        ("Übergröße\n".encode("latin-1"), True),
        (b"text\0more text with one NUL\n", True),
        (b"\x7fELF" + bytes(200), False),
        (bytes(range(256)), False),
    ],
)
def test_what_looks_like_text(head: bytes, verdict: bool) -> None:
    assert looks_like_text(head) is verdict
