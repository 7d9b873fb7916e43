"""Archives: each text member is a source; whatever an archive does, what could be read is read and the rest is told."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from ncclcheck.inputs import spool as spool_module
from ncclcheck.inputs import unpack as unpack_module
from ncclcheck.inputs.expand import expand
from ncclcheck.inputs.source import Source

Compress = Callable[[bytes], bytes]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def info(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    for key, value in more.items():
        setattr(member, key, value)
    return member


def tar(*members: tuple[str | tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in members:
            member = info(name) if isinstance(name, str) else name
            member.size = member.size or len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def unpacked(data: bytes, name: str = "b.tar") -> tuple[list[tuple[str, bytes]], list[str], int]:
    """Sources with their text, errors, and how many members were passed over."""
    Path(name).write_bytes(data)
    return read(name)


def read(*arguments: str) -> tuple[list[tuple[str, bytes]], list[str], int]:
    expansion = expand(arguments)
    found = [(s.name, text(s)) for s in expansion.sources if s.open is not None]
    assert {s.argument for s in expansion.sources} == set(arguments)
    return found, [f"{s.name}: {s.error}" for s in expansion.sources if s.error], expansion.skipped


def text(source: Source) -> bytes:
    return b"".join(block for block, _ in source.blocks())


RANDOM = b"".join(b"%s\n" % os.urandom(40).hex().encode() for _ in range(20_000))  # compresses to its half


@pytest.mark.parametrize("name", ["b.tar", "run.log"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_sources_in_their_order(name: str, compress: Compress, format: int) -> None:
    long = "d/" + "n" * 90 + "/rank-é.log"
    data = tar(("z.log", b"one\ntwo"), (info("d", tarfile.DIRTYPE), b""), (f"./{long}", b"three\n"), format=format)
    found, errors, skipped = unpacked(compress(data), name)
    assert found == [(f"{name}/z.log", b"one\ntwo"), (f"{name}/{long}", b"three\n")]
    assert (errors, skipped) == ([], 0)


def test_a_zip_is_opened_as_well() -> None:
    with zipfile.ZipFile("b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("d")
        for name, data in ("d/a.log", b"one\n"), (".hidden.log", b"x"), ("a.bin", bytes(range(256))):
            archive.writestr(name, data)
        link = zipfile.ZipInfo("link.log")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "d/a.log")
    assert read("b.zip") == ([("b.zip/d/a.log", b"one\n")], [], 3)


def test_standard_input_may_be_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(tar(("a.log", b"one\n"), ("b.log", b"two\n")))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read("-") == ([("-/a.log", b"one\n"), ("-/b.log", b"two\n")], [], 0)


def test_what_is_no_text_is_counted() -> None:
    data = tar(
        ("d/.hidden.log", b"x"), (".git/config.txt", b"x"), ("._mac.log", b"x"), ("model.pt", bytes(range(256)) * 9000),
        (info("link.log", tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
        (info("hard.log", tarfile.LNKTYPE, linkname="kept.log"), b""),
        (info("pipe.log", tarfile.FIFOTYPE), b""), (info("null.log", tarfile.CHRTYPE), b""),
        (info("odd.log", b"Z"), b"unknown type"), ("core.txt.gz", gzip.compress(b"text")), ("notes", b"text\n"),
        ("nuls.log", bytes(9000) + b"\nNCCL\n"),
    )  # fmt: skip
    found, errors, skipped = unpacked(data)
    assert found == [
        ("b.tar/core.txt.gz", b"text"), ("b.tar/notes", b"text\n"), ("b.tar/nuls.log", bytes(9000) + b"\nNCCL\n"),
    ]  # fmt: skip
    assert (errors, skipped) == ([], 9)


def test_names_are_only_names(here: Path) -> None:
    names = ["/etc/x.log", "../../up.log", "new\nline.log", "\x1b[2J.log", "a.log", "a.log", "a.log (2)", "a.log"]
    found, errors, _ = unpacked(tar(*((name, b"%d\n" % number) for number, name in enumerate(names))))
    assert [name for name, _ in found] == [
        "b.tar//etc/x.log", "b.tar/../../up.log", "b.tar/new\nline.log", "b.tar/\x1b[2J.log",
        "b.tar/a.log", "b.tar/a.log (2)", "b.tar/a.log (2) (2)", "b.tar/a.log (3)",
    ]  # fmt: skip
    assert [data for _, data in found] == [b"%d\n" % number for number in range(8)]
    assert errors == []
    assert [path.name for path in here.iterdir()] == ["b.tar"]


def test_a_name_that_is_not_unicode() -> None:
    (name, data), = unpacked(tar((os.fsdecode(b"bad\xff.log"), b"x\n"), format=tarfile.GNU_FORMAT))[0]  # fmt: skip
    name.encode()
    assert data == b"x\n"


def test_many_directories_and_a_name_of_any_length() -> None:
    directories = [(info(f"d{number}", tarfile.DIRTYPE), b"") for number in range(3000)]
    found, errors, _ = unpacked(tar(*directories, ("n" * 5000 + ".log", b"x\n")))
    assert found == [("b.tar/..." + "n" * 996 + ".log", b"x\n")]
    assert errors == []


@pytest.mark.parametrize("data", [tar(), tar(("model.pt", bytes(99))), tar((info("d", tarfile.DIRTYPE), b""))])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_archive_without_text(data: bytes, compress: Compress) -> None:
    assert unpacked(compress(data), "b.tar.gz")[:2] == ([], ["b.tar.gz: an archive that holds no readable text files"])


def test_an_empty_zip() -> None:
    zipfile.ZipFile("b.zip", "w").close()
    assert read("b.zip")[1] == ["b.zip: an archive that holds no readable text files"]


def test_an_archive_inside_an_archive_is_refused() -> None:
    inner = gzip.compress(tar(("a.log", b"x\n")))
    found, errors, skipped = unpacked(tar(("in/inner.tar.gz", inner), ("lib.whl", b"PK\x03\x04"), ("a.log", b"x\n")))
    assert found == [("b.tar/a.log", b"x\n")]
    assert errors == ["b.tar/in/inner.tar.gz: an archive inside an archive: unpack it first"]
    assert skipped == 1


def test_archives_of_a_directory() -> None:
    Path("d").mkdir()
    Path("d/b.tgz").write_bytes(gzip.compress(tar(("a.log", b"x\n"))))
    Path("d/c.log").write_bytes(b"y\n")
    Path("d/weights.pt").write_bytes(tar(("version", b"3\n")))
    assert read("d") == ([("d/b.tgz/a.log", b"x\n"), ("d/c.log", b"y\n")], [], 1)


# -- damage


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_what_a_torn_archive_still_holds(compress: Compress) -> None:
    data = compress(tar(("a.log", b"whole\n"), ("b.log", RANDOM), ("c.log", b"lost\n")))
    found, errors, _ = unpacked(data[: len(data) // 2])
    assert [name for name, _ in found] == ["b.tar/a.log", "b.tar/b.log"]
    assert found[0][1] == b"whole\n"
    torn = found[1][1]
    assert RANDOM.startswith(torn) and len(torn) > len(RANDOM) // 3
    assert len(errors) == 1 and errors[0].startswith("b.tar: ") and "too early" in errors[0]


def test_a_torn_plain_tar_loses_no_byte() -> None:
    data = tar(("a.log", RANDOM))
    assert unpacked(data[:300_000])[0] == [("b.tar/a.log", RANDOM[: 300_000 - 512])]


def test_a_tar_without_its_end_mark_is_told() -> None:
    found, errors, _ = unpacked(tar(("a.log", b"x" * 512))[:1024])
    assert found == [("b.tar/a.log", b"x" * 512)]
    assert errors == ["b.tar: the tar archive ends too early; what is there was read"]


def test_what_follows_the_end_is_told() -> None:
    one = tar(("a.log", b"x\n"))
    found, errors, _ = unpacked(one + one)
    assert found == [("b.tar/a.log", b"x\n")]
    assert errors == ["b.tar: something follows the end of the tar archive; it was not read"]


def test_a_damaged_header_is_told() -> None:
    data = bytearray(tar(("a.log", b"x\n"), ("b.log", b"y\n")))
    data[1024 + 10] ^= 1
    found, errors, _ = unpacked(bytes(data))
    assert found == [("b.tar/a.log", b"x\n")]
    assert errors == ["b.tar: damaged tar archive; what came before the damage was read"]


@pytest.mark.parametrize("cut", [-1, -30, -200])
def test_a_damaged_zip(cut: int) -> None:
    with zipfile.ZipFile("b.zip", "w") as archive:
        archive.writestr("a.log", "one\n" * 50)
        archive.writestr("b.log", "two\n")
    data = bytearray(Path("b.zip").read_bytes())
    found, errors, _ = unpacked(bytes(data[:cut]), "b.zip")
    assert found == [] and len(errors) == 1 and "damaged zip archive" in errors[0]
    data[60] ^= 1  # inside a.log: its checksum is wrong
    found, errors, _ = unpacked(bytes(data), "b.zip")
    assert found == [("b.zip/b.log", b"two\n")]
    assert errors == ["b.zip: damaged zip archive; what could be unpacked was read"]


# -- made to hurt


def peak_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


class Zeros(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        return bytes(size)


def bomb(size: int, *kinds: bytes) -> bytes:
    """Members of that many NULs each, as zstd makes them small."""
    out = io.BytesIO()
    packed = zstandard.ZstdCompressor().stream_writer(out, closefd=False)
    with packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for number, kind in enumerate(kinds):
            archive.addfile(info(f"{number}.log", kind, size=size), Zeros())  # type: ignore[arg-type]
    return out.getvalue()


def test_a_bomb_takes_neither_memory_nor_room() -> None:
    Path("b.tar.zst").write_bytes(bomb(300 << 20, tarfile.REGTYPE))
    assert Path("b.tar.zst").stat().st_size < 100_000
    room: list[int] = []
    write = spool_module.Spool.write

    def watch(spool: spool_module.Spool, data: bytes) -> None:
        write(spool, data)
        room.append(spool.end)

    spool_module.Spool.write = watch  # type: ignore[method-assign]
    try:
        assert peak_of(lambda: expand(["b.tar.zst"])) < 60 << 20
    finally:
        spool_module.Spool.write = write  # type: ignore[method-assign]
    assert max(room) < 1 << 20


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_headers_of_any_size_are_not_held(kind: bytes) -> None:
    Path("b.tar.zst").write_bytes(bomb(300 << 20, tarfile.REGTYPE, kind, tarfile.REGTYPE)[:])
    errors: list[str] = []
    assert peak_of(lambda: errors.extend(s.error or "" for s in expand(["b.tar.zst"]).sources)) < 60 << 20
    assert errors == ["", "tar archive with a header of over 32 KiB; what came before it was read"]


def sparse(*parts: tuple[int, int], size: int, data: bytes) -> bytes:
    """A member of the old GNU kind: where its parts lie, how large it says it is, and the parts."""
    header = bytearray(info("s.log", tarfile.GNUTYPE_SPARSE, size=len(data)).tobuf(tarfile.GNU_FORMAT))
    for number, (offset, length) in enumerate(parts):
        header[386 + 24 * number : 386 + 24 * number + 24] = b"%011o\0%011o\0" % (offset, length)
    header[483:495] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data.ljust(-len(data) % 512 + len(data), b"\0")


def test_the_holes_of_a_sparse_file_are_nothing() -> None:
    data = sparse((0, 512), (1 << 32, 6), size=(1 << 32) + 6, data=b"\n".rjust(512) + b"NCCL\n\n")
    found, errors, _ = unpacked(data + tar(("a.log", b"x\n")))
    assert found == [("b.tar/s.log", b"\n".rjust(512) + b"NCCL\n\n"), ("b.tar/a.log", b"x\n")]
    assert errors == []


def test_sizes_that_make_no_sense() -> None:
    for size, texts in (-512, []), (1 << 62, [b"x" * 512 + bytes(1024)]):
        header = info("a.log", size=512).tobuf(tarfile.GNU_FORMAT)
        changed = bytearray(header)
        changed[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
        changed[148:156] = b" " * 8
        changed[148:156] = b"%06o\0 " % sum(changed)
        found, errors, _ = unpacked(bytes(changed) + b"x" * 512 + bytes(1024))
        assert [data for _, data in found] == texts
        assert len(errors) == 1 and errors[0].startswith("b.tar: ")


def test_more_members_than_anybody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack_module, "MOST_MEMBERS", 3)
    found, errors, _ = unpacked(tar(*((f"{number}.log", b"") for number in range(9))))
    assert len(found) == 3
    assert errors == ["b.tar: holds over 3 text files; the rest was not read"]


# -- the copy


def test_quoting_decompresses_nothing_again() -> None:
    names = [f"{number}.log" for number in range(50)]
    Path("b.tar.gz").write_bytes(gzip.compress(tar(*((name, f"{name}\nlast".encode()) for name in names))))
    sources = expand(["b.tar.gz"]).sources
    Path("b.tar.gz").unlink()
    for source, name in reversed(list(zip(sources, names, strict=True))):
        assert text(source) == f"{name}\nlast".encode()
        assert source.quote({1, 2, 3}) == {1: name, 2: "last"}


def test_no_room_for_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = iter([True])

    def full(descriptor: int, data: bytes, place: int) -> int:
        if next(kept, False):
            return pwrite(descriptor, data, place)
        raise OSError(28, "No space left on device")

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", full)
    found, errors, _ = unpacked(tar(("a.log", b"one\n"), ("b.log", b"two\n"), ("c.log", b"three\n")))
    assert found == [("b.tar/a.log", b"one\n"), ("b.tar/b.log", b"")]
    assert errors == ["b.tar: no room for a temporary copy (no space left on device); TMPDIR names another place"]


def test_many_archives_leave_one_file_open() -> None:
    Path("d").mkdir()
    for number in range(40):
        Path(f"d/{number}.tar").write_bytes(tar(("a.log", b"x\n")))
    before = len(list(open_files()))
    sources = expand(["d"]).sources
    assert [text(source) for source in sources] == [b"x\n"] * 40
    assert len(list(open_files())) <= before + 1


def open_files() -> Iterator[str]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc")
    return iter(os.listdir("/proc/self/fd"))  # noqa: PTH208
