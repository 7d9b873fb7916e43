"""Which net device is an index, and which networks are there?"""

from __future__ import annotations

import pytest
from fact_samples import Process, facts_of, hosts, net

from ncclcheck.facts import networks
from ncclcheck.facts.facts import Facts


def _devices(*texts: str, network: str = "IB", nic: int = 0, release: str = "2.26.2") -> tuple[str, ...]:
    """Name of the device on a network edge of a process that prints these lists."""
    processes, log = hosts(2, release=release)
    log += processes[0].say(*texts)
    for rank, process in enumerate(processes):
        log += process.whole("a", rank, 2, "commId 0xaa", nnodes=2)
    log += processes[0].say(net(0, 0, 1, "send", nic, network=network), tid=900)
    (edge,) = facts_of(log).net_edges()
    return edge.devices


IB = "NET/IB : Using [0]mlx5_2:1/IB [1]mlx5_5:1/RoCE [RO]; OOB eth0:10.0.0.9<0>"
SOCKET = "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.1.0.1<0>"


def test_an_index_counts_in_the_list_of_its_network() -> None:
    assert _devices(IB, SOCKET, nic=1) == ("mlx5_5",)
    assert _devices(IB, SOCKET, network="IBext_v8") == ("mlx5_2",)
    assert _devices(IB, SOCKET, network="Socket", nic=1) == ("eth1",)


def test_plugins_count_devices_of_their_own() -> None:
    assert _devices(IB, network="FasTrak") == ("NET/0",)


def test_a_group_of_ofi_devices_is_one_net_device() -> None:
    group = [
        f"NET/OFI NIC group {group} device #{member} 0000:{group}{member}:00.0"
        for group in range(2)
        for member in range(2)
    ]
    assert _devices(IB, *group, network="AWS Libfabric", nic=1) == ("0000:10:00.0+0000:11:00.0",)


def test_merged_ports_of_one_list() -> None:
    assert _devices(
        "NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB eth0:10.0.0.9<0>", release="2.21.5"
    ) == ("mlx5_0+mlx5_1",)


VIRTUAL = "NET/IB : Made virtual device [2] name=mlx5_2+mlx5_5 speed=400000 ndevs=2"


def test_merged_devices_come_after_the_list() -> None:
    assert _devices(IB, VIRTUAL, nic=2) == ("mlx5_2+mlx5_5",)
    assert _devices(IB, nic=2) == ("NET/2",)


def test_every_process_has_a_list_of_its_own() -> None:
    processes, log = hosts(1, 2)
    for rank, process in enumerate(processes):
        log += process.say(f"NET/IB : Using [0]mlx5_{rank}:1/IB [RO]; OOB eth0:10.0.0.9<0>")
        log += process.whole("a", rank, 4, "commId 0xaa", nnodes=2)
        log += process.say(net(0, rank, 2, "send", 0, (rank, 0)), tid=900)
    facts = facts_of(log)
    assert facts.net_edges()[0].devices == ("mlx5_0", "mlx5_1")
    assert [nic.name for nic in facts.nic_lists["n1"]] == ["mlx5_0", "mlx5_1"]


def test_two_ports_of_one_card_are_two_devices() -> None:
    facts = facts_of(Process("n1", 1).say("NET/IB : Using [0]mlx4_0:1/IB [1]mlx4_0:2/IB ; OOB eth0:10.0.0.9<0>"))
    assert [nic.name for nic in facts.nic_lists["n1"]] == ["mlx4_0", "mlx4_0:2"]


def _shape(*texts: str) -> Facts:
    return facts_of(Process("n1", 1).say(*texts))


def test_ports_of_a_merged_device_are_not_counted_beside_it() -> None:
    shape = _shape(IB.replace("RoCE", "IB"), VIRTUAL).shape()
    assert (shape.nics_per_node, shape.nic_gbit) == (1, (400.0,))


