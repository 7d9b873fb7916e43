"""The releases that an input can be of, told by the form of its lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from line_samples import Source, lines_of

from ncclcheck.readers import release, windows
from ncclcheck.readers.events import Events, read_events

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from loggen import RELEASES, Shape, lines

CASES = Path(__file__).parents[2].parent / "shared" / "cases"

WITH_INDEX = "Channel 00/0 : 3[3] -> 4[4] via P2P/IPC"  # from 2.13.4 on
FAR_NEWER = "Bootstrap: Using eth0:10.2.3.4<0>"  # from 2.24.3 on
OLD = "nranks 16"  # until 2.4.8


def of_host(host: str, *texts: str) -> Source:
    return lines_of(*(f"{host}:7:7 [0] NCCL INFO {text}" for text in texts))


def ends(events: Events) -> list[tuple[int | None, ...]]:
    rows = events.processes.unique("proc", maintain_order=True).sort("proc")
    return list(rows.select("release", "release_low", "release_high").iter_rows())


@pytest.mark.parametrize(
    ("texts", "window"),
    [
        ((FAR_NEWER,), (22403, None)),
        ((OLD,), (None, 20408)),
        ((FAR_NEWER, OLD), (None, None)),  # no release prints both: a vendor's build, or two in one file
        (("hm",), (None, None)),
        ((FAR_NEWER, "hm"), (22403, None)),
        ((FAR_NEWER, "Allocator 12 of \ue000 is odd"), (22403, None)),
    ],
)
def test_what_prints_all_forms_is_left(texts: tuple[str, ...], window: tuple[int | None, int | None]) -> None:
    assert ends(read_events([of_host("n1", *texts)])) == [(None, *window)]


def test_a_line_that_names_the_release_says_more_than_forms() -> None:
    events = read_events([lines_of("NCCL version 2.18.3+cuda12.2", f"n1:7:7 [0] NCCL INFO {FAR_NEWER}")])
    assert set(ends(events)) == {(21803, 21803, 21803)}


def test_each_input_has_forms_of_its_own() -> None:
    events = read_events([of_host("n1", FAR_NEWER), of_host("n2", OLD), Source(b"step 1\n")])
    assert ends(events) == [(None, 22403, None), (None, None, 20408)]


def test_damaged_lines_and_warnings_tell_no_release() -> None:
    cut = f"n1:7:7 [0] NCCL INFO {OLD}"
    torn = f"n1:7:7 [0] NCCL INFO {OLD}n2:7:7 [0] NCCL INFO Connected all rings"
    warning = f"n1:7:7 [0] init.cc:9 NCCL WARN {FAR_NEWER}"
    assert set(ends(read_events([lines_of(warning, torn)]))) <= {(None, None, None)}
    assert ends(read_events([lines_of(cut)])) == [(None, None, 20408)]


def test_a_bracket_means_what_it_means_in_every_release_that_is_left() -> None:
    channel = "Channel 00/0 : 3[3] -> 4[4] via P2P/IPC"
    newer = read_events([of_host("n1", channel, FAR_NEWER)]).typed("channel_connect")
    assert newer is not None
    assert newer.select("src_dev", "src_bus_id").rows() == [(3, None)]
    wide = read_events([of_host("n1", channel.replace("[3]", "[b7000]"), FAR_NEWER)]).typed("channel_connect")
    assert wide is not None
    assert wide.get_column("src_bus_id").to_list() == ["0xb7000"]


@pytest.mark.parametrize("name", RELEASES)
def test_the_window_of_a_healthy_log_holds_its_release(name: str) -> None:
    text = "".join(f"{line}\n" for line in lines(Shape(release=name, machines=2, verbose=release.code(name) >= 21207)))
    assert _holds(text.encode(), release.code(name))


@pytest.mark.skipif(not CASES.is_dir(), reason="no collection of logs beside the repository")
def test_the_window_of_a_real_log_holds_the_release_that_it_prints() -> None:
    told = 0
    for path in sorted(CASES.glob("*/input.log")):
        block = path.read_bytes()
        events = read_events([Source(block)])
        releases = events.processes.get_column("release").drop_nulls().unique().to_list()
        if len(releases) == 1:
            told += 1
            assert _holds(block, releases[0]), path
    assert told >= 20


def _holds(block: bytes, code: int) -> bool:
    low, high = windows.window(read_events([Source(block)]).shapes[0])
    return (low or 0) <= code <= (high or 99999)
