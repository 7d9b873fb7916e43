"""The log generator's promises: same shape, same log; true forms per release; every edge there and printed once."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from generate import main, write
from loggen import (
    FAULTS,
    LAUNCHERS,
    RELEASES,
    Graph,
    Layout,
    Shape,
    ShapeError,
    lines,
    parse_release,
    resolve,
    tree_parent,
)

CHANNEL = re.compile(
    r"(\S+):(\d+):(\d+) \[\d+\] NCCL INFO Channel (\d+)(?:/\d)? : (\d+)\[\w+\] -> (\d+)\[\w+\] "
    r"(?:\[(send|receive)\] )?via (?:NET/(.+?)/(\d+)(?:\((\d+)\))?(/GDRDMA)?|(P2P\S*|SHM\S*|direct shared memory))$"
)
ORDER = re.compile(r"NCCL INFO Channel (\d+)/\d+ :((?: +\d+)+)$")


def log(**options: object) -> list[str]:
    return list(lines(Shape(**options)))  # type: ignore[arg-type]


def channels(text: list[str]) -> list[tuple[str | None, ...]]:
    return [found.groups() for found in map(CHANNEL.search, text) if found]


def text_of(**options: object) -> str:
    return "\n".join(log(**options))


def test_same_shape_same_log() -> None:
    options = {"machines": 2, "lines": 4000, "other": 0.3, "launcher": "mpirun"}
    assert log(**options) == log(**options)
    assert log(**options) != log(**options, seed=2)


def test_write_counts_and_command_line(tmp_path: Path) -> None:
    count = write(Shape(machines=1, gpus=4), tmp_path / "run.log")
    text = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert count == text.count("\n") == len(text.splitlines())
    assert main(["--machines", "1", "--gpus", "4", "-o", str(tmp_path / "same.log")]) == 0
    assert (tmp_path / "same.log").read_text(encoding="utf-8") == text
    assert main(["--machines", "1", "--fabric", "mnnvl", "--release", "2.10.3"]) == 2


@pytest.mark.parametrize("wanted", [10_000, 30_000])
@pytest.mark.parametrize("other", [0.0, 0.6])
def test_length_is_close_to_the_wanted_one(wanted: int, other: float) -> None:
    count = sum(1 for _ in lines(Shape(machines=4, lines=wanted, other=other)))
    assert 0.98 * wanted <= count <= 1.001 * wanted


def test_share_of_training_output() -> None:
    text = log(machines=2, lines=10_000, other=0.6)
    other = sum(1 for line in text if "NCCL" not in line)
    assert 0.58 < other / len(text) < 0.62


def test_one_8_gpu_node_has_about_500_lines() -> None:
    assert 450 <= len(log(machines=1)) <= 650


def rings_of(text: list[str]) -> dict[int, list[int]]:
    return {int(found[1]): [int(rank) for rank in found[2].split()] for found in map(ORDER.search, text) if found}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("nics", [4, 8])
def test_every_ring_has_one_net_edge_per_node(release: str, nics: int) -> None:
    """And the NIC at its two ends is the same one: rails are kept."""
    text = log(machines=3, nics=nics, release=release)
    rings = rings_of(text)
    assert len(rings) == 2 * nics
    printed = channels(text)
    sends = {(int(c), int(a), int(b)): n for _, _, _, c, a, b, way, _, n, *_ in printed if way == "send"}
    receives = {(int(c), int(a), int(b)): n for _, _, _, c, a, b, way, _, n, *_ in printed if way == "receive"}
    inside = {(int(c), int(a), int(b)) for _, _, _, c, a, b, way, *_ in printed if way is None}
    assert sends == receives  # both ends, same NIC
    for channel, order in rings.items():
        assert sorted(order) == list(range(24))
        steps = {(channel, a, b) for a, b in zip(order, order[1:] + order[:1], strict=True)}
        crossing = {step for step in steps if step[1] // 8 != step[2] // 8}
        assert len(crossing) == 3
        assert crossing <= sends.keys()
        assert steps - crossing <= inside


@pytest.mark.parametrize("options", [{}, {"alternate": True}, {"gpu": "pcie"}, {"fabric": "efa"}, {"fabric": "roce"}])
def test_edges_are_printed_once_by_the_right_end(options: dict[str, object]) -> None:
    text = log(machines=2, **options)
    pids: dict[str, set[int]] = defaultdict(set)
    seen: Counter[tuple[str | None, ...]] = Counter()
    for host, pid, _, channel, source, target, way, _, nic, _, gdr, path in channels(text):
        assert host and pid and source and target
        pids[f"{host}/{pid}"].add(int(target if way == "receive" else source))
        seen[channel, source, target, way] += 1
        assert (nic is None) == (path is not None) == (way is None)
        assert nic is None or gdr
    assert set(seen.values()) == {1}
    assert all(len(ranks) == 1 for ranks in pids.values())
    assert len(pids) == 16


def test_alternating_rings_keep_rails_and_change_nics_inside() -> None:
    graph = Graph(resolve(Shape(machines=4, alternate=True)), Layout(4, 8, 16, tuple(range(8))))
    nets = [edge for edge in graph.ring_edges if edge.net]
    assert len(nets) == 4 * 16
    assert all(edge.send_nic == edge.receive_nic for edge in nets)
    assert graph.hop(0, 0).entry_nic != graph.hop(0, 0).exit_nic


def test_proxied_send_goes_through_the_rank_beside_the_nic() -> None:
    text = log(machines=2, release="2.18.3")
    assert any(line.endswith("Channel 01/0 : 2[2] -> 9[1] [send] via NET/IB/1(1)/GDRDMA") for line in text)
    assert any(line.endswith("Channel 01/0 : 2[2] -> 9[1] [receive] via NET/IB/1/GDRDMA") for line in text)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 8, 13])
@pytest.mark.parametrize("second", [False, True])
def test_double_trees_are_trees(nodes: int, second: bool) -> None:
    parents = {node: tree_parent(nodes, node, second)[0] for node in range(nodes)}
    assert list(parents.values()).count(-1) == 1
    assert max(Counter(parents.values()).values()) <= 2
    for start in parents:
        node, steps = start, 0
        while node >= 0:
            node, steps = parents[node], steps + 1
        assert steps <= nodes


def test_an_mnnvl_rack_uses_no_network() -> None:
    text = log(machines=4, gpus=4, fabric="mnnvl", release="2.28.9", lines=6000)
    assert not any("via NET" in line for line in text)
    assert any("via P2P/MNNVL" in line for line in text)
    assert any("nRanks 16 nNodes 1 localRanks 16" in line and line.endswith("MNNVL 1") for line in text)


FORMS = {
    "2.7.8": [
        "Bootstrap : Using [0]eth0:",
        "Channel 00 : 0[11000] -> 7[d5000] via P2P/IPC",
        "\nNCCL version 2.7.8+cuda10.2\n",
        "; OOB eth0:",
        "|-1->0->",
    ],
    "2.10.3": ["Bootstrap : Using eth0:", "NET/Plugin : No plugin found (libnccl-net.so), using", "P2P/IPC/read"],
    "2.14.3": ["Channel 00/0 : 0[11000] -> ", "[RO]; OOB eth0:", "16 coll channels, 16 p2p channels"],
    "2.18.3": ["Channel 00/0 : 0[0] -> ", "commId 0x", "- Init START", "Plugin load (libnccl-net.so) returned 2"],
    "2.20.5": [" nNodes 2 localRanks 8 localRank 1 MNNVL 0", "dlerror=", "P2P/CUMEM", "0 collnet channels, 16 nvls"],
    "2.22.3": ["NCCL INFO NCCL version 2.22.3+cuda12.5", "ncclCommInitRank comm 0x", "Using internal network plugin."],
    "2.26.2": ["Bootstrap: Using eth0:", "Connected all rings, use ring PXN 1 GDR 1", "Channel 00/16 :  0  7  6"],
    "2.28.9": ["GetCpuAffinity: Affinity for GPU 0 is", "Assigned NET plugin IB to comm", "(NVLS_NCHANNELS 24)"],
    "2.30.7": ["[Rank 3] ncclCommInitRank comm 0x", "NCCL git version v2.30 ", "available on dev 0\n"],
}


@pytest.mark.parametrize("release", RELEASES)
def test_forms_of_a_release(release: str) -> None:
    text = text_of(release=release)
    for form in FORMS[release]:
        assert form in text
    assert ("Init START" in text) == (parse_release(release) >= (2, 18, 3))
    assert ("nNodes" in text) == (parse_release(release) >= (2, 20, 3))
    assert text.count("NCCL version") == (16 if parse_release(release) >= (2, 22, 3) else 1)
    assert text.count("Init COMPLETE") == 16
    assert "WARN" not in text


@pytest.mark.parametrize("release", ["2.20.5", "2.26.2"])
def test_connections_come_after_complete_from_2_22_3_on(release: str) -> None:
    text = log(machines=1, release=release)
    complete = next(at for at, line in enumerate(text) if "Init COMPLETE" in line)
    edge = next(at for at, line in enumerate(text) if " via " in line)
    assert (edge > complete) == (release == "2.26.2")


def test_shared_memory_forms() -> None:
    for release, form in (
        ("2.10.3", "Channel 00 : 0[11000] -> 1[2d000] via direct shared memory"),
        ("2.26.2", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"),
        ("2.30.7", "Channel 00 : 0[0] -> 1[1] via SHM/direct"),
    ):
        assert any(line.endswith(form) for line in log(machines=1, gpu="shm", release=release)), release


LABELS = {
    "mpirun": "[1,9]<stdout>:gpu-002:",
    "srun": "09: gpu-002:",
    "torchrun": "[default1]:gpu-002:",
    "pdsh": "gpu-002: gpu-002:",
    "kubectl": "[pod/train-worker-1/pytorch] gpu-002:",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_labels(launcher: str) -> None:
    text = log(launcher=launcher)
    expected = LABELS.get(launcher, "gpu-002:")
    assert any(line.startswith(expected) and "[1] NCCL INFO" in line for line in text)


def test_each_thread_keeps_its_order() -> None:
    text = [line for line in log(machines=2, lines=3000) if line.startswith("gpu-002:")]
    by_thread = defaultdict(list)
    for line in text:
        by_thread[line.split(" ", 1)[0]].append(line)
    for said in by_thread.values():
        depth = 0
        for line in said:
            depth += line.endswith("Init START")
            depth -= line.endswith("Init COMPLETE")
            assert depth in (0, 1)


SIGNS = {
    "socket_fallback": ["NET/IB : No device found.", "Using network Socket", "via NET/Socket/0"],
    "ib_disabled": ["NCCL_IB_DISABLE set by environment to 1.", "via NET/Socket/0"],
    "gdr_off": ["GPU Direct RDMA Disabled for HCA 7 'mlx5_7'", "PXN 0 GDR 0"],
    "non_rail": ["NCCL_CROSS_NIC set by environment to 1."],
    "p2p_disabled": ["NCCL_P2P_DISABLE set by environment to 1", "via SHM/direct/direct"],
    "p2p_pair": ["Could not enable P2P between dev 0(=11000) and dev 1(=2d000)", "9[1] -> 8[0] via SHM/direct/direct"],
    "shm_small": ["NCCL WARN Error: failed to extend /dev/shm/nccl-", "-> 2 [Async thread]"],
    "connect": ["NCCL WARN socketStartConnect: Connect to 10.64.0.11<"],
    "duplicate_gpu": ["NCCL WARN Duplicate GPU detected : rank 8 and rank 9 both on CUDA device 11000"],
    "cuda": ["NCCL WARN Cuda failure 'out of memory'", "enqueue.cc:1452 -> 1"],
    "missing_ranks": ["DUE TO TIME LIMIT"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows_its_signs_and_no_other(fault: str) -> None:
    text = text_of(fault=fault)
    healthy = text_of()
    for sign in SIGNS[fault]:
        assert sign in text
        assert sign not in healthy
    for other, signs in SIGNS.items():
        if other != fault:
            assert not all(sign in text for sign in signs), other
    assert ("NCCL WARN" in text) == (fault in ("shm_small", "connect", "duplicate_gpu", "cuda"))


def test_a_crossing_ring_edge_has_two_nics() -> None:
    printed = channels(log(fault="non_rail"))
    sends = {edge[3:6]: edge[8] for edge in printed if edge[6] == "send"}
    receives = {edge[3:6]: edge[8] for edge in printed if edge[6] == "receive"}
    assert sum(sends[edge] != receives[edge] for edge in sends) == 2 * 16


def test_missing_ranks_say_nothing() -> None:
    text = text_of(machines=3, fault="missing_ranks", fault_machine=1)
    assert "gpu-002" not in text
    assert text.count("Init START") == 16
    assert "Init COMPLETE" not in text


def test_gdr_off_leaves_no_gdr_edge() -> None:
    assert all(edge[10] is None for edge in channels(log(fault="gdr_off")) if edge[7])


@pytest.mark.parametrize(
    "options",
    [
        {"release": "2.4.8"},
        {"release": "2.31"},
        {"fabric": "token-ring"},
        {"other": 0.95},
        {"fabric": "mnnvl", "release": "2.18.3"},
        {"alternate": True, "machines": 3},
        {"fault": "gdr_off", "fabric": "efa"},
        {"fault": "non_rail", "machines": 1},
        {"nics": 3},
    ],
)
def test_impossible_shapes_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ShapeError):
        resolve(Shape(**options))  # type: ignore[arg-type]
