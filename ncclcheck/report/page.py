"""Wrapped lines with hanging indents, on rich's `Text`: text is never read as markup."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from ncclcheck.report.escape import clean, without_line_commands

Part = str | tuple[str, str]
"""Text, or text with a style. Either is cleaned."""


class Page:
    """Collects lines that fit a width."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = max(width, 40)
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=self.width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            force_jupyter=False,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def line(self, *parts: Part, indent: int = 0, hang: int = 0, at_most: int | None = None) -> None:
        """A paragraph: its first line `indent` deep, the others `hang` deeper, cut after `at_most` lines."""
        text = Text()
        for part in parts:
            words, style = part if isinstance(part, tuple) else (part, "")
            text.append(clean(words), style)
        self._write(text, indent, hang, at_most)

    def labelled(self, label: str, *parts: Part, indent: int = 2, width: int = 7) -> None:
        """A paragraph beside its label."""
        self.line((label.ljust(width), "dim"), *parts, indent=indent, hang=width)

    def gap(self) -> None:
        """An empty line."""
        self._file.write("\n")

    def verbatim(self, text: str) -> None:
        """Lines of our own making (a plot), neither wrapped nor cleaned."""
        self._file.write(f"{text}\n")

    def text(self) -> str:
        return without_line_commands(self._file.getvalue())

    def _write(self, text: Text, indent: int, hang: int, at_most: int | None) -> None:
        # rich wraps to one width; the first line has `hang` columns more, so its first `hang` characters stand aside.
        aside = hang if hang < len(text) else 0
        wrapped = text[aside:].wrap(self._console, self.width - indent - hang, overflow="fold", tab_size=1)
        rows = [Text.assemble(" " * indent, text[: aside + len(wrapped[0])])]
        rows += [Text.assemble(" " * (indent + hang), line) for line in wrapped[1:]]
        if at_most is not None and len(rows) > at_most:
            rows = rows[:at_most]
            _shorten(rows[-1], self.width - 4)
            rows[-1].append(" ...")
        for row in rows:
            row.rstrip()
            self._console.print(row, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def _shorten(row: Text, width: int) -> None:
    """To that width, at the end of a word if there is one in the last half."""
    whole = row.plain
    row.truncate(width)
    kept = len(row.plain)
    end = row.plain.rfind(" ")
    if whole[kept : kept + 1].strip() and end > width // 2:
        row.right_crop(kept - end)
