"""Reads NCCL's topology files and graph files (XML) out of a text.

A file may stand anywhere: alone, in a log, behind a launcher's label, cut at either end, over several blocks of an
input. This module decides which lines belong to a document; `XmlLines` reads them. What comes before an error or a cut
is kept and marked as incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ncclcheck.readers.xml_lines import XmlLines

_ROOTS = {"system": "topo-xml", "graphs": "graph-xml"}
# Pasted pieces begin below the root; an attribute that only NCCL writes tells them from other XML.
_PIECES = {"cpu": "topo-xml", "pci": "topo-xml", "gpu": "topo-xml", "graph": "graph-xml"}
_START = re.compile(
    r"<(?:(system|graphs)(?=[\s>]|$)|(cpu)\s[^<>]*\b(?:numaid|affinity|arch)=|(pci)\s[^<>]*\bbusid="
    r"|(gpu)\s[^<>]*\b(?:dev|sm)=|(graph)\s[^<>]*\bpattern=)"
)

# Largest documents known: 72 GPUs of one NVLink domain, some thousand elements. Twenty times that is no topology.
_MOST_NODES = 50_000
_LONGEST_VALUE = 4096
# Lines of other text that may stand between two lines of one document.
_PATIENCE = 200

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?\s+(?:std(?:out|err) [FP] )?")
_RECORD = re.compile(r"NCCL (?:INFO|WARN|TRACE|ABORT) ")


@dataclass(frozen=True, slots=True)
class Node:
    """An element. parent: place of its parent in the document, None for a root. whole: its end was read too."""

    line: int
    tag: str
    parent: int | None
    attributes: Mapping[str, str]
    whole: bool


@dataclass(frozen=True, slots=True)
class Document:
    """One file. kind: "topo-xml" or "graph-xml". complete: root, end and all between were read.

    rccl: made by AMD's library, whose files look alike and mean other things.
    """

    kind: str
    line: int
    nodes: tuple[Node, ...]
    complete: bool
    rccl: bool


@dataclass
class XmlReader:
    """Takes the lines of one input in order; a document may begin in one call and end in a later one."""

    _open: dict[str, _Open] = field(default_factory=dict)  # by what stands before the tags: a label of a launcher
    _done: list[Document] = field(default_factory=list)

    @property
    def is_waiting(self) -> bool:
        """A document has begun and has not ended."""
        return bool(self._open)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in lines:
            if self._open or "<" in text:
                self._read(number, text)

    def finish(self) -> list[Document]:
        """The input ends: all documents, in order."""
        for label in list(self._open):
            self._close(label)
        return sorted(self._done, key=lambda document: document.line)

    def _read(self, number: int, text: str) -> None:
        text = _ANSI.sub("", text) if "\x1b" in text else text
        text = text.lstrip(" \t>")
        stamp = _STAMP.match(text)
        text = text[stamp.end() :] if stamp else text
        start = _START.search(text)
        if start and not _RECORD.search(text, 0, start.start()):
            label, tag = text[: start.start()].strip(), start[start.lastindex or 0]
            current = self._open.get(label)
            if current is None or tag in _ROOTS:
                self._close(label)
                self._open[label] = _Open(tag, number)
                text = text[start.start() :]
                self._feed(label, number, text)
                return
        for label in sorted(self._open, key=len, reverse=True):
            if text.startswith(label):
                self._feed(label, number, text[len(label) :])
                return
        self._wait()

    def _feed(self, label: str, number: int, text: str) -> None:
        document = self._open[label]
        if ("<" in text or ">" in text or '="' in text) and not _RECORD.search(text):
            document.silence = 0
            document.read(number, text)
            if document.ended:
                self._close(label)
        elif text.strip():
            self._wait()

    def _wait(self) -> None:
        for label, document in list(self._open.items()):
            document.silence += 1
            if document.silence > _PATIENCE:
                self._close(label)

    def _close(self, label: str) -> None:
        document = self._open.pop(label, None)
        if document is not None and document.nodes:
            self._done.append(document.result())


class _Open:
    """A document that is being read."""

    def __init__(self, root: str, line: int) -> None:
        self.kind = _ROOTS.get(root) or _PIECES[root]
        self.line = line
        self.silence = 0
        self.ended = False
        self.nodes: list[tuple[int, str, int | None, dict[str, str]]] = []
        self._root = root
        self._whole: set[int] = set()
        self._path: list[int] = []
        self._xml = XmlLines(_MOST_NODES, self._begin, self._end)

    def read(self, number: int, text: str) -> None:
        self._xml.feed(number, text)
        if self._xml.broken:
            # the line that closes the root may be the one that does not fit; what follows it is no longer ours
            self.ended = self.ended or f"</{self._root}>" in text

    def _begin(self, line: int, tag: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1] if self._path else None
        self._path.append(len(self.nodes))
        kept = {name: value.strip() for name, value in attributes.items() if len(value) <= _LONGEST_VALUE}
        self.nodes.append((line, tag, parent, kept))

    def _end(self, tag: str, text: str) -> None:
        if self._path:
            self._whole.add(self._path.pop())
            self.ended = not self._path and tag in _ROOTS

    def result(self) -> Document:
        nodes = tuple(Node(*node, whole=place in self._whole) for place, node in enumerate(self.nodes))
        root = nodes[0]
        rccl = root.attributes.get("version") == "2" or any(
            node.tag == "xgmi" or "gcn" in node.attributes for node in nodes
        )
        complete = self.ended and not self._xml.broken and root.tag in _ROOTS
        return Document(self.kind, self.line, nodes, complete, rccl)
