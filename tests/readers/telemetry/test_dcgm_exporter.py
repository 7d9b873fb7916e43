"""What dcgm-exporter publishes, by hand-written expectation."""

from __future__ import annotations

from telemetry_samples import FIXTURES, read, values


def test_values_of_gpus() -> None:
    outputs = read((FIXTURES / "dcgm-exporter" / "metrics.prom").read_bytes())
    found = values(outputs)
    assert found["gpu", "gpu1", "xid"] == 79
    assert found["gpu", "gpu0", "xid"] == 31
    assert found["gpu", "gpu0", "bus_id"] == "0000:1a:00.0"
    assert found["gpu", "gpu0", "model"] == "NVIDIA H200"
    assert found["gpu", "gpu1", "remap_failed"] == "yes"
    assert found["gpu", "gpu0", "remap_failed"] == "no"
    assert found["counter", "gpu0", "pcie_replay_counter"] == 7
    assert found["host", "", "driver"] == "570.86.15"
    assert {row["host"] for row in outputs.rows} == {"rack9-n3"}


def test_a_gauge_of_zero_is_no_xid() -> None:
    outputs = read((FIXTURES / "dcgm-exporter" / "metrics.prom").read_bytes())
    assert [row["text"] for row in outputs.rows if row["key"] == "xid"] == ["79", "31"]


def test_values_that_mean_none_are_none() -> None:
    """DCGM's blanks of 32 and 64 bits, and texts in place of a number."""
    outputs = read((FIXTURES / "dcgm-exporter" / "metrics.prom").read_bytes())
    assert [(row["name"], row["number"]) for row in outputs.rows if row["key"] == "ecc_uncorrected"] == [("gpu0", 0)]


def test_bits_and_counted_events_say_why_clocks_are_low() -> None:
    found = values(read((FIXTURES / "dcgm-exporter" / "metrics.prom").read_bytes()))
    assert found["gpu", "gpu1", "hw_thermal_slowdown"] == "yes"
    assert found["gpu", "gpu1", "hw_power_brake"] == "no"
    assert found["gpu", "gpu0", "hw_power_brake"] == "no"


def test_instances_of_mig_are_counted_once() -> None:
    found = values(read((FIXTURES / "dcgm-exporter" / "metrics.prom").read_bytes()))
    assert found["gpu", "gpu2", "mig"] == "enabled" and found["gpu", "gpu2", "mig_instances"] == 2
    assert ("gpu", "gpu0", "mig") not in found


def test_a_collection_of_several_hosts_keeps_them_apart() -> None:
    outputs = read((FIXTURES / "dcgm-exporter" / "two-hosts.prom").read_bytes())
    found = [(row["host"], row["key"], row["number"]) for row in outputs.rows if row["number"] is not None]
    assert found == [
        ("rack9-n4", "utilization_pct", 98),
        ("rack9-n5", "utilization_pct", 98),
        ("rack9-n4", "pcie_lanes", 16),
        ("rack9-n5", "pcie_lanes", 16),
    ]


def test_the_list_of_counters_tells_nothing() -> None:
    outputs = read((FIXTURES / "dcgm-counters" / "counters.csv").read_bytes())
    assert outputs.rows == [] and outputs.kinds == {0: {"dcgm-counters"}}
