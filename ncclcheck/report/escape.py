r"""Text of strangers, made safe to print.

Logs, file names and host names may hold control codes that move the cursor, characters that reorder or hide what is
read, and the commands that CI runners obey (`::error ...` at the start of a line, `##vso[...]` anywhere in it).
Colour codes are dropped, for logs are full of them; everything else stays visible as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import re

_COLOUR_CODES = re.compile(r"\x1b\[[0-9;:]*m")

_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    r"\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible or reordering
    r"\ue000-\uf8ff\ud800-\udfff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"  # private use, surrogates, tags
    r"|(?<!\S)::"  # a line could be broken before it
    r"|\#\#(?=(?:vso|teamcity)?\[)"
)

_LINE_COMMAND = re.compile(r"^((?:\s|\x1b\[[0-9;]*m)*)::", re.MULTILINE)


def clean(text: str) -> str:
    """One line, printable, obeyed by nobody."""
    if text.isascii() and text.isprintable() and "::" not in text and "##" not in text:
        return text
    return _UNSAFE.sub(_escaped, _COLOUR_CODES.sub("", text.replace("\t", " ")))


def without_line_commands(text: str) -> str:
    """A finished text none of whose lines begins with a workflow command, wherever it was wrapped."""
    return _LINE_COMMAND.sub(r"\1\\x3a:", text)


def json_without_commands(text: str) -> str:
    r"""The same JSON value without a literal `##[`: it stands only inside strings, where `\u0023` means `#`."""
    return re.sub(r"##(?=(?:vso|teamcity)?\[)", r"\\u0023#", text)


def _escaped(match: re.Match[str]) -> str:
    first, rest = match[0][0], match[0][1:]
    number = ord(first)
    if number > 0xFFFF:
        return f"\\U{number:08x}{rest}"
    return (f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}") + rest
