"""The model against published plateaus, and the shape of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware_table import hardware
from ncclcheck.estimate.model import shipped_model

plateau = shipped_model().plateau

H100_PAIR = Config(2, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400)
A100_QUAD = Config(4, 8, "A100 SXM", network="ib", nics=8, nic_gbit=200)

# busbw in GB/s as published, and how far off the model may be.
PUBLISHED = [
    ("8 x H200, NVLS (stas00/ml-engineering)", Config(1, 8, "H200 SXM"), 473.1, 0.03, "nvls"),
    ("8 x H100, NVLS (Azure AI-benchmarking-guide)", Config(1, 8, "H100 SXM"), 478.9, 0.03, "nvls"),
    ("4 x H200, ring (stas00/ml-engineering)", Config(1, 4, "H200 SXM", nvls=False), 363.3, 0.03, "nvlink ring"),
    ("4 x A100 (DGX A100)", Config(1, 4, "A100 SXM"), 234.7, 0.02, "nvlink ring"),
    ("8 x B200, NVLS (stas00/ml-engineering)", Config(1, 8, "B200 SXM"), 838.0, 0.03, "nvls"),
    ("72 x GB200 (coreweave/nccl-tests)", Config(1, 72, "GB200"), 834.6, 0.05, "nvl72"),
    ("8 x RTX PRO 6000 (voipmonitor/rtx6kpro)", Config(1, 8, "RTX PRO 6000", "pcie-switch"), 46.1, 0.10, "pcie switch"),
    (
        "2 x p5.48xlarge (awslabs)",
        Config(2, 8, "H100 SXM", network="efa", nics=32, nic_gbit=100),
        487.1,
        0.03,
        "nvlstree",
    ),
    ("2 nodes, 4 x NDR", Config(2, 8, "H200 SXM", network="ib", nics=4, nic_gbit=400), 320.4, 0.05, "nic"),
    (
        "8 Perlmutter nodes",
        Config(8, 4, "A100 SXM", network="slingshot", nics=4, nic_gbit=200),
        69.0,
        0.05,
        "slingshot",
    ),
    ("2 A3 Mega nodes", Config(2, 8, "H100 SXM", network="tcpxo", nics=8, nic_gbit=200), 338.8, 0.05, "nic"),
    (
        "one H100 per node, no GDR",
        Config(2, 1, "H100 SXM", network="roce", nics=1, nic_gbit=400, gdr=False),
        14.97,
        0.05,
        "bounce",
    ),
    ("8 GPUs per node on sockets (IPoIB)", Config(2, 8, "A100 SXM", network="socket"), 3.15, 0.10, "tcp flow"),
    ("one V100 per node on sockets", Config(2, 1, "V100 SXM", network="socket", tcp_gbit=32), 2.06, 0.10, "tcp flow"),
    ("one GPU per node on 10 GbE", Config(2, 1, "A100 PCIe", network="socket", tcp_gbit=10), 1.17, 0.05, "tcp line"),
    ("management interface of 1 GbE", Config(2, 4, "RTX A6000", network="socket", tcp_gbit=1), 0.12, 0.05, "tcp line"),
    ("two nodes under ACS", replace(H100_PAIR, redirect="acs"), 178.3, 0.05, "root complex"),
]


@pytest.mark.parametrize(
    ("config", "measured", "error", "limit"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED]
)
def test_published_plateaus(config: Config, measured: float, error: float, limit: str) -> None:
    got = plateau(config)
    assert got.busbw.expected == pytest.approx(measured, rel=error)
    assert got.busbw.low <= measured <= got.busbw.high
    assert got.limit == limit
    assert limit in got.formula


def test_two_hgx_h100_are_capped_by_nvlstree() -> None:
    assert plateau(H100_PAIR).busbw.expected == pytest.approx(484, abs=1)
    assert plateau(H100_PAIR).algorithm == "nvlstree"


@pytest.mark.parametrize("base", [H100_PAIR, A100_QUAD, replace(A100_QUAD, gpu="V100 PCIe", intra="shm")])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"gdr": False},
        {"redirect": "acs"},
        {"redirect": "vm"},
        {"network": "socket"},
        {"crossing_share": 0.5},
        *({"effect": name} for name in hardware().effects),
    ],
)
def test_ranges_are_ordered(base: Config, change: dict[str, object]) -> None:
    busbw = plateau(replace(base, **change)).busbw  # type: ignore[arg-type]
    assert 0 < busbw.low <= busbw.expected <= busbw.high


@pytest.mark.parametrize("gdr", [True, False])
@pytest.mark.parametrize(
    "base",
    [
        H100_PAIR,
        A100_QUAD,
        replace(H100_PAIR, nodes=3),
        replace(H100_PAIR, redirect="acs"),
    ],
)
def test_more_nics_are_never_slower(base: Config, gdr: bool) -> None:
    rates = [plateau(replace(base, nics=nics, gdr=gdr)).busbw.expected for nics in (1, 2, 4, 8, 16)]
    assert rates == sorted(rates)
    assert rates[0] < rates[2]


def test_faster_nics_are_never_slower() -> None:
    rates = [plateau(replace(A100_QUAD, nic_gbit=rate)).busbw.expected for rate in (100, 200, 400, 800)]
    assert rates == sorted(rates)


def test_more_crossing_traffic_is_never_faster() -> None:
    ranges = [plateau(replace(A100_QUAD, crossing_share=share)).busbw for share in (0.0, 0.25, 0.5, 1.0)]
    assert [one.low for one in ranges] == sorted((one.low for one in ranges), reverse=True)
    assert {one.high for one in ranges} == {ranges[0].high}  # the high end says that crossing costs nothing


@pytest.mark.parametrize(
    "change",
    [
        {"nvlinks": 9},
        {"intra": "pcie-switch"},
        {"intra": "pcie-cpu"},
        {"intra": "shm"},
        {"intra": "mixed"},
    ],
)
def test_a_worse_path_inside_the_node_is_slower(change: dict[str, object]) -> None:
    base = Config(1, 8, "A100 SXM")
    assert plateau(replace(base, **change)).busbw.expected < plateau(base).busbw.expected  # type: ignore[arg-type]


def test_paths_inside_the_node_are_ranked() -> None:
    base = Config(1, 8, "H100 SXM")
    paths = ("nvlink", "pcie-switch", "pcie-cpu", "shm")
    rates = [plateau(replace(base, intra=path)).busbw.expected for path in paths]
    assert rates == sorted(rates, reverse=True)


def test_channels_cap_the_nics_in_use() -> None:
    four, two = replace(A100_QUAD, nics=4), replace(A100_QUAD, nics=4, channels=2)
    assert plateau(two).busbw.expected == pytest.approx(plateau(four).busbw.expected / 2)


def test_communicators_share_the_network_of_their_nodes() -> None:
    """Eight communicators with a GPU on each of 32 nodes: an eighth of what caps a node as a whole."""
    whole = Config(32, 8, "H100 SXM", network="ib", nics=8, nic_gbit=400, collective="all_gather")
    for change in ({"nics": 4}, {"nics": 1}, {"gdr": False}, {"redirect": "vm"}, {"network": "socket"}):
        node = replace(whole, **change)
        eighth = plateau(replace(node, gpus_per_node=1, sharing=8))
        assert eighth.busbw.expected == pytest.approx(plateau(node).busbw.expected / 8)
        assert eighth.limit == plateau(node).limit
    assert plateau(replace(whole, gpus_per_node=1)).limit == "gpu slot"  # alone it has the network for itself


def test_bridges_join_pairs_only() -> None:
    assert plateau(Config(1, 2, "RTX A6000")).limit == "nvlink ring"
    assert plateau(Config(1, 4, "RTX A6000")) == plateau(Config(1, 4, "RTX A6000", intra="pcie-switch"))
    assert plateau(Config(1, 4, "RTX 3090")).limit == "mixed"  # its driver joins the pairs through host memory


def test_acs_has_no_cost_where_nvlink_carries_everything() -> None:
    assert plateau(Config(1, 8, "H100 SXM", redirect="acs")) == plateau(Config(1, 8, "H100 SXM"))


def test_a_grace_cpu_hardly_minds_a_missing_gdr() -> None:
    base = Config(4, 1, "GH200", network="roce", nics=1, nic_gbit=400)
    ratio = plateau(replace(base, gdr=False)).busbw.expected / plateau(base).busbw.expected
    assert 0.8 <= ratio < 1


@pytest.mark.parametrize(
    "config",
    [
        Config(1, 1, "H100 SXM"),
        Config(1, 8, "RTX 4090", "nvlink"),
        Config(2, 8, "H100 SXM"),
        Config(2, 8, "H100 SXM", network="ib"),
        Config(2, 8, "A100 SXM", network="ib", nics=8, nic_gbit=200, algorithm="nvls"),
        Config(1, 8, "TPU"),
        Config(1, 8, "A100 PCIe", "shm", pcie_gen=9),
    ],
)
def test_no_number_is_better_than_a_wrong_one(config: Config) -> None:
    with pytest.raises(NotModelledError):
        plateau(config)


@pytest.mark.parametrize(
    "change",
    [
        {"intra": "pigeon"},
        {"network": "token ring"},
        {"nodes": 0},
        {"crossing_share": 1.5},
        {"redirect": "yes"},
        {"sharing": 0},
    ],
)
def test_nonsense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        replace(H100_PAIR, **change)  # type: ignore[arg-type]


def test_a_known_cpu_tells_of_traffic_through_host_memory() -> None:
    cards = Config(1, 4, "A40", "shm")
    any_cpu, rome, recent = (plateau(replace(cards, cpu=cpu)).busbw for cpu in ("", "rome", "recent"))
    assert rome.expected < any_cpu.expected < recent.expected
    assert rome.high / rome.low < any_cpu.high / any_cpu.low / 2
    staged = Config(2, 1, "A100 PCIe", network="ib", nics=1, nic_gbit=200, gdr=False)
    far = plateau(replace(staged, cpu="rome-nps1")).busbw.expected
    assert far == pytest.approx(plateau(staged).busbw.expected / 8)
    assert plateau(replace(staged, gdr=True, cpu="rome-nps1")) == plateau(replace(staged, gdr=True))
    with pytest.raises(NotModelledError, match="rome-nps1"):
        plateau(replace(cards, cpu="abacus"))