def test_the_rate_of_a_device_stands_in_its_own_line() -> None:
    line = (
        "NET/IB: [0] mlx5_2:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x7f21a4001c00"
        " pciPath=/sys/devices/0000:18:00.0 ar=1"
    )
    assert [nic.gbit for nic in _shape(IB, line).nic_lists["n1"]] == [400.0, None]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("IB", "ib"), ("IBext_v8", "ib"), ("UCX", "ib"), ("gIB", "ib"), ("AWS Libfabric", "efa"), ("Libfabric", "efa"),
     ("OFI", "efa"),
     ("Socket", "socket"), ("FastSocket", "socket"), ("FasTrak", "tcpxo"), ("GPUDirectTCPX_v7", "tcpx"),
     ("SomethingElse", "other")],
)  # fmt: skip
def test_kinds_of_networks(name: str, kind: str) -> None:
    assert networks.kind(name) == kind


@pytest.mark.parametrize(
    ("texts", "kind"),
    [((IB.replace("RoCE", "IB"), "Using network IB"), "ib"),
     ((IB.replace("IB ", "RoCE ").replace("NET/RoCE", "NET/IB"), VIRTUAL, "Using network IB"), "roce"),
     (("Using network AWS Libfabric",), "efa"),
     (("NET/OFI Selected Provider is cxi (found 4 nics)", "Using network AWS Libfabric"), "slingshot"),
     (("NET/OFI Selected Provider is tcp (found 1 nics)", "Using network Libfabric"), "socket"),
     (("Using network Socket",), "socket"),
     ((), "")],
)  # fmt: skip
def test_the_network_of_a_job(texts: tuple[str, ...], kind: str) -> None:
    assert _shape(*texts).shape().network == kind


def test_sockets_on_one_node_are_no_network() -> None:
    process = Process("n1", 1)
    assert facts_of(process.say("Using network Socket") + process.whole("a", 0, 1, "commId 0xaa")).shape().network == ""


def test_signs_of_rdma() -> None:
    assert not _shape(
        "NET/IB : No device found.", "NCCL_IB_DISABLE set by environment to 1.", "NCCL_NET set by environment to Socket"
    ).rdma_signs
    for text, sign in (
        (IB, "device mlx5_2"),
        ("Bootstrap : Using ib0:10.0.0.1<0>", "interface ib0"),
        ("NCCL_IB_HCA set to mlx5", "NCCL_IB_HCA=mlx5"),
        ("Using network IB", "network IB"),
        ("NET/Plugin: Loaded net plugin AWS Libfabric (v8)", "plugin AWS Libfabric"),
    ):
        assert sign in [seen.value for seen in _shape(text).rdma_signs]


def test_signs_of_a_guest() -> None:
    assert not _shape("NCCL_TOPO_FILE set by environment to /proc/self/fd/42").guest_signs
    assert _shape("NCCL_TOPO_FILE set by environment to /opt/microsoft/ndv4-topo.xml").guest_signs
    assert _shape("+ PCI[0.2] - PCI/1000 (1af41000)").guest_signs


def test_gdr_refused_for_a_device_and_for_a_pair() -> None:
    facts = _shape("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
                   "GPU Direct RDMA Disabled for GPU 1 / HCA 5 (distance 8 > 5)",
                   "GPU Direct RDMA Enabled for GPU 0 / HCA 5 (distance 4 <= 5), read 0")  # fmt: skip
    assert [(refusal.kind, refusal.distance, refusal.limit) for refusal in facts.gdr_refusals] == [
        ("hca", None, None),
        ("distance", 8, 5),
    ]


def test_a_list_that_is_cut_in_the_last_line_is_none() -> None:
    processes, log = hosts(2, release="2.26.2")
    log += processes[0].say(IB) + processes[1].say(IB.partition(" [1]")[0])
    assert facts_of(log)["nics"].height == 2
    assert facts_of([*log, "step 1"])["nics"].height == 3


def test_an_edge_that_is_cut_in_the_last_line_is_none() -> None:
    process = hosts(1, release="2.26.2")[0][0]
    log = process.say(*(net(channel, 0, 1, "send", 0) for channel in range(2)))
    log[-1] = log[-1].removesuffix("/GDRDMA")
    assert facts_of(log)["edges"].get_column("gdr").to_list() == [True]
    assert facts_of([*log, "step 1"])["edges"].get_column("gdr").to_list() == [True, False]
