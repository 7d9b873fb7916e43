"""The text members of an archive as sources of their own.

An archive is decompressed once, while the inputs are listed, and its text is kept in the spool: reading and quoting a
member is then reading a piece of a file, whatever the order. What is no text is passed over and takes no room.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from typing import NamedTuple

from ncclcheck.inputs.archives import Member, is_called_archive
from ncclcheck.inputs.decode import decode, is_called_text, looks_like_text
from ncclcheck.inputs.errors import NoRoomError, NotTextError, UnreadableInputError, reason
from ncclcheck.inputs.meter import Meter
from ncclcheck.inputs.source import Source, failed_source, printable
from ncclcheck.inputs.spool import Piece, Spool

MOST_MEMBERS = 200_000
"""Text files of one archive: empty ones take no room in it, but some here."""


_LONGEST_NAME = 1000


class Unpacked(NamedTuple):
    """skipped: members left out (hidden, binary, no regular file)."""

    sources: list[Source]
    skipped: int


def unpack(archive: str, argument: str, members: Iterator[Member], spool: Spool, meter: Meter) -> Unpacked:
    """Sources named `archive/member`, in the archive's order; one of the archive's own says what went wrong with it."""
    sources: list[Source] = []
    taken: dict[str, int] = {}
    skipped = 0
    trouble: OSError | UnreadableInputError | None = None
    try:
        for member in members:
            if len(sources) == MOST_MEMBERS:
                raise UnreadableInputError(f"holds over {MOST_MEMBERS:,} text files; the rest was not read")
            try:
                text = None if _is_hidden(member.name) else _text(member)
            except NotTextError:
                if is_called_archive(member.name):
                    name = _name(archive, member.name, taken)
                    sources.append(failed_source(name, argument, "an archive inside an archive: unpack it first"))
                    continue
                text = None
            except (OSError, UnreadableInputError) as error:
                trouble = trouble or error
                continue
            if text is None:
                skipped += 1
                continue
            piece, size, failure = _keep(text, spool)
            name = _name(archive, member.name, taken)
            sources.append(Source(name, printable(argument), partial(_open, spool, piece, meter), size=size))
            trouble = trouble or failure
            if isinstance(failure, NoRoomError):
                break
    except (OSError, UnreadableInputError) as error:
        trouble = trouble or error
    if trouble:
        sources.append(failed_source(archive, argument, reason(trouble)))
    elif not sources:
        sources.append(failed_source(archive, argument, "an archive that holds no readable text files"))
    return Unpacked(sources, skipped)


def _name(archive: str, member: str, taken: dict[str, int]) -> str:
    """`archive/member`; of several with that name the second is `archive/member (2)`."""
    while member.startswith("./"):
        member = member[2:].lstrip("/")
    if len(member) > _LONGEST_NAME:
        member = f"...{member[-_LONGEST_NAME:]}"
    name = whole = printable(f"{archive}/{member}")
    while name in taken:
        taken[whole] += 1
        name = f"{whole} ({taken[whole]})"
    taken[name] = 1
    return name


def _is_hidden(member: str) -> bool:
    return any(part.startswith(".") and part not in {".", ".."} for part in member.split("/"))


def _open(spool: Spool, piece: Piece, meter: Meter) -> AbstractContextManager[Iterator[bytes]]:
    return nullcontext(decode(meter.count(spool.read(piece))))


def _text(member: Member) -> Iterator[bytes] | None:
    """The member's bytes, if they are text or compressed text. NotTextError: it is another container."""
    if member.chunks is None:
        return None
    head = next(member.chunks, b"")
    is_text = is_called_text(member.name) or looks_like_text(next(decode(iter([head])), b"")[:8192])
    return chain([head], member.chunks) if is_text else None


def _keep(chunks: Iterator[bytes], spool: Spool) -> tuple[Piece, int, OSError | UnreadableInputError | None]:
    """Where they are now, how many bytes they are, and what ended them too early."""
    start = spool.end
    size = 0
    failure: OSError | UnreadableInputError | None = None
    try:
        for chunk in chunks:
            spool.write(chunk)
            size += len(chunk)
    except (OSError, UnreadableInputError) as error:
        failure = error
    return Piece(start, spool.end), size, failure
