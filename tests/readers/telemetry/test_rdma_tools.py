"""What tools say of RDMA ports, by hand."""

from __future__ import annotations

import pytest
from telemetry_samples import FIXTURES, read, values

from ncclcheck.readers.telemetry.outputs import Outputs


def fixture(name: str) -> Outputs:
    return read((FIXTURES / name).read_bytes())


def port(outputs: Outputs, name: str) -> dict[str, str | float]:
    return {key: value for (thing, part, key), value in values(outputs).items() if (thing, part) == ("port", name)}


def test_ibstat_tells_ports_of_all_adapters() -> None:
    outputs = fixture("ibstat/four-rails-and-a-frontend.txt")
    assert port(outputs, "mlx5_10/1") == {
        "adapter": "MT4129", "firmware": "28.43.2026", "guid": "5c2573000a10002b", "state": "active",
        "physical": "link-up", "rate_gbit": 400, "lid": 219, "link_layer": "infiniband",
    }  # fmt: skip
    frontend, off = port(outputs, "mlx5_2/1"), port(outputs, "mlx5_3/1")
    assert (frontend["link_layer"], frontend["rate_gbit"], frontend["lid"]) == ("ethernet", 25, 0)
    assert (off["state"], off["physical"], off["rate_gbit"], off["lid"]) == ("down", "disabled", 10, 65535)


def test_ibstat_of_a_second_machine_begins_where_a_device_comes_again() -> None:
    outputs = fixture("ibstat/two-hosts-unlabelled.txt")
    states = [(row["output"], row["name"], row["text"]) for row in outputs.rows if row["key"] == "state"]
    assert states == [(0, "mlx5_0/1", "active"), (0, "mlx5_1/1", "active"), (1, "mlx5_0/1", "active"),
                      (1, "mlx5_1/1", "init")]  # fmt: skip


def test_ibstat_that_stops_keeps_what_it_printed_and_says_so() -> None:
    outputs = fixture("ibstat/stopped-by-a-device-that-went-away.txt")
    assert {row["name"] for row in outputs.rows} == {"mlx5_0/1", "mlx5_1/1"}
    assert port(outputs, "mlx5_1/1")["link_layer"] == "infiniband"
    assert outputs.notes[0] == ["line 35: ibstat stopped with an error; adapters behind mlx5_1 are not listed"]


def test_ibstat_of_an_adapter_with_two_ports() -> None:
    outputs = fixture("ibstat/two-ports-behind-a-prompt.txt")
    assert {row["host"] for row in outputs.rows} == {"dgx-a17"}
    first, second = port(outputs, "mlx4_0/1"), port(outputs, "mlx4_0/2")
    assert (first["adapter"], first["link_layer"], first["rate_gbit"]) == ("MT4103", "infiniband", 56)
    assert (second["adapter"], second["link_layer"], second["physical"]) == ("MT4103", "ethernet", "polling")


def test_a_hundred_machines_behind_labels_that_come_mixed() -> None:
    lines = (FIXTURES / "ibstat/four-rails-and-a-frontend.txt").read_text().splitlines()
    text = "".join(f"b{node:03}: {line}\n" for line in lines for node in range(100))
    outputs = read(text)
    assert {row["host"] for row in outputs.rows} == {f"b{node:03}" for node in range(100)}
    assert len(outputs.rows) == 100 * len(fixture("ibstat/four-rails-and-a-frontend.txt").rows)


def test_ibstatus() -> None:
    outputs = fixture("ibstatus/one-at-half-width.txt")
    assert port(outputs, "mlx5_1/1") == {
        "lid": 214, "state": "active", "physical": "link-up", "rate_gbit": 200, "lanes": 2, "link_layer": "infiniband",
    }  # fmt: skip
    assert port(outputs, "mlx5_2/1")["physical"] == "disabled"


