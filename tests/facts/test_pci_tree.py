"""The PCI tree of outputs of lspci: the way between two devices, and who is a guest."""

from __future__ import annotations

from pathlib import Path

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.pci_tree import PciTree, guest_places, pci_trees, peer_paths
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"


def facts(*names: str) -> Facts:
    sources = [file_source(str(FIXTURES / name), name) for name in names]
    return Facts(read_sources(sources).tables, [source.name for source in sources])


def tree(*names: str) -> PciTree:
    (only,) = pci_trees(facts(*names))
    return only


def test_peers_below_one_switch_pass_its_downstream_ports_alone() -> None:
    found = tree("lspci/switch-with-two-gpus.txt")
    ways = {(path.a.name[5:], path.b.name[5:]): path.bridges for path in peer_paths(found)}
    assert {pair: [bridge.name[5:] for bridge in way] for pair, way in ways.items()} == {
        ("a3:00.0", "a4:00.0"): ["a2:00.0", "a2:01.0"],
        ("a3:00.0", "a5:00.0"): ["a2:00.0", "a2:02.0"],
        ("a4:00.0", "a5:00.0"): ["a2:01.0", "a2:02.0"],
    }
    assert found.devices["0000:a2:02.0"].redirect is Answer.YES
    assert found.devices["0000:a1:00.0"].redirect is Answer.NO, "it shows its link, and has no ACS"


def test_a_management_port_is_no_compute_nic() -> None:
    names = [device.name for device in tree("lspci/switch-with-two-gpus.txt").computing]
    assert names == ["0000:a3:00.0", "0000:a4:00.0", "0000:a5:00.0"]


def test_without_root_the_redirect_is_unknown() -> None:
    assert tree("lspci/not-root.txt").devices["0000:17:00.0"].redirect is Answer.UNKNOWN


def test_devices_below_different_root_ports_have_no_bridge_between_them() -> None:
    found = tree("lspci-tree/two-switches.txt")
    assert found.between("0000:a3:00.0", "0000:53:00.0") == ()
    assert [bridge.name for bridge in found.between("0000:a3:00.0", "0000:a4:00.0")] == ["0000:a2:00.0", "0000:a2:01.0"]


def test_guests_are_told_by_their_devices_and_their_cpus() -> None:
    assert tree("lspci/guest.txt").guest
    assert not tree("lspci/switch-with-two-gpus.txt").guest
    assert len(guest_places(facts("lscpu/guest-with-two-nodes.txt"))) == 1
