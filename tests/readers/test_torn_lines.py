"""Lines of several writers, torn and joined in every way: what is read is what somebody wrote, a loss is counted."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from line_samples import SAMPLES, lines_of

from ncclcheck.readers.events import read_events
from ncclcheck.readers.projection import Projection
from ncclcheck.readers.records import parse_records

Said = tuple[str, str | None, dict[str, Any]]

HOSTS = ("orca", "lynx", "heron")
HEADS = [f"{host}:{70 + index}:{170 + index} [{index}] NCCL INFO " for index, host in enumerate(HOSTS)]
# Messages of INFO, whose text does not hold another record.
MESSAGES = sorted({s.message for s in SAMPLES if " NCCL INFO " in s.line and "NCCL " not in s.message})
# What everybody prints whole, in many threads: it makes the hosts known, and heads the rule.
AROUND = ["NCCL version 2.22.3+cuda12.4"]
AROUND += [head.replace(":17", f":{tid}7") + "Connected all rings" for tid in range(1, 10) for head in HEADS]
KNOWS = Projection()._knows


def tear(lines: list[str], kind: str, first: int, second: int, far: int) -> list[str]:
    """Three records as several writers leave them in a file."""
    a, b, c = lines
    start, end = a[:first], a[first:]
    return {
        "joined": [a + b, c],
        "all joined": [a + b + c],
        "end below": [start + b, *[c] * far, end, *[c] * (far == 0)],
        "end lost": [start + b, c],
        "end behind": [start + b + end, c],
        "two torn": [start + b[:second] + c, end, b[second:]],
        "start lost": [end, b, c],
    }[kind]


KINDS = ["joined", "all joined", "end below", "end lost", "end behind", "two torn", "start lost"]


def hides_its_cut(line: str, at: int) -> bool:
    """Is the beginning a record of closed form too: half a number, fewer members of a list?"""
    start = line[:at].partition(" NCCL INFO ")[2].rstrip()
    return KNOWS(start) and not KNOWS(f"{start}~")


@st.composite
def torn(draw: st.DrawFn) -> tuple[list[str], list[str], str]:
    lines = [head + draw(st.sampled_from(MESSAGES)) for head in draw(st.permutations(HEADS))]
    first, second = (draw(st.integers(1, len(line) - 1).filter(lambda at, line=line: not hides_its_cut(line, at)))
                     for line in lines[:2])  # fmt: skip
    kind = draw(st.sampled_from(KINDS))
    return lines, tear(lines, kind, first, second, draw(st.integers(0, 2))), kind


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(texts=torn())
def test_torn_lines_say_what_somebody_wrote_or_nothing(texts: tuple[list[str], list[str], str]) -> None:
    lines, torn_lines, kind = texts
    source = lines_of(*AROUND, *torn_lines)
    originals = [wrote(line) for line in lines]
    read = [said(record) for record in parse_records(source) if record["line"] > len(AROUND)]
    events = [one for one in read if one[0] in HOSTS and one[1] is not None]
    assert [one for one in events if one not in originals] == []
    # a text that stands alone without its head is nobody's record
    lost = [one for one in originals if one not in events]
    if lost and kind not in ("start lost", "end lost"):
        damaged = read_events([source]).damage.get_column("_line").to_list()
        assert max(damaged) > len(AROUND)


@cache
def wrote(line: str) -> Said:
    *_, record = parse_records(lines_of(*AROUND, line))
    return said(record)


def said(record: dict[str, Any]) -> Said:
    return record["host"], record["event"], record["fields"]
