"""What a job should get and what changes leave: before and after, the ladder, the curve, and what never happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclcheck.estimate.config import NotModelledError
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.questions.bandwidth import SIZES, Bandwidth, bandwidth
from ncclcheck.estimate.questions.changes import WITH, WITHOUT, apply, named
from ncclcheck.estimate.questions.job import (
    COLLECTIVES,
    Job,
    chosen,
    message_text,
    parse_message,
    parse_release,
    set_up,
)
from ncclcheck.estimate.questions.what_if import Point
from ncclcheck.estimate.ranges import Range
from ncclcheck.estimate.site import Site

MODEL = shipped_model()
PAIR = Job(2, 8, "H100", "ib", 8, 400.0)
EIGHT_GIB = 8 * 2**30

JOBS = st.builds(
    Job,
    nodes=st.sampled_from([1, 2, 3, 4, 16, 100]),
    gpus_per_node=st.sampled_from([1, 2, 4, 8]),
    gpu=st.sampled_from([None, *hardware().gpus]),
    network=st.sampled_from(["", "ib", "roce", "efa", "slingshot", "tcpx", "tcpxo", "socket"]),
    nics=st.sampled_from([None, 1, 4, 8]),
    nic_gbit=st.sampled_from([None, 10.0, 100.0, 400.0]),
    protocol=st.sampled_from(["", "simple", "ll", "ll128"]),
    release=st.sampled_from([None, (2, 16, 2), (2, 27, 3)]),
    collective=st.sampled_from(sorted(set(COLLECTIVES.values()))),
).filter(lambda job: job.nodes * job.gpus_per_node > 1)
LOSSES = [name for name, change in [*WITHOUT.items(), *WITH.items()] if change.loses]


def asked(job: Job, size: int = EIGHT_GIB, without: Sequence[str] = (), with_: Sequence[str] = ()) -> Bandwidth:
    return bandwidth(job, size, MODEL, named(without, with_))


def figure(result: Bandwidth, name: str) -> Range:
    return next(one.value for one in result.answer.figures if one.name == name)


def origins(result: Bandwidth) -> dict[str, tuple[str, str]]:
    return {row.name: (row.value, row.origin) for row in result.answer.givens}


def test_two_hgx_nodes() -> None:
    """Published runs of two such nodes show 440 to 490."""
    result = asked(PAIR)
    busbw = figure(result, "busbw")
    assert 440 < busbw.expected < 490
    assert busbw.low > 400 and busbw.high < 540
    assert figure(result, "algbw").expected == pytest.approx(busbw.expected / 1.875)
    assert figure(result, "time").expected == pytest.approx(EIGHT_GIB * 1.875 / (busbw.expected * 1e9))
    assert (result.before.limit, result.before.algorithm) == ("nvlstree", "nvlstree")


def test_what_is_told_has_its_flag_and_what_is_not_is_called_assumed() -> None:
    told = origins(asked(PAIR))
    assert told["NICs per node"] == ("8", "--nics")
    assert told["network"] == ("IB", "--transport")
    assert told["path between GPUs"] == ("nvlink", "hardware table")
    assert told["NVLS"] == told["GPUDirect RDMA"] == ("on", "assumed")
    assert "published nccl-tests runs" in told["NVLS of H100 SXM"][1]


def test_unknown_hardware_widens_and_is_listed() -> None:
    narrow, wide = asked(PAIR), asked(Job(2, 8, "H100"))
    assert wide.before.busbw.low < narrow.before.busbw.low / 2
    assert origins(wide)["NIC rate"] == ("100 Gb/s or 200 Gb/s or 400 Gb/s", "assumed")
    assert "--nics --nic-gbps would narrow the range" in wide.answer.remarks
    assert not any("narrow" in remark for remark in narrow.answer.remarks)


def test_the_old_release_has_no_nvls() -> None:
    old = asked(replace(PAIR, nodes=1, release=(2, 16, 0)))
    assert origins(old)["NVLS"] == ("off", "--nccl")
    assert old.before.algorithm == "ring"
    assert asked(replace(PAIR, nodes=1, release=(2, 17, 0))).before.algorithm == "nvls"


def test_cards_without_peer_access_reach_no_nic_either() -> None:
    result = asked(Job(2, 1, "RTX 4090", "roce", 1, 100.0))
    assert origins(result)["GPUDirect RDMA"] == ("off", "hardware table")
    assert result.before.limit == "bounce"


@pytest.mark.parametrize(
    ("without", "with_", "limit", "low", "high"),
    [
        (["gdr"], [], "bounce node", 4, 10),
        ([], ["acs"], "root complex", 2, 4),
        ([], ["sockets"], "tcp flow", 90, 250),
        (["rdma"], [], "tcp flow", 90, 250),
        (["nvlink"], [], "pcie", 8, 16),
        (["p2p"], [], "shm", 12, 30),
        (["pxn"], [], "nvlstree", 1, 1),
    ],
)
def test_one_change(without: list[str], with_: list[str], limit: str, low: float, high: float) -> None:
    result = asked(PAIR, without=without, with_=with_)
    assert result.after is not None and result.slowdown is not None
    assert limit in result.after.limit
    assert low <= result.slowdown.expected <= high
    assert result.before == asked(PAIR).before


def test_the_ladder_tells_which_change_binds() -> None:
    result = asked(PAIR, without=["gdr"], with_=["acs"])
    rungs = {rung.change.what: rung for rung in result.ladder}
    assert result.after is not None and result.after.limit == "bounce node"
    assert rungs["acs"].mended == result.after  # mending it alone helps nobody
    assert rungs["gdr"].mended.limit == "root complex"
    assert rungs["acs"].alone == rungs["gdr"].mended
    assert not asked(PAIR, with_=["acs"]).ladder


def test_another_algorithm_than_the_asked_one_is_said() -> None:
    assert not [remark for remark in asked(replace(PAIR, algorithm="tree")).answer.remarks if "tree" in remark]
    with_ll = asked(replace(PAIR, algorithm="tree", protocol="ll"))
    assert "the model has no number for tree here: it is that of ring" in with_ll.answer.remarks


def test_a_tuned_socket_is_no_loss() -> None:
    result = asked(replace(PAIR, network="socket"), with_=["tuned-sockets"])
    assert result.slowdown is not None and result.slowdown.expected < 1
    both = asked(PAIR, with_=["tuned-sockets", "sockets"])
    assert both.after is not None and both.after.limit == "tcp tuned"


def test_sockets_are_shown_beside_what_the_nics_could_do() -> None:
    result = asked(replace(PAIR, network="socket"))
    assert result.before.limit == "tcp flow" and result.beside is not None
    assert result.beside.before == asked(PAIR).before
    assert result.answer.details["what_if"]["after"]["limit"] == "tcp flow"
    assert asked(Job(2, 8, "H100", "socket")).beside is None


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 2), (2, 1), (2, 8), (1000, 8), (12_500, 8), (100_000, 1)])
def test_jobs_of_every_size(nodes: int, per_node: int) -> None:
    result = asked(Job(nodes, per_node, "H100", "ib", 8, 400.0))
    assert 5 < result.before.busbw.expected < 600


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(), "--nodes"),
        (Job(2, 8, "abacus"), "unknown GPU"),
        (Job(1, 1, "H100"), "nobody to talk to"),
        (Job(2, 8, "H100", nic_gbit=1e30), "the rate of a NIC"),
        (Job(1_000_000, 1000, "H100"), "10,000,000"),
        (Job(2, 8, "RTX 4090", "ib", 8, 400.0, intra="nvlink"), "no NVLink"),
        (Job(1, 8, "A100", algorithm="nvls"), "NVLS"),
        (replace(PAIR, algorithm="pat"), "no algorithm pat for all_reduce"),
        (replace(PAIR, algorithm="ring", collective="all_to_all"), "no algorithm ring for all_to_all"),
    ],
)
def test_no_number_is_better_than_a_wrong_one(job: Job, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        asked(job)


def test_names_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"'gdrr' is not known; known: gdr, nvls"):
        named(["gdr,gdrr"], [])
    assert [change.name for change in named(["GDR, nvls", "gdr"], ["acs"])] == [
        "without gdr",
        "without nvls",
        "with acs",
    ]
    with pytest.raises(ValueError, match="'all_reduced' is not known"):
        chosen("all_reduced", COLLECTIVES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("alltoall", "all_to_all"),
        ("All-To-All", "all_to_all"),
        ("send_recv", "sendrecv"),
        ("all_reduce_perf", "all_reduce"),
    ],
)
def test_collectives(text: str, name: str) -> None:
    assert chosen(text, COLLECTIVES) == name


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 2**33), ("8g", 2**33), ("8GB", 8 * 10**9), ("8GiB", 2**33), ("64K", 65536), ("1.5M", 1572864), ("8", 8)],
)
def test_message_sizes(text: str, size: int) -> None:
    assert parse_message(text) == size


@pytest.mark.parametrize("text", ["", "G", "0", "-1", "nan", "1e30", "8X", "8 GG", "99999T"])
def test_message_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="8 GiB"):
        parse_message(text)


@pytest.mark.parametrize(
    ("size", "text"), [(2**33, "8 GiB"), (8 * 10**9, "8 GB"), (65536, "64 KiB"), (100, "100 B"), (3 * 2**29, "1.5 GiB")]
)
def test_message_sizes_for_people(size: int, text: str) -> None:
    assert message_text(size) == text


def test_releases() -> None:
    assert parse_release("2.17") == (2, 17, 0)
    for text in ("", "2", "2.x", "2.17.1.1", "v2.17"):
        with pytest.raises(ValueError, match=r"2\.19\.3"):
            parse_release(text)


def ordered(point: Point) -> bool:
    return all(0 < one.low <= one.expected <= one.high < 1e12 for one in (point.seconds, point.algbw, point.busbw))


@settings(max_examples=60)
@given(JOBS)
def test_ranges_are_ordered_and_larger_messages_never_take_less_time(job: Job) -> None:
    result = asked(job)
    assert all(ordered(point) for point in result.curve)
    for smaller, larger in pairwise(result.curve):
        for short, long in zip(smaller.seconds, larger.seconds, strict=True):
            assert short <= long * (1 + 1e-9)
    assert [point.size for point in result.curve] == list(SIZES)


@settings(max_examples=60)
@given(JOBS, st.lists(st.sampled_from(LOSSES), min_size=1, max_size=3, unique=True))
def test_what_takes_away_never_makes_faster(job: Job, names: list[str]) -> None:
    result = asked(job, without=[n for n in names if n in WITHOUT], with_=[n for n in names if n in WITH])
    assert result.slowdown is not None
    assert 1 <= result.slowdown.low <= result.slowdown.expected <= result.slowdown.high
    for before, after in zip(result.curve, result.curve_after, strict=True):
        assert ordered(after)
        assert all(a <= b * (1 + 1e-9) for a, b in zip(after.busbw, before.busbw, strict=True))


def test_a_loss_gains_nothing_whatever_a_site_has_measured() -> None:
    quick = Site("s.toml", {"pcie.ring_shm.4": 0.9}).model()  # host memory quicker than the model's peer access
    result = bandwidth(Job(1, 4, "L40S", intra="pcie-cpu"), 2**33, quick, named(["p2p"], []))
    assert result.after is not None and result.after.busbw == result.before.busbw
    assert result.slowdown == (1, 1, 1)


def test_mending_makes_nothing_slower() -> None:
    job = Job(128, 4, "B300 SXM", "roce", 4, 10.0, algorithm="tree", protocol="ll128")
    result = asked(job, 2**30, without=["gdr"], with_=["nic-phb", "lacp-bond"])
    assert result.after is not None and len(result.ladder) == 3
    assert all(rung.mended.busbw.expected >= result.after.busbw.expected for rung in result.ladder)


def test_sockets_know_no_rdma() -> None:
    job = Job(4, 2, "H100", "socket", nic_gbit=10.0, algorithm="tree")
    assert asked(job, without=["gdr"]).slowdown == (1, 1, 1)


@settings(max_examples=100)
@given(JOBS, st.lists(st.sampled_from(LOSSES), min_size=1, max_size=2, unique=True), st.sampled_from([2**16, 2**33]))
def test_the_model_itself_rates_no_loss_as_a_gain(job: Job, names: list[str], size: int) -> None:
    changes = named([n for n in names if n in WITHOUT], [n for n in names if n in WITH])
    for before in set_up(job, MODEL.table).configs:
        for after in apply(changes, before, MODEL.table):
            healthy, actual = MODEL.at(before, size).busbw.expected, MODEL.at(after, size).busbw.expected
            assert actual <= healthy * (1 + 1e-9), (before, after)


@settings(max_examples=60)
@given(JOBS, st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([25.0, 100.0, 200.0, 400.0]))
def test_more_or_faster_nics_are_never_slower(job: Job, nics: int, rate: float) -> None:
    base, more, faster = (
        asked(replace(job, nics=count, nic_gbit=gbit)).before.busbw
        for count, gbit in ((nics, rate), (2 * nics, rate), (nics, 2 * rate))
    )
    for better in (more, faster):
        assert all(b >= a * (1 - 1e-9) for a, b in zip(base, better, strict=True))


def test_sharp_needs_infiniband() -> None:
    with pytest.raises(NotModelledError, match="InfiniBand"):
        asked(replace(PAIR, network="roce"), with_=["sharp"])


def test_every_configuration_is_one_that_the_job_fits() -> None:
    setup = set_up(Job(2, 8, "H100", "ib"), hardware())
    assert {config.nics for config in setup.configs} == {4, 8}
    assert all(config.gdr and config.nvls and config.nodes == 2 for config in setup.configs)
