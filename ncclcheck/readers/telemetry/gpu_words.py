"""What nvidia-smi says of a GPU under the names of its three formats, in the words of the fact table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from ncclcheck.readers.telemetry import smi_values as values
from ncclcheck.readers.telemetry.smi_values import Read


class Word(NamedTuple):
    """text: paths in `-q`. xml: paths in `-q -x`. csv: fields of `--query-gpu`. A key may have several words: what they
    say is put together (`GpuValues`)."""

    key: str
    read: Callable[[str], Read | None]
    text: tuple[str, ...] = ()
    xml: tuple[str, ...] = ()
    csv: tuple[str, ...] = ()


_GEN = "PCI/GPU Link Info/PCIe Generation/"
_WIDTH = "PCI/GPU Link Info/Link Width/"
_XML_LINK = "pci/pci_gpu_link_info/"
# NVML's bits of why clocks are low.
CLOCK_REASONS = {
    0x1: "idle", 0x4: "sw_power_cap", 0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake",
}  # fmt: skip


def _reason(key: str, text: str, name: str) -> Word:
    """Why clocks are low: renamed from throttle to event reasons."""
    return Word(
        key,
        values.flag,
        tuple(f"Clocks {which} Reasons/{text}" for which in ("Event", "Throttle")),
        tuple(f"clocks_{which}_reasons/clocks_{which}_reason_{name}" for which in ("event", "throttle")),
        tuple(f"clocks_{which}_reasons.{name}" for which in ("event", "throttle")),
    )


def _health(text: str, name: str) -> Word:
    """Of the fabric; read as the tool's words, put together in `GpuValues`."""
    return Word(
        f"health {text.lower()}", values.phrase, (f"Fabric/Health/{text}",), (f"fabric/health/{name}",),
        (f"fabric.health.{name}",),
    )  # fmt: skip


