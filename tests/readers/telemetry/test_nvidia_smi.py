"""What nvidia-smi prints, read from our fixtures: each format, its old and new names, and values that are none."""

from __future__ import annotations

import pytest
from telemetry_samples import FIXTURES, read, values

A, B, C = "0000:2a:00.0", "0000:3f:00.0", "0000:4c:00.0"


def of(path: str, thing: str, name: str) -> dict[str, str | float]:
    """What a fixture says of one part, without identifiers."""
    told = values(read((FIXTURES / path).read_bytes()))
    return {key: value for (kind, part, key), value in told.items() if (kind, part) == (thing, name) and key != "uuid"}


def test_q_tells_a_healthy_gpu_under_load() -> None:
    assert of("nvidia-smi-q/hgx-two-gpus-new-names.txt", "gpu", A) == {
        "bus_id": A, "index": 0, "model": "NVIDIA H100 80GB HBM3", "persistence": "enabled", "mig": "disabled",
        "virtualization": "none", "recovery_action": "none", "pcie_gen_max": 5, "pcie_gen": 5, "pcie_lanes_max": 16,
        "pcie_lanes": 16, "performance_state": 0, "idle": "no", "sw_power_cap": "yes", "hw_thermal_slowdown": "no",
        "hw_power_brake": "no", "sw_thermal_slowdown": "no", "bar1_mib": 131072, "utilization_pct": 98,
        "ecc_corrected": 7, "ecc_uncorrected": 0, "remap_pending": "no", "remap_failed": "no",
        "fabric_state": "completed", "fabric_status": "success", "fabric_clique": 0, "fabric_health": "healthy",
    }  # fmt: skip


def test_q_adds_up_errors_since_the_driver_was_loaded_and_names_what_is_wrong_with_the_fabric() -> None:
    gpu = of("nvidia-smi-q/hgx-two-gpus-new-names.txt", "gpu", B)
    assert gpu["ecc_uncorrected"] == 4  # 17 more in the aggregate, which is the card's whole life
    assert gpu["fabric_state"] == "in-progress" and "fabric_status" not in gpu
    assert gpu["fabric_health"] == "route unhealthy"
    assert (gpu["recovery_action"], gpu["remap_pending"], gpu["hw_thermal_slowdown"]) == (
        "drain-and-reset",
        "yes",
        "yes",
    )
    assert (gpu["pcie_gen"], gpu["pcie_lanes"]) == (4, 8)


def test_q_of_old_releases() -> None:
    gpu = of("nvidia-smi-q/old-names.txt", "gpu", "0001:00:00.0")
    assert gpu["hw_power_brake"] == "yes" and gpu["hw_thermal_slowdown"] == "no"
    assert gpu["recovery_action"] == "reset"
    assert gpu["virtualization"] == "pass-through" and gpu["persistence"] == "disabled"
    assert "index" not in gpu  # one of eight is shown: nothing says which
    assert "retire_pending" not in gpu


def test_q_of_one_section() -> None:
    path = "nvidia-smi-q/one-section.txt"
    assert of(path, "gpu", "0002:00:00.0") == {"bus_id": "0002:00:00.0", "index": 0, "retire_pending": "yes"}
    assert of(path, "gpu", "0003:00:00.0")["retire_pending"] == "no"


def test_keys_of_mig_instances_are_not_those_of_their_gpu() -> None:
    path = "nvidia-smi-q/mig-and-lost.txt"
    assert of(path, "gpu", A) == {
        "bus_id": A, "index": 0, "model": "NVIDIA H200", "mig": "enabled", "mig_instances": 2
    }  # fmt: skip
    assert of(path, "gpu", B) == {"bus_id": B, "index": 1, "lost": "yes"}
    assert of(path, "gpu", "10000:4c:00.0") == {
        "bus_id": "10000:4c:00.0", "index": 2, "model": "NVIDIA H200", "virtualization": "vgpu",
        "recovery_action": "reset",
    }  # fmt: skip
    assert {row["host"] for row in read((FIXTURES / path).read_bytes()).rows} == {"rack4-b"}


