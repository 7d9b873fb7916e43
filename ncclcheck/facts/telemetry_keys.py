"""What tools can tell of the parts of a machine: the words of the fact table `telemetry`.

A row says that the property `key` of the thing `name` of a kind `thing` has a value. Readers of all tools use the same
words, so that what two tools say of one part can be joined and compared. Units stand in the key.
"""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """about: what the value means. steady: the same at every reading of a healthy machine, so that two tools that
    differ contradict each other; clocks, counters and states are not."""

    about: str
    steady: bool = False


# Keys that tell parts of different machines apart.
IDENTIFIERS = ("uuid", "guid")
# Keys whose values are never shown.
HIDDEN = (*IDENTIFIERS, "fabric_cluster")

# Names of things. gpu: bus id ("0000:1b:00.0"), else "gpu0" by nvidia-smi's index. nvlink: the GPU's name, a blank and
# the link's number. port: RDMA device and port ("mlx5_0/1"). gid: port and index ("mlx5_0/1/3"). netdev: "eth0".
# pci: bus id. module: of the kernel. host: always "".
KEYS: dict[str, dict[str, Key]] = {
    "gpu": {
        "index": Key("number that nvidia-smi gives it", True),
        "bus_id": Key("PCI address, four digits of domain, lower case", True),
        "uuid": Key("joins outputs; never shown"),
        "model": Key("product name", True),
        "pcie_gen": Key("generation of the link now: falls on an idle GPU"),
        "pcie_gen_max": Key("highest generation of device and slot", True),
        "pcie_lanes": Key("lanes of the link now"),
        "pcie_lanes_max": Key("highest lanes of device and slot", True),
        "utilization_pct": Key("share of time with a kernel running, in percent"),
        "performance_state": Key("0 is the fastest"),
        "idle": Key("yes or no: clocks are down for want of work"),
        "virtualization": Key("none, pass-through, vgpu, host-vgpu or host-vsga", True),
        "mig": Key("enabled or disabled"),
        "mig_instances": Key("GPU instances that are listed"),
        "persistence": Key("enabled or disabled"),
        "ecc_uncorrected": Key("errors since the driver was loaded"),
        "ecc_corrected": Key("errors since the driver was loaded"),
        "remap_pending": Key("yes or no: a row of memory waits for a reset to be replaced"),
        "remap_failed": Key("yes or no: no spare row was left"),
        "retire_pending": Key("yes or no: a page of memory waits for a reboot to be retired"),
        "hw_thermal_slowdown": Key("yes or no, now"),
        "hw_power_brake": Key("yes or no, now"),
        "sw_power_cap": Key("yes or no, now"),
        "sw_thermal_slowdown": Key("yes or no, now"),
        "recovery_action": Key("none, reset, reboot, drain-p2p or drain-and-reset"),
        "lost": Key("yes: the driver cannot reach it"),
        "xid": Key("number of an error of the driver"),
        "fabric_state": Key("completed, in-progress, not-started or not-supported"),
        "fabric_status": Key("success, or the error"),
        "fabric_health": Key("what is unhealthy, in the tool's words; healthy"),
        "fabric_cluster": Key("UUID of the NVLink domain; never shown"),
        "fabric_clique": Key("number of the clique in the domain"),
        "bar1_mib": Key("memory that others can reach over PCIe", True),
        "diagnosis": Key("pass, fail, warn, skip, settings (it fails for settings alone) or unknown; a blank and the"
                         " name of DCGM's test; then, if it says why, a colon and the words"),
    },
    "nvlink": {
        "active": Key("yes or no"),
        "rate_gbps": Key("raw rate of the link, one direction"),
        "remote": Key("bus id of the peer", True),
        "replay_errors": Key("counter"),
        "recovery_errors": Key("counter"),
        "crc_errors": Key("counter"),
        "recovery_failed": Key("counter of recoveries that failed (NVLink 5)"),
    },
    "port": {
        "state": Key("active, down, init or armed"),
        "physical": Key("link-up, polling, disabled or as printed"),
        "rate_gbit": Key("Gb/s"),
        "link_layer": Key("infiniband or ethernet", True),
        "guid": Key("joins outputs; never shown"),
        "lid": Key("local id; 0 or 65535: none"),
        "mtu": Key("active MTU in bytes"),
        "mtu_max": Key("highest MTU in bytes", True),
        "lanes": Key("lanes in use"),
        "netdev": Key("its network interface", True),
        "adapter": Key("type of the adapter", True),
        "firmware": Key("version of the adapter's firmware", True),
        "switch": Key("name of the switch behind it (leaf)", True),
    },
    "gid": {
        "address": Key("GID; of a link-local one fe80:: alone, for the rest is made of the adapter's address"),
        "ipv4": Key("its IPv4 address"),
        "version": Key("v1 or v2 of RoCE"),
        "netdev": Key("its network interface"),
    },
    "netdev": {
        "rate_gbit": Key("Gb/s"),
        "link": Key("yes or no: a carrier is there"),
        "bus_id": Key("bus id of its adapter; names change at boot"),
        "carrier_lost": Key("how often the link went away"),
    },
    # counters of a port, of an interface or of a GPU: the name is that of the part, the key is the counter's
    "counter": {},
    "pci": {
        "class": Key("bridge, gpu, nic, nvswitch or other", True),
        "model": Key("product name", True),
        "parent": Key("bus id of the bridge above", True),
        "gts": Key("speed of the link now, GT/s per lane: falls on an idle GPU"),
        "gts_max": Key("highest speed of the device, GT/s per lane", True),
        "lanes": Key("lanes of the link now"),
        "lanes_max": Key("highest lanes of the device", True),
        "redirect": Key("yes or no: ACS sends requests or completions of peers upstream", True),
        "limited_by": Key("bus id of the slower link above, as the kernel said at boot"),
        "boot_gbit": Key("Gb/s that the kernel found the way to the device good for, at boot"),
        "capable_gbit": Key("Gb/s that the device itself could, as the kernel said then"),
        "errors": Key("an error that the kernel reported of the link (AER): corrected, uncorrected or fatal"),
        "dma_fault": Key("yes: the IOMMU refused the device an address"),
        "cable": Key("plugged, unplugged, or what is wrong with it: events, in order"),
        "scarce_power_watts": Key("W that the slot offers, where the NIC's driver finds that too little"),
        "failure": Key("why the driver gave the device up"),
        "sxid": Key("number of an NVSwitch's error, in words whether it is fatal"),
        "driver": Key("kernel driver in use", True),
    },
    # told by NCCL's RAS. communicator: its hash, 16 digits, or "group 0" of a report's table. rank: the communicator's
    # hash, a slash and its rank in it. process: address of its machine, a slash and its pid. job: always "".
    "communicator": {
        "count": Key("communicators in the group"),
        "ranks": Key("ranks of each"),
        "nodes": Key("machines of each"),
        "ranks_per_node": Key("a number or a range"),
        "status": Key("init, running, finalize, abort or nocomm: of the rank that is furthest"),
        "errors": Key("ok, or some of mismatch, error and incomplete with commas"),
        "missing_ranks": Key("ranks that gave no data"),
        "launched": Key("operations that several of its ranks have launched; text: their kind, or any"),
    },
    "rank": {
        "state": Key("dead, unresponsive or missing: it gave no data"),
        "status": Key("init, running, finalize, abort or nocomm"),
        "error": Key("initialization or asynchronous, a colon and the error"),
        "launched": Key("operations that it has launched; text: their kind, or any"),
        "process": Key("name of its process"),
        "ecc_uncorrected": Key("yes: its GPU has errors since the driver was loaded"),
        "nvlinks_inactive": Key("yes: some of its GPU's"),
    },
    "process": {
        "state": Key("dead, unresponsive, or what the monitor saw of it (recovered, disconnected)"),
        "gpus": Key("CUDA's numbers of its GPUs"),
    },
    "job": {
        "diagnosis": Key("ok or info, a blank, and what NCCL's own diagnostics say"),
        "diagnosed_ranks": Key("ranks that the diagnostics are of"),
        "dead_processes": Key("processes that RAS takes for dead"),
        "time": Key("when RAS reported"),
        "ras_timeouts": Key("messages of RAS that came too late"),
    },
    "module": {
        "loaded": Key("yes or no", True),
        "missing_symbol": Key("the kernel refused it for want of this symbol"),
    },
    "host": {
        "driver": Key("version of NVIDIA's driver", True),
        "cuda": Key("highest version of CUDA that the driver supports", True),
        "driver_flavour": Key("open or proprietary kernel modules", True),
        "xid": Key("number of an error of the driver, of a GPU that is not named"),
        "sxid": Key("number of an error of an NVSwitch that is not named, in words whether it is fatal"),
        "driver_mismatch": Key("yes: library and kernel module are of different versions"),
        "hypervisor": Key("name of the hypervisor", True),
        "sockets": Key("number of CPU sockets", True),
        "numa_nodes": Key("NUMA nodes that have CPUs", True),
        "iommu": Key("off, passthrough or translated", True),
        "iommu_enabled": Key("yes: the command line switches it on; the kernel's default decides what it does", True),
        "shm_mib": Key("size of /dev/shm"),
        "memlock_kib": Key("limit of locked memory; inf: unlimited"),
        "nofile": Key("limit of open files; inf: unlimited"),
        "nofile_hard": Key("how far a process may raise its limit of open files: NCCL does"),
        "nproc": Key("limit of processes; inf: unlimited"),
        "fabric_manager": Key("what the fabric manager says of its failure"),
        "topology_failed": Key("yes: nvidia-smi could not print its matrix"),
        "diagnosis": Key("as that of a gpu, where DCGM names none"),
    },
}  # fmt: skip


def nccl_name(port: str) -> str:
    """A port ("mlx5_0/1") as NCCL names it: the second one of a card is a device of its own ("mlx5_0:2")."""
    device, _, number = port.rpartition("/")
    return device if number == "1" else f"{device}:{number}"
