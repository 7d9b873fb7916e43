"""The one exception of this package that callers see as text."""

from __future__ import annotations

import errno


class UnreadableInputError(Exception):
    """An input that ends before its data does, or that is no text at all; the message is for the user."""


class NotTextError(UnreadableInputError):
    """An archive or another container that we do not open."""


class NoRoomError(UnreadableInputError):
    """The temporary directory takes no more."""


def reason(error: OSError | UnreadableInputError) -> str:
    """The cause in plain words, without the path: the caller prints that beside it."""
    if isinstance(error, UnreadableInputError):
        return str(error)
    if error.errno == errno.ENOENT:
        return "no such file"
    return (error.strerror or type(error).__name__).lower()
