r"""Text of strangers, made safe to print.

Logs, file names and host names may hold control codes that move the cursor, characters that reorder or hide what is
read, and the commands that CI runners obey (`::error ...` at the start of a line, `##vso[...]` anywhere in it).
Colour codes are dropped, for logs are full of them; everything else stays visible as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import re
import unicodedata

_COLOUR_CODES = re.compile(r"\x1b\[[0-9;:]*m")

_COMMANDS = re.compile(r"(?<!\S)::|##(?=(?:vso|teamcity)?\[)")
"""`::` behind a space counts too: a line could be broken there."""

_LINE_COMMAND = re.compile(r"^((?:\s|\x1b\[[0-9;]*m)*)::", re.MULTILINE)


def clean(text: str) -> str:
    """One line, printable, obeyed by nobody."""
    if not text.isprintable():
        text = "".join(map(_visible, _COLOUR_CODES.sub("", text)))
    return _COMMANDS.sub(lambda match: f"\\x{ord(match[0][0]):02x}{match[0][1:]}", text)


def without_line_commands(text: str) -> str:
    """A finished text none of whose lines begins with a workflow command, wherever it was wrapped."""
    return _LINE_COMMAND.sub(r"\1\\x3a:", text)


def json_without_commands(text: str) -> str:
    r"""The same JSON value without a literal `##[`: it stands only inside strings, where `\u0023` means `#`."""
    return re.sub(r"##(?=(?:vso|teamcity)?\[)", r"\\u0023#", text)


def _visible(character: str) -> str:
    """Itself, a space, or its escape. Python calls printable what neither hides, moves nor reorders anything."""
    if character.isprintable():
        return character
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
