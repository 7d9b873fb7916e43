"""From command-line arguments to sources.

An argument is a file, an archive, a pipe, a directory (walked, in sorted order), `-`, or a glob that the shell did not
expand (because it was quoted, or matched nothing there). A file named twice is read once: its facts would count twice.

What an argument is its bytes tell, not its name. In a directory an archive must be called one as well, for packages
and checkpoints are archives, too; and only standard input is looked at before its turn to be read: whoever feeds two
named pipes one after the other would wait for ever.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ncclcheck.inputs.archives import ZIP, Member, is_called_archive, is_tar
from ncclcheck.inputs.decode import as_text, decompress, is_called_text, looks_like_text
from ncclcheck.inputs.errors import NotTextError, UnreadableInputError, reason
from ncclcheck.inputs.meter import Meter
from ncclcheck.inputs.source import STDIN, Source, failed_source, file_source, read_chunks, stdin_source
from ncclcheck.inputs.spool import Spool
from ncclcheck.inputs.unpack import Unpacked, unpack

_HEAD_BYTES = 64 << 10


class Expansion(NamedTuple):
    """sources: in the order given. skipped: members of directories and archives left out (hidden, binary, no regular
    file)."""

    sources: tuple[Source, ...]
    skipped: int


def expand(arguments: Iterable[str], meter: Meter | None = None) -> Expansion:
    """All sources that the arguments name; one that names none becomes a source with an error.

    meter: counts the bytes of archives now, and of all sources when they are read.
    """
    meter = meter or Meter()
    expanding = _Expanding(meter)
    for argument in arguments:
        if argument == STDIN:
            expanding.add_stdin()
        else:
            for path in _matches(argument):
                expanding.add_path(path, argument)
    sizes = [source.size for source in expanding.sources]
    meter.start("reading", None if None in sizes else sum(filter(None, sizes)))
    return Expansion(tuple(expanding.sources), expanding.skipped)


class _Expanding:
    def __init__(self, meter: Meter) -> None:
        self.sources: list[Source] = []
        self.skipped = 0
        self._meter = meter
        self._spool = Spool()  # one for all archives: a directory may hold thousands of them
        self._seen: set[tuple[int, int]] = set()
        self._stdin_taken = False

    def add_stdin(self) -> None:
        if self._stdin_taken:
            return
        self._stdin_taken = True
        if sys.stdin is None:  # closed by the caller: `<&-`
            self.sources.append(failed_source(STDIN, STDIN, "standard input is closed"))
            return
        head, chunks = decompress(self._meter.count(read_chunks(sys.stdin.buffer)))
        if is_tar(head):
            self._add(unpack(STDIN, STDIN, _members_of_tar(chunks), self._spool, self._meter))
        else:
            self.sources.append(stdin_source(head, chunks))

    def add_path(self, path: str, argument: str) -> None:
        if not os.path.isdir(path):  # noqa: PTH112 - a name too long is no directory, Path would raise
            self._add_file(path, argument, may_be_archive=True)
            return
        found = False
        for member in _walk(path):
            if isinstance(member, _Skipped):
                self.skipped += 1
                continue
            found = True
            if isinstance(member, _Unreadable):
                self.sources.append(failed_source(member.path, argument, member.why))
            else:
                self._add_file(member, argument, may_be_archive=is_called_archive(member))
        if not found:
            self.sources.append(failed_source(path, argument, "directory without readable text files"))

    def _add_file(self, path: str, argument: str, may_be_archive: bool) -> None:
        key = _regular_file(path)
        if key in self._seen:
            return
        if key is not None:  # each open of a pipe is a new stream
            self._seen.add(key)
        if key is not None and may_be_archive and (members := self._unpacked(path, argument)):
            self._add(members)
        else:
            self.sources.append(file_source(path, argument, self._meter))

    def _unpacked(self, path: str, argument: str) -> Unpacked | None:
        """None: the file is no archive, or cannot be opened, which its source will tell."""
        try:
            with Path(path).open("rb") as file:
                head, _ = decompress(read_chunks(file, _HEAD_BYTES))
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                if head.startswith(ZIP):
                    self._meter.start("unpacking")
                    members = _members_of_zip(file, self._meter)
                elif is_tar(head, path):
                    self._meter.start("unpacking", size)
                    members = _members_of_tar(decompress(self._meter.count(read_chunks(file)))[1])
                else:
                    return None
                return unpack(path, argument, members, self._spool, self._meter)
        except OSError:
            return None

    def _add(self, unpacked: Unpacked) -> None:
        self.sources += unpacked.sources
        self.skipped += unpacked.skipped


def _members_of_tar(chunks: Iterator[bytes]) -> Iterator[Member]:
    from ncclcheck.inputs.tar import tar_members

    return tar_members(chunks)


def _members_of_zip(file: BinaryIO, meter: Meter) -> Iterator[Member]:
    from ncclcheck.inputs.zip import zip_members

    return zip_members(file, meter)


class _Unreadable(NamedTuple):
    path: str
    why: str


class _Skipped(NamedTuple):
    path: str


def _matches(argument: str) -> list[str]:
    """A name that exists is that name, brackets and stars included; else it may be a glob."""
    if os.path.lexists(argument) or not glob.has_magic(argument):
        return [argument]
    return sorted(set(_glob(argument))) or [argument]


def _glob(pattern: str) -> Iterator[str]:
    """As Python's, but `**` follows no links to directories: two that point upwards would make it take for ever."""
    before, stars, after = _around_stars(pattern)
    if not stars:
        yield from glob.iglob(pattern)  # noqa: PTH207 - keeps the user's spelling
        return
    for top in _glob(before) if before else ("",):
        if not after:
            yield top or "."  # a directory is walked anyway
            continue
        for directory in _directories(top):
            yield from _glob(glob.escape(directory) + after.lstrip("/"))


