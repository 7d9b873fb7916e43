"""From command-line arguments to sources.

An argument is a file, a pipe, a directory (walked, in sorted order), `-`, or a glob that the shell did not expand
(because it was quoted, or matched nothing there). A file named twice is read once: its facts would count twice.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from ncclcheck.inputs.decode import looks_like_text
from ncclcheck.inputs.errors import NotTextError, UnreadableInputError, reason
from ncclcheck.inputs.source import STDIN, Source, failed_source, file_source, head_of, stdin_source

_TEXT_SUFFIXES = {".log", ".txt", ".out", ".err", ".xml"}
"""Read from a directory without a look inside: a log truncated while its writer ran begins with megabytes of NULs."""


class Expansion(NamedTuple):
    """sources: in the order given. skipped: members of directories left out (hidden, binary, no regular file)."""

    sources: tuple[Source, ...]
    skipped: int


def expand(arguments: Iterable[str]) -> Expansion:
    """All sources that the arguments name; one that names none becomes a source with an error."""
    sources: list[Source] = []
    skipped = 0
    seen: set[tuple[int, int]] = set()
    stdin_taken = False
    for argument in arguments:
        if argument == STDIN:
            if not stdin_taken:
                sources.append(stdin_source())
            stdin_taken = True
            continue
        for path in _matches(argument):
            if not os.path.isdir(path):  # noqa: PTH112 - a name too long is no directory, Path would raise
                if not _is_repeated(path, seen):
                    sources.append(file_source(path, argument))
                continue
            found = False
            for member in _walk(path):
                if isinstance(member, _Unreadable):
                    sources.append(failed_source(member.path, argument, member.why))
                    found = True
                elif isinstance(member, _Skipped):
                    skipped += 1
                else:
                    found = True
                    if not _is_repeated(member, seen):
                        sources.append(file_source(member, argument))
            if not found:
                sources.append(failed_source(path, argument, "directory without readable text files"))
    return Expansion(tuple(sources), skipped)


class _Unreadable(NamedTuple):
    path: str
    why: str


class _Skipped(NamedTuple):
    path: str


def _matches(argument: str) -> list[str]:
    """A name that exists is that name, brackets and stars included; else it may be a glob."""
    if os.path.lexists(argument) or not glob.has_magic(argument):
        return [argument]
    return sorted(glob.glob(argument, recursive=True)) or [argument]  # noqa: PTH207 - keeps the user's spelling


def _is_repeated(path: str, seen: set[tuple[int, int]]) -> bool:
    try:
        status = Path(path).stat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode):
        return False  # each open of a pipe is a new stream
    key = (status.st_dev, status.st_ino)
    if key in seen:
        return True
    seen.add(key)
    return False


def _walk(top: str) -> Iterator[str | _Unreadable | _Skipped]:
    """Readable text files below `top`. Links to files are followed, links to directories are not: they may loop."""
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
        if PurePath(member.name).suffix.lower() in _TEXT_SUFFIXES or looks_like_text(head_of(member.path)):
            return member.path
    except NotTextError:
        return _Skipped(member.path)
    except (OSError, UnreadableInputError) as error:
        return _Unreadable(member.path, reason(error))
    return _Skipped(member.path)
