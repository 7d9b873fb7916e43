"""The members of a zip archive."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ncclcheck.inputs.archives import Member
from ncclcheck.inputs.errors import UnreadableInputError
from ncclcheck.inputs.meter import Meter

_PIECE = 1 << 20

# What zipfile raises on archives that are damaged or made to hurt.
_TROUBLE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, ArithmeticError)


def zip_members(file: BinaryIO, meter: Meter) -> Iterator[Member]:
    """All but the directories, in order. UnreadableInputError, OSError: no table of contents can be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    is_link = stat.S_ISLNK(info.external_attr >> 16)
                    yield Member(info.filename, None if is_link else meter.count(_unzip(archive, info)))
    except (NotImplementedError, *_TROUBLE):
        raise UnreadableInputError("damaged zip archive: its table of contents cannot be read") from None


def _unzip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    try:
        with archive.open(info) as file:
            while chunk := file.read(_PIECE):
                yield chunk
    except (NotImplementedError, RuntimeError):
        raise UnreadableInputError("zip archive with encrypted or oddly compressed members: unpack it first") from None
    except _TROUBLE:
        raise UnreadableInputError("damaged zip archive; what could be unpacked was read") from None