WORDS = (
    Word("model", values.model, ("Product Name",), ("product_name",), ("name", "gpu_name")),
    Word("uuid", values.uuid, ("GPU UUID",), ("uuid",), ("uuid", "gpu_uuid")),
    Word("bus_id", values.bus_id, (), (), ("pci.bus_id", "gpu_bus_id")),
    Word("index", values.number, (), (), ("index",)),
    Word("persistence", values.switch, ("Persistence Mode",), ("persistence_mode",), ("persistence_mode",)),
    Word("mig", values.switch, ("MIG Mode/Current",), ("mig_mode/current_mig",), ("mig.mode.current",)),
    Word(
        "virtualization", values.slug, ("GPU Virtualization Mode/Virtualization Mode",),
        ("gpu_virtualization_mode/virtualization_mode",),
    ),
    Word("recovery_action", values.slug, ("GPU Recovery Action",), ("gpu_recovery_action",), ("gpu_recovery_action",)),
    Word(
        "reset", values.flag, ("GPU Reset Status/Reset Required",), ("gpu_reset_status/reset_required",),
        ("reset_status.reset_required",),
    ),
    Word(
        "drain-and-reset", values.flag, ("GPU Reset Status/Drain and Reset Recommended",),
        ("gpu_reset_status/drain_and_reset_recommended",), ("reset_status.drain_and_reset_recommended",),
    ),
    # of device, host and platform the least; the device alone may be able to do more
    Word(
        "pcie_gen_max", values.positive, (_GEN + "Max",), (_XML_LINK + "pcie_gen/max_link_gen",),
        ("pcie.link.gen.max",),
    ),
    Word(
        "pcie_gen", values.positive, (_GEN + "Current",), (_XML_LINK + "pcie_gen/current_link_gen",),
        ("pcie.link.gen.current",),
    ),
    Word(
        "pcie_lanes_max", values.positive, (_WIDTH + "Max",), (_XML_LINK + "link_widths/max_link_width",),
        ("pcie.link.width.max",),
    ),
    Word(
        "pcie_lanes", values.positive, (_WIDTH + "Current",), (_XML_LINK + "link_widths/current_link_width",),
        ("pcie.link.width.current",),
    ),
    Word("performance_state", values.number, ("Performance State",), ("performance_state",), ("pstate",)),
    _reason("idle", "Idle", "gpu_idle"),
    _reason("sw_power_cap", "SW Power Cap", "sw_power_cap"),
    _reason("hw_thermal_slowdown", "HW Slowdown/HW Thermal Slowdown", "hw_thermal_slowdown"),
    _reason("hw_power_brake", "HW Slowdown/HW Power Brake Slowdown", "hw_power_brake_slowdown"),
    _reason("sw_thermal_slowdown", "SW Thermal Slowdown", "sw_thermal_slowdown"),
    Word(
        "utilization_pct", values.number, ("Utilization/GPU", "Utilization/Gpu"), ("utilization/gpu_util",),
        ("utilization.gpu",),
    ),
    Word("bar1_mib", values.number, ("BAR1 Memory Usage/Total",), ("bar1_memory_usage/total",)),
    Word(
        "ecc_uncorrected", values.number,
        (
            "ECC Errors/Volatile/SRAM Uncorrectable", "ECC Errors/Volatile/SRAM Uncorrectable Parity",
            "ECC Errors/Volatile/SRAM Uncorrectable SEC-DED", "ECC Errors/Volatile/DRAM Uncorrectable",
            "ECC Errors/Volatile/Double Bit/Total",
        ),
        (
            "ecc_errors/volatile/sram_uncorrectable", "ecc_errors/volatile/sram_uncorrectable_parity",
            "ecc_errors/volatile/sram_uncorrectable_secded", "ecc_errors/volatile/dram_uncorrectable",
            "ecc_errors/volatile/double_bit/total",
        ),
        ("ecc.errors.uncorrected.volatile.total",),
    ),
    Word(
        "ecc_corrected", values.number,
        (
            "ECC Errors/Volatile/SRAM Correctable", "ECC Errors/Volatile/DRAM Correctable",
            "ECC Errors/Volatile/Single Bit/Total",
        ),
        (
            "ecc_errors/volatile/sram_correctable", "ecc_errors/volatile/dram_correctable",
            "ecc_errors/volatile/single_bit/total",
        ),
        ("ecc.errors.corrected.volatile.total",),
    ),
    Word(
        "remap_pending", values.flag, ("Remapped Rows/Pending",), ("remapped_rows/remapped_row_pending",),
        ("remapped_rows.pending",),
    ),
    Word(
        "remap_failed", values.flag, ("Remapped Rows/Remapping Failure Occurred",),
        ("remapped_rows/remapped_row_failure",), ("remapped_rows.failure",),
    ),
    Word(
        "retire_pending", values.flag, ("Retired Pages/Pending Page Blacklist", "Retired Pages/Pending"),
        ("retired_pages/pending_blacklist", "retired_pages/pending_retirement"), ("retired_pages.pending",),
    ),
    Word("fabric_state", values.slug, ("Fabric/State",), ("fabric/state",), ("fabric.state",)),
    Word("fabric_status", values.fabric_status, ("Fabric/Status",), ("fabric/status",), ("fabric.status",)),
    Word(
        "fabric_clique", values.number, ("Fabric/CliqueId",), ("fabric/cliqueId",),
        ("fabric.cliqueId", "fabric.clique_id"),
    ),
    Word(
        "fabric_cluster", values.cluster, ("Fabric/ClusterUUID",), ("fabric/clusterUuid",),
        ("fabric.clusterUuid", "fabric.cluster_uuid"),
    ),
    _health("Summary", "summary"),
    _health("Bandwidth", "bandwidth"),
    _health("Route Recovery in progress", "route_recovery_in_progress"),
    _health("Route Unhealthy", "route_unhealthy"),
    _health("Access Timeout Recovery", "access_timeout_recovery"),
    _health("Incorrect Configuration", "incorrect_configuration"),
)  # fmt: skip


@cache
def words_of(form: str) -> Mapping[str, Word]:
    """By path or field. form: text, xml or csv."""
    return {path: word for word in WORDS for path in getattr(word, form)}
