"""What rules about environment variables share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.settings import Setting, settings_of

if TYPE_CHECKING:
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

MOST_SHOWN = 4

NEEDS_SETTINGS = (
    "the settings: NCCL_DEBUG=INFO with INIT and ENV in NCCL_DEBUG_SUBSYS prints those that NCCL reads; `env | grep -E"
    " 'NCCL|UCX|FI_'` or the job script shows the others"
)
NEEDS_SCRIPT = (
    "the job script or `env | grep -E 'NCCL|UCX|FI_'` of a rank, as one more input: NCCL never prints a variable that"
    " it does not read"
)
NEEDS_RELEASE = "the release of NCCL (`NCCL version ...`): it decides which names and values are known"


def written(setting: Setting) -> str:
    return f"{setting.name}={setting.value}"


def by_scripts(facts: Facts) -> bool:
    """Does the input hold settings that people wrote?"""
    return any(not one.in_force for settings in settings_of(facts).values() for one in settings)


def hosts_and_names(settings: Iterable[Setting]) -> dict[str, tuple[str, ...]]:
    """The subject of a finding."""
    listed = list(settings)
    machines = {machine for one in listed for machine in one.machines}
    return {
        "hosts": tuple(sorted(machines)),
        "variable": tuple(dict.fromkeys(one.name for one in listed)),
    }


def proof(settings: Iterable[Setting]) -> tuple[Evidence, ...]:
    """The first line of each, then more."""
    lists = [one.evidence for one in settings]
    return tuple(dict.fromkeys(line for turn in range(4) for one in lists for line in one[turn : turn + 1]))[:4]


def vendor_profile(facts: Facts) -> str:
    """The network or cloud whose guide or image sets such variables itself; "" where none is seen."""
    kinds = {networks.kind(seen.value) for seen in facts.networks}
    for kind, name in (("tcpx", "GPUDirect-TCPX"), ("tcpxo", "GPUDirect-TCPXO"), ("efa", "the OFI plugin")):
        if kind in kinds:
            return name
    names = settings_of(facts)
    if any(name.startswith(("NCCL_GPUDIRECTTCPX_", "NCCL_FASTRAK_")) for name in names):
        return "GPUDirect-TCPX(O)"
    if any(name.startswith(("FI_EFA_", "OFI_NCCL_")) for name in names):
        return "EFA"
    if any(name.startswith("FI_CXI_") for name in names):
        return "Slingshot"
    if any(seen.value.lower().startswith(("cxi", "opx", "psm")) for seen in facts.notes("net_ofi_provider")):
        return "Slingshot or Omni-Path"
    if any(nic.name.startswith("hfi1") for nics in facts.nic_lists.values() for nic in nics):
        return "Omni-Path"
    if any(one.value.startswith("/opt/microsoft/") for one in names.get("NCCL_TOPO_FILE", ())) or any(
        "VMBUS" in seen.value.upper() for seen in facts.guest_signs
    ):
        return "Azure"
    if any("gIB" in seen.value for seen in facts.networks):
        return "Google gIB"
    return ""