def test_xml_says_the_same_words() -> None:
    path = "nvidia-smi-xml/two-gpus.xml"
    assert of(path, "gpu", A) == {
        "bus_id": A, "index": 0, "model": "NVIDIA B200", "persistence": "disabled", "mig": "disabled",
        "virtualization": "host-vgpu", "recovery_action": "none", "pcie_gen_max": 5, "pcie_gen": 5,
        "pcie_lanes_max": 16, "pcie_lanes": 8, "performance_state": 2, "idle": "no", "sw_power_cap": "yes",
        "hw_thermal_slowdown": "yes", "hw_power_brake": "no", "bar1_mib": 262144, "utilization_pct": 61,
        "ecc_corrected": 4, "ecc_uncorrected": 6, "remap_pending": "yes", "remap_failed": "yes",
        "fabric_state": "completed", "fabric_status": "insufficient resources", "fabric_clique": 3,
        "fabric_cluster": "6b2e91d7-0c35-4a12-9f70-55de01c4aa05",
        "fabric_health": "degraded bandwidth, route unhealthy, incorrect configuration (Incorrect SysGUID)",
    }  # fmt: skip
    # behind a process whose command line is no XML
    assert of(path, "gpu", B) == {"bus_id": B, "index": 1, "lost": "yes"}
    assert of(path, "host", "") == {"driver": "575.61.12", "cuda": "12.9"}


def test_xml_of_old_releases_in_a_log() -> None:
    assert of("nvidia-smi-xml/old-in-a-log.txt", "gpu", "0005:00:00.0") == {
        "bus_id": "0005:00:00.0", "model": "Tesla V100-SXM2-16GB", "idle": "yes", "hw_power_brake": "yes",
        "recovery_action": "drain-and-reset", "ecc_corrected": 9, "ecc_uncorrected": 1, "retire_pending": "yes",
    }  # fmt: skip


def test_evidence_of_xml_is_the_line_of_the_element() -> None:
    path = FIXTURES / "nvidia-smi-xml" / "two-gpus.xml"
    lines = path.read_text().splitlines()
    where = {row["key"]: lines[row["line"] - 1] for row in read(path.read_bytes()).rows if row["name"] == A}
    assert "current_link_width" in where["pcie_lanes"] and "<bandwidth>" in where["fabric_health"]


def test_xml_declares_and_fetches_nothing() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'
    text = (
        '<nvidia_smi_log>\n<driver_version>&b;</driver_version>\n<gpu id="0000:2A:00.0">\n</gpu>\n</nvidia_smi_log>\n'
    )
    outputs = read(bomb + text)
    assert outputs.rows == [] and len(outputs.notes[0]) == 1
    assert len(read(text.replace("&b;", "575.1")).rows) == 2


def test_of_several_rows_of_a_gpu_the_busiest_counts() -> None:
    path = "nvidia-smi-csv/new-names.csv"
    idle, busy = of(path, "gpu", A), of(path, "gpu", B)
    assert (idle["utilization_pct"], idle["pcie_gen"], idle["performance_state"]) == (88, 5, 0)
    assert (busy["utilization_pct"], busy["pcie_gen"], busy["pcie_lanes"]) == (96, 5, 8)
    assert busy["hw_thermal_slowdown"] == "yes" and "ecc_uncorrected" not in busy and "mig" not in busy


def test_csv_with_old_names_without_units_and_with_all_reasons_in_one_field() -> None:
    path = "nvidia-smi-csv/old-names-nounits.csv"
    assert of(path, "gpu", "0001:00:00.0") == {
        "bus_id": "0001:00:00.0", "model": "NVIDIA A100-SXM4-40GB", "utilization_pct": 97, "idle": "no",
        "sw_power_cap": "yes", "sw_thermal_slowdown": "no", "hw_thermal_slowdown": "yes", "hw_power_brake": "yes",
        "remap_failed": "yes",
    }  # fmt: skip
    assert of(path, "gpu", "0002:00:00.0")["idle"] == "yes"
    assert of(path, "gpu", "0003:00:00.0") == {"bus_id": "0003:00:00.0", "lost": "yes"}


def test_csv_without_a_header_is_refused() -> None:
    outputs = read("0, NVIDIA H200, 00000000:2A:00.0, 5\n1, NVIDIA H200, 00000000:3F:00.0, 5\n")
    assert outputs.rows == [] and "without a header" in outputs.notes[0][0]


@pytest.mark.parametrize("text", ["index, name\n0, mlp.0.weight\n", "timestamp, name, count\n1, boot, 3\n"])
def test_other_tables_with_such_columns_say_nothing(text: str) -> None:
    assert [row for row in read(text).rows if row["thing"] == "gpu"] == []