def test_ibv_devinfo_calls_roce_ethernet_whatever_the_transport_says() -> None:
    outputs = fixture("ibv_devinfo/roce-says-infiniband.txt")
    assert port(outputs, "mlx5_4/1") == {
        "firmware": "28.43.2026", "guid": "5c2573000a200010", "adapter": "MT4129", "state": "active", "mtu_max": 4096,
        "mtu": 1024, "lid": 0, "link_layer": "ethernet",
    }  # fmt: skip
    assert port(outputs, "mlx5_5/1")["state"] == "down"


def test_ibv_devinfo_verbose_multiplies_lanes_and_speed() -> None:
    told = values(fixture("ibv_devinfo/verbose.txt"))
    assert told["port", "mlx5_0/1", "rate_gbit"] == 200
    assert told["port", "mlx5_0/1", "lanes"] == 4
    assert told["port", "mlx5_0/1", "physical"] == "link-up"
    assert told["gid", "mlx5_0/1/0", "address"] == "fe80::"


def test_efa_has_no_guid_and_ports_on_one_line() -> None:
    outputs = fixture("ibv_devinfo/efa-on-one-line.txt")
    assert port(outputs, "rdmap80s0/1") == {"adapter": "EFA", "mtu_max": 4096, "state": "active"}


def test_fi_info_lists_a_device_once_for_all_its_endpoints() -> None:
    told = values(fixture("fi_info/two-devices.txt"))
    assert told == {("port", "rdmap79s0/1", "adapter"): "EFA", ("port", "rdmap80s0/1", "adapter"): "EFA"}
    assert len(fixture("fi_info/two-devices.txt").rows) == 2


@pytest.mark.parametrize(("name", "lid"), [("roce-and-infiniband.txt", 92), ("old-release.txt", 44)])
def test_rdma_link(name: str, lid: int) -> None:
    told = values(fixture(f"rdma link/{name}"))
    assert told["port", "mlx5_0/1", "lid"] == lid
    assert told["port", "mlx5_0/1", "state"] == "active"
    assert ("port", "mlx5_0/1", "netdev") not in told
    down = name.startswith("roce")
    assert told["port", "mlx5_1/1", "physical"] == ("disabled" if down else "link-up")
    assert told["port", "mlx5_1/1", "netdev"] == ("ens41f1np1" if down else "ens3f1")


def test_rdma_statistic_read_twice() -> None:
    rows = fixture("rdma statistic/two-readings.txt").rows
    found = [(row["output"], row["number"]) for row in rows
             if (row["name"], row["key"]) == ("mlx5_2/1", "out_of_sequence")]  # fmt: skip
    assert found == [(0, 17.0), (1, 937.0)]


def test_show_gids_reads_rows_without_an_address() -> None:
    told = values(fixture("show_gids/empty-cells.txt"))
    assert ("gid", "mlx5_6/1/1", "ipv4") not in told
    assert told["gid", "mlx5_6/1/1", "version"] == "v2"
    assert told["gid", "mlx5_6/1/1", "netdev"] == "ens6f0np0"
    assert told["gid", "mlx5_6/1/3", "ipv4"] == "172.18.42.6"
    assert told["gid", "mlx5_7/1/0", "version"] == "v2"


def test_sysfs_with_tabs_and_of_a_bond() -> None:
    outputs = fixture("sysfs infiniband/tabs.tsv")
    assert port(outputs, "mlx5_bond_0/1") == {
        "adapter": "MT4129", "firmware": "28.43.2026", "link_layer": "ethernet", "lid": 0, "physical": "link-up",
        "rate_gbit": 200, "lanes": 4, "state": "active",
    }  # fmt: skip
    assert values(outputs)["counter", "mlx5_0/1", "link_downed"] == 1


def test_sysfs_read_twice_is_two_outputs() -> None:
    rows = fixture("sysfs infiniband/grep-twice.txt").rows
    found = [(row["output"], row["number"]) for row in rows
             if (row["name"], row["key"]) == ("mlx5_0/1", "out_of_sequence")]  # fmt: skip
    assert found == [(0, 40.0), (1, 911.0)]
    assert {row["text"] for row in rows if (row["name"], row["key"]) == ("mlx5_1/1", "physical")} == {"polling"}


