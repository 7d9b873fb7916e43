"""PCIe, kernel, modules and limits: what the outputs in fixtures/telemetry say, and the traps of their formats."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest
from telemetry_samples import FIXTURES, read, values

SHARED = Path(__file__).parents[4] / "shared" / "samples" / "host"


def told(kind: str, name: str) -> dict[tuple[str, str, str], str | float]:
    return values(read((FIXTURES / kind / name).read_bytes()))


def test_devices_hang_below_the_bridge_whose_bus_they_are_on() -> None:
    said = told("lspci", "switch-with-two-gpus.txt")
    chain = ["0000:a4:00.0"]
    while above := said.get(("pci", chain[-1], "parent")):
        chain.append(str(above))
    assert chain == ["0000:a4:00.0", "0000:a2:01.0", "0000:a1:00.0", "0000:a0:01.0"]
    assert {name for _, name, key in said if key == "class" and said["pci", name, key] == "gpu"} == {
        "0000:a3:00.0", "0000:a4:00.0"
    }  # fmt: skip
    assert ("pci", "0000:02:00.0", "class") not in said, "a VGA card of the board is no GPU"


def test_links_and_redirect_are_read_as_numbers_whatever_word_stands_behind() -> None:
    said = told("lspci", "switch-with-two-gpus.txt")
    assert (said["pci", "0000:01:00.0", "lanes"], said["pci", "0000:01:00.0", "lanes_max"]) == (1, 2)
    assert said["pci", "0000:a2:03.0", "gts"] == 2.5
    assert (said["pci", "0000:a2:02.0", "redirect"], said["pci", "0000:a2:01.0", "redirect"]) == ("yes", "no")
    assert ("pci", "0000:a1:00.0", "redirect") not in said, "an upstream port has no ACS"


def test_names_and_numbers_of_classes_say_the_same() -> None:
    named = told("lspci", "names-and-numbers.txt")
    assert named["pci", "0001:00:00.0", "model"] == "NVIDIA Corporation GA100 [A100 SXM4 40GB]"
    assert named["pci", "0009:00:00.0", "model"] == "NVIDIA Corporation Device 1af1"
    numbered = told("lspci", "numbers-of-classes.txt")
    assert [numbered["pci", f"0000:{bus}", "class"] for bus in ("c4:01.0", "c4:02.0", "c5:00.0", "00:1c.0")] == [
        "gpu", "nvswitch", "nic", "bridge"
    ]  # fmt: skip


def test_without_root_links_are_unknown_and_the_reader_says_so() -> None:
    outputs = read((FIXTURES / "lspci" / "not-root.txt").read_bytes())
    assert not {row["key"] for row in outputs.rows} & {"lanes", "gts", "redirect"}
    assert outputs.notes[0] == ["lspci was not run as root: links and ACS of devices are not shown (sudo lspci -vvv)"]


def test_a_link_without_its_device_is_told_as_unread() -> None:
    outputs = read("\t\tLnkCap:\tPort #3, Speed 8GT/s, Width x8, ASPM L1\n\t\tLnkSta:\tSpeed 8GT/s, Width x4\n")
    assert outputs.rows == []
    assert len(outputs.notes[0]) == 1


def test_the_same_devices_twice_are_two_outputs() -> None:
    text = (FIXTURES / "lspci" / "names-and-numbers.txt").read_text()
    assert {row["output"] for row in read(text + text).rows} == {0, 1}


def test_a_drawn_tree_is_the_tree() -> None:
    said = told("lspci-tree", "two-switches.txt")
    parents = {name: above for (_, name, key), above in said.items() if key == "parent"}
    assert parents["0000:a4:00.0"] == "0000:a2:01.0"
    assert parents["0000:54:00.1"] == parents["0000:54:00.0"] == "0000:52:08.0"
    assert parents["0000:51:00.0"] == "0000:50:02.0"
    assert "0000:50:02.0" not in parents and "0000:50:00.0" not in parents, "on a root bus"


def test_kernel_lines_of_links() -> None:
    said = told("kernel-log", "plain.txt")
    assert said["pci", "0000:1b:00.0", "limited_by"] == "0000:1a:02.0"
    assert said["pci", "0000:1b:00.0", "boot_gbit"] == 126.024
    assert not [key for _, name, key in said if name == "0001:02:00.0"], "an empty port is not slow"
    assert said["pci", "0000:2a:00.1", "cable"] == "error: bad or shorted cable"
    assert said["pci", "0000:2b:00.0", "cable"] == "error, unsupported cable", "newer drivers say the level, too"
    assert said["pci", "0000:29:00.0", "scarce_power_watts"] == 25
    assert said["module", "nvidia_peermem", "missing_symbol"] == "ib_register_peer_memory_client"


def test_kernel_errors_name_the_device_and_no_serial_number() -> None:
    outputs = read((FIXTURES / "kernel-log" / "errors-dmesg-t.txt").read_bytes())
    said = values(outputs)
    assert said["gpu", "0000:c1:00.0", "xid"] == 79
    assert said["gpu", "0000:c1:00.0", "lost"] == "yes"
    assert said["gpu", "0000:4c:00.0", "xid"] == 31, "MIG names an instance behind the address"
    errors = [(row["name"], row["text"]) for row in outputs.rows if row["key"] == "errors"]
    assert errors == [("0000:4c:00.0", "corrected"), ("0000:c0:01.1", "fatal")]
    assert said["pci", "0000:5d:00.0", "dma_fault"] == "yes"
    assert said["host", "", "driver_mismatch"] == "yes"
    assert "1650000000000" not in str(outputs.rows)


def test_syslog_names_the_machines_and_a_loss_seen_twice_is_one() -> None:
    outputs = read((FIXTURES / "kernel-log" / "syslog.txt").read_bytes())
    told_once = [row for row in outputs.rows if row["key"] not in ("link", "bus_id")]
    assert {(row["host"], row["name"], row["key"], row["text"]) for row in told_once} == {
        ("ndv-017", "ib3", "carrier_lost", "1"),
        ("ndv-017", "ib5", "carrier_lost", "1"),
        ("ndv-017", "000c:00:00.0", "xid", "94"),
        ("ndv-018", "000c:00:00.0", "xid", "63"),
    }


def test_levels_and_other_times_stand_before_kernel_lines() -> None:
    said = told("kernel-log", "levels.txt")
    assert said["host", "", "hypervisor"] == "KVM"
    assert said["host", "", "iommu"] == "passthrough"
    assert said["pci", "0000:c4:00.0", "dma_fault"] == "yes"
    assert told("kernel-log", "pstore.txt")["gpu", "0000:31:00.0", "xid"] == 119


@pytest.mark.parametrize(
    ("lines", "mode"),
    [
        ("iommu: Default domain type: Translated", None),  # a kernel without an IOMMU says so, too
        ("iommu: Default domain type: Translated\n[    2.100000] DMAR: IOMMU enabled", "translated"),
        ("DMAR: IOMMU enabled\n[    2.100000] iommu: Default domain type: Passthrough", "passthrough"),
        ("Command line: BOOT_IMAGE=/v ro amd_iommu=off\n[    2.100000] iommu: Default domain type: Translated", "off"),
        ("Command line: BOOT_IMAGE=/v ro intel_iommu=on,sm_on iommu=pt", "passthrough"),
        ("Command line: BOOT_IMAGE=/v ro intel_iommu=on,sm_on", None),  # the kernel's default decides
        (
            "Command line: BOOT_IMAGE=/v intel_iommu=on\n[    2.1000] iommu: Default domain type: Translated",
            "translated",
        ),
        (
            "Command line: BOOT_IMAGE=/v intel_iommu=on\n[    2.1000] iommu: Default domain type: Passthrough",
            "passthrough",
        ),
        ("Command line: BOOT_IMAGE=/v ro quiet", None),
    ],
)
def test_the_iommu_translates_where_it_works(lines: str, mode: str | None) -> None:
    assert values(read(f"[    1.900000] {lines}\n")).get(("host", "", "iommu")) == mode


def test_peer_memory_is_absent_only_by_the_list_of_the_gpu_driver() -> None:
    assert told("lsmod", "without-peer-memory.txt")["module", "nvidia_peermem", "loaded"] == "no"
    assert told("lsmod", "grep.txt")["module", "nvidia_peermem", "loaded"] == "yes"
    only = values(read("Module                  Size  Used by\nmlx5_ib               503808  0\n"))
    assert ("module", "nvidia_peermem", "loaded") not in only


def test_sizes_and_limits() -> None:
    assert told("df", "docker.txt") == {("host", "", "shm_mib"): 64}
    assert told("df", "blocks-with-type.txt")["host", "", "shm_mib"] == 527984420 / 1024
    assert told("limits", "bash.txt") == {
        ("host", "", "memlock_kib"): 8192, ("host", "", "nofile"): 1024, ("host", "", "nproc"): 2062113
    }  # fmt: skip
    assert told("limits", "zsh.txt")["host", "", "memlock_kib"] == inf
    proc = told("limits", "proc.txt")
    assert proc["host", "", "memlock_kib"] == 65536
    assert (proc["host", "", "nofile"], proc["host", "", "nofile_hard"]) == (65536, 524288)
    unlimited = values(read("Max locked memory         unlimited            unlimited            bytes\n"))
    assert unlimited == {("host", "", "memlock_kib"): inf}


def test_nodes_without_cpus_are_no_part_of_a_socket() -> None:
    assert told("numactl", "memory-only-nodes.txt") == {("host", "", "numa_nodes"): 2}
    assert told("lscpu", "guest-with-two-nodes.txt") == {
        ("host", "", "sockets"): 2, ("host", "", "numa_nodes"): 2, ("host", "", "hypervisor"): "KVM"
    }  # fmt: skip
    cut = "available: 4 nodes (0-3)\nnode 0 cpus: 0 1\nnode 1 cpus: 2 3\n"
    assert values(read(cut)) == {}, "two of four nodes are no count"


def test_the_fabric_manager_says_what_failed_without_handles() -> None:
    said = told("fabric-manager", "switch-error.txt")
    assert said == {
        ("host", "", "fabric_manager"): "failed to allocate multicast team for request id ...",
        ("pci", "0000:87:00.0", "sxid"): 10003,
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the collection of outputs is not there")
def test_collected_outputs() -> None:
    tree = values(read((SHARED / "lspci-vvv-dell-bridges-gpus-nics.txt").read_bytes()))
    assert sum(key == "class" and tree["pci", name, key] == "nvswitch" for _, name, key in tree) == 4
    assert tree["pci", "0000:82:01.0", "redirect"] == "yes"
    assert tree["pci", "0000:19:00.0", "parent"] == "0000:17:01.0"
    assert values(read((SHARED / "syslog-ib-flap-azure.txt").read_bytes()))["netdev", "ib6", "carrier_lost"] == 6
    xids = [row["number"] for row in read((SHARED / "dmesg-xid119.txt").read_bytes()).rows if row["key"] == "xid"]
    assert xids == [119] * 5
