"""What tells an archive from other files, and what lies in one.

Nothing is written under a member's name and no link is followed: a name is only printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second: one that holds nothing
_TAR, _TAR_PLACE = b"ustar", 257
_TAR_BLOCK = 512

_SUFFIXES = {".tar", ".tgz", ".tzst", ".zip"}
_COMPRESSED = {".gz", ".zst"}


class Member(NamedTuple):
    """name: as the archive spells it. chunks: its bytes, to be read before the next member; None: no regular file.

    A failure while they are read ends the member; the archive may go on.
    """

    name: str
    chunks: Iterator[bytes] | None


def is_tar(head: bytes, name: str = "") -> bool:
    """By the first bytes, decompressed. A tar of nothing is all NULs, as a log that lost its beginning may be."""
    if head.startswith(_TAR, _TAR_PLACE):
        return True
    return len(head) >= _TAR_BLOCK and not any(head) and is_called_archive(name)


def is_called_archive(name: str) -> bool:
    """By the name: `run.tar.zst`."""
    path = PurePath(name.lower())
    return path.suffix in _SUFFIXES or (path.suffix in _COMPRESSED and PurePath(path.stem).suffix == ".tar")