def _around_stars(pattern: str) -> tuple[str, str, str]:
    """What stands before the first `**` that is a whole part of the path, the stars, and what stands after."""
    parts = pattern.split("/")
    if "**" not in parts:
        return pattern, "", ""
    place = parts.index("**")
    after = parts[place:]
    while after and after[0] in {"**", ""}:
        after.pop(0)
    return "".join(f"{part}/" for part in parts[:place]), "**", "/".join(after)


def _directories(top: str) -> Iterator[str]:
    """`top` and all visible directories below it, each with a slash at its end; the current directory is empty."""
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        yield directory
        try:
            with os.scandir(directory or ".") as entries:
                below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        waiting += [f"{directory}{name}/" for name in below if not name.startswith(".")]


def _regular_file(path: str) -> tuple[int, int] | None:
    """What tells this file from all others; None for what is none."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _walk(top: str) -> Iterator[str | _Unreadable | _Skipped]:
    """Readable text files and archives below `top`. Links to files are followed, links to directories are not: they
    may loop."""
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                members = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield _Unreadable(directory, reason(error))
            continue
        below: list[str] = []
        for member in members:
            if member.name.startswith("."):
                yield _Skipped(member.path)
            elif member.is_dir(follow_symlinks=False):
                below.append(member.path)
            else:
                yield _judge(member)
        waiting += reversed(below)


def _judge(member: os.DirEntry[str]) -> str | _Unreadable | _Skipped:
    try:
        if not stat.S_ISREG(member.stat().st_mode):
            return _Skipped(member.path)
        if is_called_text(member.name) or _is_text_or_archive(member.path):
            return member.path
    except NotTextError:
        return _Skipped(member.path)
    except (OSError, UnreadableInputError) as error:
        return _Unreadable(member.path, reason(error))
    return _Skipped(member.path)


def _is_text_or_archive(path: str) -> bool:
    with Path(path).open("rb") as file:
        head, chunks = decompress(read_chunks(file, _HEAD_BYTES))
        if is_called_archive(path) and (is_tar(head, path) or head.startswith(ZIP)):
            return True
        return looks_like_text(next(as_text(head, chunks), b"")[:8192])