def test_links_of_nvlink_5() -> None:
    path = "nvidia-smi-nvlink/status-and-errors.txt"
    assert of(path, "nvlink", "gpu0 0") == {"active": "yes", "rate_gbps": 53.125, "recovery_failed": 2}
    assert of(path, "nvlink", "gpu0 1") == {"active": "no", "recovery_failed": 0}
    assert of(path, "nvlink", "gpu1 all") == {"active": "no"}
    assert of(path, "gpu", "gpu1") == {"index": 1, "model": "NVIDIA B200"}


def test_links_of_old_releases() -> None:
    path = "nvidia-smi-nvlink/old-errors-and-peers.txt"
    assert of(path, "nvlink", "gpu3 0") == {
        "replay_errors": 7, "recovery_errors": 1, "crc_errors": 311, "remote": "0000:8a:00.0"
    }  # fmt: skip
    assert of(path, "nvlink", "gpu3 5") == {"replay_errors": 0, "remote": "0001:0c:00.0"}


def test_list_of_gpus_and_instances() -> None:
    path = "nvidia-smi-nvlink/list-with-instances.txt"
    assert of(path, "gpu", "gpu0") == {"index": 0, "model": "NVIDIA H100 NVL", "mig": "enabled", "mig_instances": 2}
    assert of(path, "gpu", "gpu1") == {"index": 1, "model": "NVIDIA H100 NVL", "mig": "enabled"}
    assert of(path, "gpu", "gpu2") == {"index": 2, "model": "NVIDIA L4"}
    rows = read((FIXTURES / path).read_bytes()).rows
    assert {row["name"] for row in rows if row["key"] == "uuid"} == {"gpu0", "gpu2"}  # zeros join nothing


def test_dmon_by_names_of_columns() -> None:
    path = "nvidia-smi-dmon/violations.txt"
    assert of(path, "gpu", "gpu0") == {
        "index": 0, "utilization_pct": 97, "sw_power_cap": "no", "sw_thermal_slowdown": "yes"
    }  # fmt: skip
    assert of(path, "gpu", "gpu1")["sw_power_cap"] == "yes"


def test_pmon_adds_up_the_processes_of_a_round() -> None:
    path = "nvidia-smi-pmon/two-processes.txt"
    assert of(path, "gpu", "gpu0") == {"index": 0, "utilization_pct": 100}  # 51 + 62, capped; 75 before
    assert of(path, "gpu", "gpu1") == {"index": 1}


def test_table() -> None:
    path = "nvidia-smi-table/one-lost.txt"
    assert of(path, "gpu", A) == {
        "bus_id": A, "index": 0, "model": "NVIDIA H200", "persistence": "enabled", "ecc_uncorrected": 3,
        "performance_state": 0, "utilization_pct": 94, "mig": "disabled",
    }  # fmt: skip
    assert of(path, "gpu", B)["lost"] == "yes"
    assert of(path, "gpu", C)["mig_instances"] == 2 and "ecc_uncorrected" not in of(path, "gpu", C)
    assert of(path, "host", "") == {"driver": "575.61.12", "cuda": "12.9"}


def test_table_of_old_releases_cuts_names_and_a_fan_that_fails_is_no_lost_gpu() -> None:
    path = "nvidia-smi-table/old-narrow.txt"
    assert of(path, "gpu", "0000:1a:00.0") == {
        "bus_id": "0000:1a:00.0", "index": 0, "persistence": "enabled", "ecc_uncorrected": 0, "performance_state": 0,
        "utilization_pct": 87,
    }  # fmt: skip
    assert "lost" not in of(path, "gpu", "0000:1c:00.0")


def test_sentences() -> None:
    assert of("nvidia-smi-says/handle-lost.txt", "gpu", B) == {"bus_id": B, "lost": "yes"}
    assert of("nvidia-smi-says/handle-lost.txt", "gpu", "0001:4c:00.0")["lost"] == "yes"
    assert of("nvidia-smi-says/mismatch.txt", "host", "") == {"driver_mismatch": "yes"}
    assert of("nvidia-smi-says/version-and-no-matrix.txt", "host", "") == {
        "driver": "575.61.12", "cuda": "12.9", "topology_failed": "yes"
    }  # fmt: skip
