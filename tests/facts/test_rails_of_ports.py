"""Ports as tools tell of them: joined, compared with their like, counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclcheck.facts.carriers import carriers
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.leaves import leaves
from ncclcheck.facts.odd_ports import down_ports, slow_ports, small_mtus, unequal_mtus
from ncclcheck.facts.port_counters import roce_counters
from ncclcheck.facts.rdma_ports import ports, rail_layers, rail_rates, sibling_rates
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources

RULES = Path(__file__).parents[2] / "fixtures" / "rules"


def facts(text: str, tmp_path: Path) -> Facts:
    file = tmp_path / "input.txt"
    file.write_text(text)
    return Facts(read_sources([file_source(str(file), str(file))]).tables, [str(file)])


def fixture(name: str) -> Facts:
    path = str(RULES / name)
    return Facts(read_sources([file_source(path, path)]).tables, [path])


def ibstat(*cards: tuple[str, str, str, str, int, str]) -> str:
    """name, adapter type, state, physical state, rate, link layer"""
    return "".join(
        f"CA '{name}'\n\tCA type: {adapter}\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n"
        f"\t\tRate: {rate}\n\t\tLink layer: {layer}\n"
        for name, adapter, state, physical, rate, layer in cards
    )


def rails(
    count: int, rate: int = 400, adapter: str = "MT4129", first: int = 0
) -> list[tuple[str, str, str, str, int, str]]:
    return [(f"mlx5_{first + n}", adapter, "Active", "LinkUp", rate, "InfiniBand") for n in range(count)]


def test_tools_of_one_machine_tell_of_one_port(tmp_path: Path) -> None:
    text = (
        ibstat(*rails(1)) + "mlx5_0 port 1 ==> ibp12s0 (Up)\n" + "link mlx5_0/1 state ACTIVE physical_state LINK_UP\n"
    )
    (port,) = ports(facts(text, tmp_path))
    assert (port.name, port.device, port.gbit, port.layer, port.netdev) == (
        "mlx5_0/1", "mlx5_0", 400, "infiniband", "ibp12s0",
    )  # fmt: skip


def test_the_layer_may_be_told_by_the_interface_alone(tmp_path: Path) -> None:
    found = ports(facts("mlx5_0 port 1 ==> ibp12s0 (Up)\nmlx5_1 port 1 ==> ens3f0np0 (Up)\n", tmp_path))
    assert [port.layer for port in found] == ["infiniband", "ethernet"]


def test_the_rate_of_a_port_that_is_down_is_none(tmp_path: Path) -> None:
    (port,) = ports(facts(ibstat(("mlx5_0", "MT4131", "Down", "Disabled", 10, "InfiniBand")), tmp_path))
    assert port.gbit == 0


@pytest.mark.parametrize(("slow", "found"), [(1, True), (2, True), (4, False)])
def test_siblings_need_a_clear_majority(slow: int, found: bool, tmp_path: Path) -> None:
    odd = slow_ports(facts(ibstat(*rails(8 - slow), *rails(slow, 200, first=8 - slow)), tmp_path))
    assert bool(odd) is found
    if odd:
        assert len(odd[0].ports) == slow and odd[0].usual.gbit == 400 and not odd[0].sure


def test_more_ports_than_a_machine_has_rails_are_not_compared(tmp_path: Path) -> None:
    assert slow_ports(facts(ibstat(*rails(8), *rails(1, 200, first=8)), tmp_path)) == ()


def test_managers_of_switches_and_other_adapters_count_for_nothing(tmp_path: Path) -> None:
    board = facts(ibstat(*rails(8, 800, "MT4131"), *rails(4, 100, first=8), *rails(4, 100, "MT4125", 12)), tmp_path)
    assert slow_ports(board) == () and sibling_rates(board) == (800,)


@pytest.mark.parametrize(
    ("state", "physical", "found"),
    [("Down", "Polling", True), ("Initializing", "LinkUp", True), ("Down", "Disabled", False)],
)
def test_one_of_eight_that_is_not_active(state: str, physical: str, found: bool, tmp_path: Path) -> None:
    odd = down_ports(facts(ibstat(*rails(7), ("mlx5_7", "MT4129", state, physical, 40, "InfiniBand")), tmp_path))
    assert [one.ports[0].device for one in odd] == (["mlx5_7"] if found else [])


def test_a_second_port_without_a_cable_is_no_rail(tmp_path: Path) -> None:
    text = ibstat(*rails(8), ("mlx5_8", "MT4129", "Down", "Polling", 40, "InfiniBand"))
    assert down_ports(facts(text, tmp_path)) == ()


def test_rails_are_known_by_the_edges_of_the_log() -> None:
    found = fixture("IB005/pass-storage-ports-slower.log")
    assert {port.device for port in ports(found) if port.rail} == {"mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"}
    assert {port.device for port in ports(found) if port.idle} == {"mlx5_1", "mlx5_2"}
    assert rail_rates(found) == (400,) and rail_layers(found) == {"infiniband"}
    assert found.shape().nic_gbit == (400,)


def test_a_rail_at_half_the_rate_reaches_the_estimate_beside_the_others() -> None:
    assert fixture("IB005/fail-rail-at-half-width.log").shape().nic_gbit == (200, 400)


def test_counters_count_between_readings_of_one_tool() -> None:
    risen = roce_counters(fixture("IB009/fail-packets-lost.log"))
    assert {(rise.part, rise.counter): rise.by for rise in risen.rises} == {
        ("mlx5_3/1", "out_of_sequence"): 80395, ("mlx5_3/1", "packet_seq_err"): 31872,
    }  # fmt: skip
    once = roce_counters(fixture("IB009/na-one-reading.log"))
    assert (once.rises, once.read, once.compared) == ((), True, False)


def test_counters_of_an_interface_are_those_of_its_port() -> None:
    quiet = roce_counters(fixture("IB009/pass-pause-only.log"))
    assert (quiet.rises, quiet.compared, quiet.no_layer) == ((), True, False)


def test_mtus() -> None:
    assert len(small_mtus(fixture("IB012/fail-roce-at-1024.log"))) == 8
    assert unequal_mtus(fixture("IB012/fail-roce-at-1024.log")) == ()
    (odd,) = unequal_mtus(fixture("IB012/fail-one-machine-differs.log"))
    assert [(port.machine, port.device, port.mtu) for port in odd.ports] == [("kale-4", "mlx5_5", 1024)]
    assert odd.usual.mtu == 4096


def test_carriers_that_come_and_go() -> None:
    (flapping,) = carriers(fixture("IB006/fail-carrier-flaps.log"))
    assert (flapping.machine, flapping.netdev, flapping.lost, flapping.returned) == ("rye-4", "ibp40s0", 4, True)
    assert flapping.port is not None and flapping.port.device == "mlx5_4" and flapping.is_fabric


def test_leaves() -> None:
    swapped = leaves(fixture("TOP001/fail-swapped-cables.log"))
    assert [(one.machine, one.device, one.usual) for one in swapped.misplaced] == [
        ("plum-2", "mlx5_4", ("mlx5_3",)), ("plum-2", "mlx5_3", ("mlx5_4",)),
    ]  # fmt: skip
    by_rack = leaves(fixture("TOP001/pass-all-adapters-on-one-leaf.log"))
    assert by_rack.flat == {f"plum-{n}" for n in range(11, 17)} and by_rack.misplaced == ()
    two = leaves(fixture("TOP001/pass-rails-of-two-groups.log"))
    assert two.rails["plum-6", "mlx5_3"] == two.rails["plum-7", "mlx5_3"] == "mlx5_3"


def test_rails_of_rings_are_told_by_leaves() -> None:
    rings = fixture("TOP001/pass-rails-of-two-groups.log").ring_rails
    assert rings is not None and (rings.basis, rings.crossing) == ("leaf switches", 0)
