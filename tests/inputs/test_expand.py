"""Arguments become sources: what is read, in which order, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ncclcheck.inputs import source as source_module
from ncclcheck.inputs.expand import expand
from ncclcheck.inputs.source import Source


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, data: bytes = b"line\n") -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def names(*arguments: str) -> list[str]:
    return [source.name for source in expand(arguments).sources]


def only(argument: str) -> Source:
    (source,) = expand([argument]).sources
    return source


def text(source: Source) -> bytes:
    return b"".join(block for block, _ in source.blocks())


def test_a_file_is_read_in_numbered_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    source = only(write("a.log", b"one\ntwo"))
    assert list(source.blocks()) == [(b"one\ntwo", 1)]
    assert (source.name, source.argument, source.error, source.notes) == ("a.log", "a.log", None, ())


def test_a_directory_is_walked_in_order(here: Path) -> None:
    for name in ("d/b.log", "d/a.log", "d/sub/z.out", "d/notes.md", "d/r.log.gz", "d/empty.log"):
        write(name, gzip.compress(b"x\n") if name.endswith("gz") else b"" if "empty" in name else b"x\n")
    write("d/.hidden.log")
    write("d/model.pt", bytes(range(256)))
    write("d/bundle.data", gzip.compress(b"name".ljust(257, b"\0") + b"ustar"))
    os.mkfifo("d/pipe")
    expansion = expand(["d"])
    assert [s.name for s in expansion.sources] == [
        "d/a.log", "d/b.log", "d/empty.log", "d/notes.md", "d/r.log.gz", "d/sub/z.out",
    ]  # fmt: skip
    assert {s.argument for s in expansion.sources} == {"d"}
    assert expansion.skipped == 4  # hidden, binary, archive that is not called one, pipe


def test_a_log_that_begins_with_nuls_is_text() -> None:
    write("d/truncated.log", bytes(9000) + b"n1 NCCL INFO\n")
    assert names("d") == ["d/truncated.log"]


def test_links_do_not_loop_and_no_file_counts_twice(here: Path) -> None:
    write("d/a.log")
    Path("d/loop").symlink_to(here / "d")
    Path("d/link.log").symlink_to("a.log")
    assert names("d", "d/a.log", "./d/a.log") == ["d/a.log"]


def test_a_very_deep_directory() -> None:
    top = os.open(".", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=top)
        inner = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = inner
    os.close(top)
    try:
        assert only("d").error == "directory without readable text files"
    finally:
        subprocess.run(["rm", "-rf", "d"], check=True)  # pytest's own clean-up recurses too deep


def test_globs_that_the_shell_left_alone() -> None:
    for name in ("r2.log", "r10.log", "deep/er/r1.log", "odd[1].log"):
        write(name)
    assert names("r*.log") == ["r10.log", "r2.log"]
    assert names("**/r1.log") == ["deep/er/r1.log"]
    assert names("**/*.log") == ["deep/er/r1.log", "odd[1].log", "r10.log", "r2.log"]
    assert names("deep/**") == names("./deep/**/**/*1.log".removeprefix("./")) == ["deep/er/r1.log"]
    assert names("dee?/**/er/*") == ["deep/er/r1.log"]
    assert names("odd[1].log") == ["odd[1].log"]
    assert only("none*.log").error == "no such file"


def test_a_glob_over_links_that_loop(here: Path) -> None:
    write("d/e/a.log")
    write("d/[x]/b.log")
    write("d/.hidden/c.log")
    for number in range(4):
        Path(f"d/e/loop{number}").symlink_to(here / "d")
        Path(f"d/loop{number}").symlink_to(here / "d")
    assert names("**/*.log") == ["d/[x]/b.log", "d/e/a.log"]
    assert names("d/**/**/*.log") == ["d/[x]/b.log", "d/e/a.log"]
    assert names(f"{here}/d/**/a.*") == [f"{here}/d/e/a.log"]


@pytest.mark.parametrize("argument", ["missing.log", "d", "s", "/dev/null", "locked.log", "n" * 5000])
def test_what_cannot_be_read_keeps_its_place(argument: str) -> None:
    Path("d").mkdir()
    write("locked.log")
    Path("locked.log").chmod(0)
    good = write("good.log")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("s")
        bad, fine = expand([argument, good]).sources
    if argument == "locked.log" and os.access(argument, os.R_OK):
        pytest.skip("root reads everything")
    assert text(bad) == b""
    assert bad.error
    assert text(fine) == b"line\n" and fine.error is None


def test_a_named_pipe_is_read_like_stdin() -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(b"from a pipe\n"))
    writer.start()
    source = only("pipe")
    assert text(source) == b"from a pipe\n"
    writer.join()


def test_standard_input_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"piped\n"))))
    first, *more = expand(["-", "-"]).sources
    assert not more
    assert text(first) == b"piped\n"
    monkeypatch.setattr(sys, "stdin", None)
    assert only("-").error == "standard input is closed"


def test_a_pipe_without_room_for_a_copy_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"%07d\n" % number for number in range(3 << 20)]  # three blocks
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines))))
    pwrite, calls = os.pwrite, iter([True])

    def full(descriptor: int, data: bytes, place: int) -> int:
        if next(calls, False):
            return pwrite(descriptor, data, place)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    source = only("-")
    assert text(source) == b"".join(lines)
    assert source.error is None
    assert source.notes == (
        "no room for a temporary copy (no space left on device); TMPDIR names another place:"
        " lines from 1048577 on are judged but not quoted",
    )
    assert source.quote({1, 1 << 20, 1 + (1 << 20)}) == {1: "0000000", 1 << 20: "1048575", 1 + (1 << 20): ""}


def test_a_name_that_is_not_unicode() -> None:
    name = os.fsdecode(b"bad\xff.log")
    write(name)
    source = only(name)
    source.name.encode()  # no lone surrogates left
    assert text(source) == b"line\n"


def test_a_damaged_file_keeps_its_beginning() -> None:
    whole = b"".join(b"line %d\n" % i for i in range(9999))
    source = only(write("a.log.gz", gzip.compress(whole)[:-200]))
    got = text(source)
    assert source.error is not None and "ends too early" in source.error
    assert len(got) > 10_000 and whole.startswith(got)


def test_thousands_of_files_leave_none_open() -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc")
    for number in range(2000):
        write(f"d/nccl.n{number}.log", b"%d\n" % number)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    sources = expand(["d"]).sources
    assert sum(int(text(source)) for source in sources) == sum(range(2000))
    assert sources[7].quote({1}) == {1: text(sources[7]).decode().strip()}
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_long_line_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    source = only(write("a.log", b"one\n" + b"x" * (9 << 20) + b"\nthree\n"))
    got = text(source)
    assert source.notes == ("line 2 over 8 MiB: only the first 1 MiB was read",)
    assert [len(line) for line in got.split(b"\n")] == [3, source_module.KEPT_OF_LONG_LINE, 5, 0]
