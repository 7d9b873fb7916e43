"""Metrics in the text format of Prometheus: a name, labels, a number."""

from __future__ import annotations

import re
from math import isfinite
from typing import NamedTuple

from ncclcheck.readers.telemetry.reader import Fields, LineReader

_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"', re.ASCII)
_NUMBER = re.compile(r"[+-]?\d[\d.eE+-]{0,40}", re.ASCII)


class Sample(NamedTuple):
    """value: None where the exporter printed none (`ERROR - ...`, NaN)."""

    line: int
    metric: str
    labels: dict[str, str]
    value: float | None


class MetricsReader(LineReader):
    """Takes lines of metrics whose name begins with `prefix`."""

    grammar = "prometheus"
    prefix: str

    def take(self, sample: Sample) -> bool:
        """False: it is none of this output."""
        raise NotImplementedError

    def take_sample(self, line: int, fields: Fields) -> bool:
        if not fields["metric"].startswith(self.prefix):
            return False
        labels = dict(_LABEL.findall(fields.get("labels", "")))
        return self.take(Sample(line, fields["metric"], labels, _number(fields["value"])))

    def take_comment(self, line: int, fields: Fields) -> bool:
        return self.prefix in fields.get("text", "")


def _number(text: str) -> float | None:
    """The number that begins the text; a time stamp may follow."""
    first, _, rest = text.strip().partition(" ")
    if not _NUMBER.fullmatch(first) or (rest and not rest.isdecimal()):
        return None
    try:
        value = float(first)
    except ValueError:
        return None
    return value if isfinite(value) else None