def test_ibnetdiscover_tells_the_switch_of_every_machines_port() -> None:
    outputs = fixture("ibnetdiscover/rails.txt")
    switches = {(row["host"], row["name"]): row["text"] for row in outputs.rows if row["key"] == "switch"}
    assert switches == {
        ("pine01", "mlx5_0/1"): "r0-leaf", ("pine01", "mlx5_3/1"): "r3-leaf", ("pine02", "mlx5_0/1"): "r0-leaf",
        ("pine02", "mlx5_3/1"): "r3-leaf", ("pine03", "mlx5_0/1"): "r0-leaf",
    }  # fmt: skip
    rates = {(row["host"], row["name"]): row["number"] for row in outputs.rows if row["key"] == "rate_gbit"}
    assert rates["pine02", "mlx5_3/1"] == 200 and rates["pine01", "mlx5_3/1"] == 400
    assert len({row["output"] for row in outputs.rows}) == 3, "an output for each machine"
    assert outputs.notes[0] == ["ibnetdiscover: 1 adapters do not say of which machine they are: no node description"]


def test_ibnetdiscover_of_a_port_without_a_fabric_says_so() -> None:
    outputs = fixture("ibnetdiscover/no-switch.txt")
    assert outputs.rows == [] and "no port of a machine" in outputs.notes[0][0]


def test_switches_of_a_chassis_and_of_one_description_are_told_apart() -> None:
    outputs = fixture("ibnetdiscover/chassis-and-namesakes.txt")
    switches = {row["host"]: row["text"] for row in outputs.rows if row["key"] == "switch"}
    assert switches == {"oak1": "core1/L07", "oak2": "Quantum Mellanox Technologies",
                        "oak3": "Quantum Mellanox Technologies #2"}  # fmt: skip
    assert {row["number"] for row in outputs.rows if row["key"] == "rate_gbit"} == {200, 100}


def test_ethtool_settings_of_several_interfaces() -> None:
    told = values(fixture("ethtool/roce-port-and-one-without-carrier.txt"))
    assert told == {("netdev", "ens6f0np0", "rate_gbit"): 200, ("netdev", "ens6f0np0", "link"): "yes",
                    ("netdev", "ens7f0np0", "link"): "no"}  # fmt: skip


def test_ethtool_counters_before_and_after() -> None:
    outputs = fixture("ethtool -S/before-and-after.txt")
    found = [(row["output"], row["number"]) for row in outputs.rows if row["key"] == "rx_discards_phy"]
    assert found == [(0, 3.0), (1, 815.0)]
    assert {row["name"] for row in outputs.rows} == {"ens6f0np0"}
    assert not {"rx0_packets", "ch0_events"} & {row["key"] for row in outputs.rows}


def test_ethtool_counters_of_no_named_interface_are_told_as_unread() -> None:
    outputs = fixture("ethtool -S/of-no-one.txt")
    assert outputs.rows == [] and "7 counters of an interface that no line names" in outputs.notes[0][0]


def test_carriers_of_two_machines_in_one_log() -> None:
    rows = fixture("kernel-log/networkd-and-kernel.txt").rows
    lost = [(row["host"], row["name"], row["number"]) for row in rows if row["key"] == "carrier_lost"]
    assert lost == [("elm-31", "ibp41s0", 1), ("elm-31", "ibp41s0", 2), ("elm-32", "ens6f0np0", 1)]
    links = [(row["name"], row["text"]) for row in rows if row["key"] == "link"]
    assert links == [("ibp41s0", "no"), ("ibp41s0", "yes"), ("ibp41s0", "no"), ("ens6f0np0", "no"),
                     ("ens6f0np0", "yes")]  # fmt: skip


def test_a_machine_may_be_called_like_a_gpu() -> None:
    lines = (FIXTURES / "ibstat/four-rails-and-a-frontend.txt").read_text().splitlines()
    outputs = read("".join(f"gpu-{node:04}: {line}\n" for node in (1, 2) for line in lines))
    assert {row["host"] for row in outputs.rows} == {"gpu-0001", "gpu-0002"}
