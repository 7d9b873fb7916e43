"""Launcher labels: what mpirun, srun, torchrun, pdsh, kubectl, Ray and others put before a line.

A label is evidence of a task number or a host, never more. What is not known here is no label: a progress bar, a quote
mark, the torn end of another line. Several may stand in a row; the nearest to the record counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Label(NamedTuple):
    """task: number or name of the task that the launcher names. host: a host or pod that the launcher names."""

    task: str | None = None
    host: str | None = None


_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*"

# What a label looks like at the end of the text before the record, with a group for the task or the host.
_LABELS = [
    re.compile(r"\[(?:prterun-[^\]@]+@)?\d+,(?P<task>\d+)\]<std(?:out|err)>: ?$"),  # Open MPI --tag-output, PRRTE
    re.compile(r"\[[^\[\]\s]+@\d+,(?P<task>\d+)\]<std(?:out|err)>: ?$"),
    re.compile(r"\[(?P<task>\d+)\]<std(?:out|err)>: ?$"),  # Horovod
    re.compile(r"\[(?:default|rank)(?P<task>\d+)\]: ?$"),  # torchrun --tee, PyTorch
    re.compile(r"\((?P<task>(?:[^()=\s]{1,64} )?pid=\d+)(?:, ip=(?P<host>[A-Za-z0-9._-]+))?\) $"),  # Ray, vLLM
    re.compile(r"(?:^|[\s\[])(?P<task>(?:[TDPE]P\d{1,5} ?){1,6})\] $"),  # SGLang, behind the time
    re.compile(rf"\[pod/(?P<host>{_HOST})/{_HOST}\] $"),  # kubectl logs --prefix
]
# Words and numbers of everyday: labels only where nothing but labels stands before them.
_AT_START = [
    re.compile(r"(?<![^\s:])\[(?P<task>\d+)\] $"),  # Hydra -l
    re.compile(r"(?<![^\s:])(?P<task>\d{1,7}): $"),  # srun -l
    re.compile(rf"(?<![^\s:])(?P<host>{_HOST}): $"),  # pdsh, pssh, DeepSpeed
    re.compile(rf"(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d )?(?<!\S)(?P<host>{_HOST}) [\w./-]+\[\d+\]: $"),  # syslog
]
# More in a row are no launcher's work.
_MOST_LABELS = 8
_QUOTES = " \t\r>|│`'\""
# Loggers and programs put such words before a colon. A machine's name has a digit, a dot or a dash.
_NO_HOST = re.compile(
    r"(?i)(?:info|warn|warning|error|debug|critical|fatal|trace|notice|root|main|std(?:out|err|in)"
    r"|(?:local[_-]?|global[_-]?)?rank|gpu|cuda|device|step|epoch|iter(?:ation)?|batch|pid|line)[\d._-]*"
    r"|[a-z]*|\d+\.\d+"
)


@lru_cache(maxsize=100_000)
def parse_label(text: str) -> Label:
    """The labels at the end of the text that stands before a record."""
    sure, perhaps = Label(), Label()
    for _ in range(_MOST_LABELS):
        found = _last_label(text)
        if found is None:
            break
        label = _label(found)
        perhaps = _nearest(perhaps, label)
        if found.re in _LABELS:
            sure = _nearest(sure, label)
        text = text[: found.start()]
    return sure if text.strip(_QUOTES) else perhaps


def is_word(name: str) -> bool:
    """A word, a number, a part of a program: no name of a machine."""
    return _NO_HOST.fullmatch(name) is not None


def _last_label(text: str) -> re.Match[str] | None:
    for pattern in (*_LABELS, *_AT_START):
        found = pattern.search(text)
        if found:
            return found
    return None


def _label(found: re.Match[str]) -> Label:
    groups = found.groupdict()
    host = groups.get("host")
    if found.re in _AT_START and host and is_word(host):
        host = None
    return Label(groups.get("task"), host)


def _nearest(label: Label, farther: Label) -> Label:
    return Label(label.task or farther.task, label.host or farther.host)
