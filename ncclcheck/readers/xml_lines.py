"""XML of unknown origin, line by line, through expat.

A document is read inside an element of our own, so that fragments without a root are well-formed and nothing can be
declared: there are no entities to expand and no file to fetch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.parsers import expat

_DEEPEST = 40
_MOST_CHARACTERS = 16 << 20
_LONGEST_TEXT = 4096
# Writers take any comment; XML forbids two dashes inside.
_COMMENT = re.compile(r"<!--.*?-->")


class XmlLines:
    """Feeds lines to expat.

    begin: called with the line of an element, its tag and its attributes. end: with its tag and the text that stands
    behind its last child. broken: a line did not fit, or there was too much; later lines are not read.
    """

    def __init__(
        self,
        most_elements: int,
        begin: Callable[[int, str, dict[str, str]], None],
        end: Callable[[str, str], None],
    ) -> None:
        self.broken = False
        self._begin, self._end = begin, end
        self._left = most_elements
        self._characters = _MOST_CHARACTERS
        self._depth = 0
        self._text = ""
        self._numbers: list[int] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begun
        self._parser.EndElementHandler = self._ended
        self._parser.CharacterDataHandler = self._read_text
        self._parser.Parse("<document>\n")

    def feed(self, number: int, text: str) -> None:
        """Take a line. What came before an error is kept."""
        self._characters -= len(text)
        if self.broken or self._characters < 0:
            self.broken = True
            return
        self._numbers.append(number)
        text = _COMMENT.sub("", text) if "<!--" in text else text
        try:
            self._parser.Parse(text + "\n")
        except (expat.ExpatError, _TooLargeError, UnicodeError):
            self.broken = True

    def _begun(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._numbers:
            return  # our own element
        self._left -= 1
        self._depth += 1
        if self._left < 0 or self._depth > _DEEPEST:
            raise _TooLargeError
        self._text = ""
        line = self._numbers[min(self._parser.CurrentLineNumber - 2, len(self._numbers) - 1)]
        self._begin(line, tag, attributes)

    def _ended(self, tag: str) -> None:
        if self._depth:
            self._depth -= 1
            self._end(tag, self._text.strip())
            self._text = ""

    def _read_text(self, text: str) -> None:
        if len(self._text) < _LONGEST_TEXT:
            self._text += text


class _TooLargeError(Exception):
    """More elements or deeper ones than any machine has."""
