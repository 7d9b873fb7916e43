"""Launcher labels: what mpirun, srun, torchrun, pdsh, kubectl, Ray and others put before a line.

A label is evidence of a task number or a host, never more. What is not known here is no label: a progress bar, a quote
mark, the torn end of another line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Label:
    """task: number or name of the task that the launcher names. host: a host or pod that the launcher names."""

    task: str | None = None
    host: str | None = None


_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*"

# (what the label looks like at the end of the text before the record, group that names the task, group for the host)
_LABELS = [
    re.compile(r"\[(?:prterun-[^\]@]+@)?\d+,(?P<task>\d+)\]<std(?:out|err)>: ?$"),  # Open MPI --tag-output, PRRTE
    re.compile(r"\[[^\[\]\s]+@\d+,(?P<task>\d+)\]<std(?:out|err)>: ?$"),
    re.compile(r"\[(?P<task>\d+)\]<std(?:out|err)>: ?$"),  # Horovod
    re.compile(r"\[(?:default|rank)(?P<task>\d+)\]: ?$"),  # torchrun --tee, PyTorch
    re.compile(r"(?:^|\s)\[(?P<task>\d+)\] $"),  # Hydra -l
    re.compile(r"(?:^|\s)(?P<task>\d{1,7}): $"),  # srun -l
    re.compile(rf"\((?P<task>\w+ pid=\d+), ip=(?P<host>{_HOST})\)(?:\x1b\[0m)? $"),  # Ray
    re.compile(r"\((?P<task>(?:\w+ )?pid=\d+)\)(?:\x1b\[0m)? $"),  # Ray, vLLM
    re.compile(rf"\[pod/(?P<host>{_HOST})/{_HOST}\] $"),  # kubectl logs --prefix
    re.compile(rf"(?:^|\s)(?P<host>{_HOST}): $"),  # pdsh, pssh, DeepSpeed
]


@lru_cache(maxsize=100_000)
def parse_label(text: str) -> Label:
    """The label at the end of the text that stands before a record."""
    for pattern in _LABELS:
        found = pattern.search(text)
        if found:
            groups = found.groupdict()
            return Label(groups.get("task"), groups.get("host"))
    return Label()
