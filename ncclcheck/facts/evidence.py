"""Where a fact came from: a line of an input."""

from typing import NamedTuple


class Evidence(NamedTuple):
    """One line of an input that proves something.

    path: the input's name as the user gave it. line: 1-based number in that input.
    text: the line as written, without its line ending (at most 400 characters).
    """

    path: str
    line: int
    text: str
