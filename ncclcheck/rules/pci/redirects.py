"""Findings of PCI004 by what lspci says of ACS, and the kernel of the IOMMU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import machine_names
from ncclcheck.facts.iommu import Iommu, iommus
from ncclcheck.facts.parts import of_kind
from ncclcheck.facts.pci_tree import PciTree, PeerPath, pci_trees, peer_paths
from ncclcheck.rules.common import OTHER_LIMIT, SEVERAL_NODES, Numbers, compared, counted, felt, listed, place
from ncclcheck.rules.model import Confidence, Finding, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

_FIX_ACS = (
    "ACS off in the BIOS, or at each boot, as root: `for b in {bridges}; do setpci -s $b ECAP_ACS+0x6.w=0000; done`;"
    " `sudo lspci -vvv | grep ACSCtl` must show ReqRedir- CmpltRedir-"
)
_MOST_NAMED = 8
# Class 0604; machines need not be wired alike.
_ALL_BRIDGES = "$(lspci -Dn -d ::0604 | cut -d' ' -f1)"
_FIX_IOMMU = (
    "iommu=pt on the kernel command line (GRUB_CMDLINE_LINUX, update-grub, reboot), or VT-d and AMD-Vi off in the BIOS;"
    " dmesg | grep 'Default domain' must say Passthrough"
)


def findings(rule: Rule, facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    redirected: list[tuple[PciTree, list[PeerPath]]] = []
    for tree in pci_trees(facts):
        paths = [path for path in peer_paths(tree) if _redirecting(path) and _is_used(path, facts)]
        if paths and not tree.guest:
            redirected.append((tree, paths))
    if redirected:
        yield _by_acs(rule, redirected, facts, estimator)
    by_iommu = [one for one in iommus(facts) if one.refused or one.mode == "translated"]
    for refused in (True, False):
        some = [one for one in by_iommu if bool(one.refused) is refused and _crosses_pcie(facts, one)]
        if some:
            yield _by_iommu(rule, some, facts, estimator)


def all_clear(facts: Facts) -> bool:
    """On all machines that are shown, is ACS on no path and the IOMMU out of the way? Guests are another question."""
    known = {one.place for one in iommus(facts) if one.mode in ("off", "passthrough")}
    return bridges_clear(facts) and all(tree.guest or tree.place in known for tree in _computing(facts))


def bridges_clear(facts: Facts) -> bool:
    """On all machines that are shown, is ACS on no path?"""
    trees = _computing(facts)
    open_paths = [path for tree in trees if not tree.guest for path in peer_paths(tree) if not _is_known(path)]
    shown = [tree for tree in trees if tree.guest or _is_shown(tree)]
    return bool(trees) and len(shown) == len(trees) and not open_paths


def _computing(facts: Facts) -> list[PciTree]:
    return [tree for tree in pci_trees(facts) if tree.computing]


def _is_shown(tree: PciTree) -> bool:
    return any(device.now.lanes is not None for device in tree.computing)


def _is_known(path: PeerPath) -> bool:
    return all(bridge.redirect is not Answer.UNKNOWN for bridge in path.bridges)


def _redirecting(path: PeerPath) -> bool:
    return any(bridge.redirect is Answer.YES for bridge in path.bridges)


def _is_used(path: PeerPath, facts: Facts) -> bool:
    """GPUs with NVLink between them do not need PCIe; a NIC is needed where several machines may be."""
    if "nic" in (path.a.kind, path.b.kind):
        return facts.crossing.answer is not Answer.NO
    return not _has_nvlink(facts)


def _crosses_pcie(facts: Facts, one: Iommu) -> bool:
    """Are there two devices that may talk over PCIe? A machine with one GPU sends nothing from device to device."""
    if facts.crossing.answer is Answer.NO and _has_nvlink(facts):
        return False
    devices = {device.name for tree in pci_trees(facts) if tree.place == one.place for device in tree.computing}
    devices |= {part.name for part in of_kind(facts, "gpu") if part.place == one.place}
    return bool(one.refused) or len(devices) > 1 or facts.visibility.log


def _has_nvlink(facts: Facts) -> bool:
    return facts.nvlink is Answer.YES or any(part.text("active") == "yes" for part in of_kind(facts, "nvlink"))


def _by_acs(
    rule: Rule, redirected: list[tuple[PciTree, list[PeerPath]]], facts: Facts, estimator: Estimator
) -> Finding:
    machines = machine_names(tree.place for tree, _ in redirected)
    first = redirected[0][1]
    bridges = {bridge.name: bridge for path in first for bridge in path.bridges if bridge.redirect is Answer.YES}
    nics = any("nic" in (path.a.kind, path.b.kind) for path in first)
    gpus = any("nic" not in (path.a.kind, path.b.kind) for path in first)
    between = " and ".join(["between GPUs"] * gpus + ["between GPUs and NICs"] * nics)
    lines = tuple(line for bridge in bridges.values() for line in bridge.evidence("redirect"))
    where = place(machines, "a machine")
    few = len(machines) < 2 and len(bridges) <= _MOST_NAMED
    return rule.finding(
        Severity.WARNING,
        Confidence.HIGH,
        f"ACS on {counted(len(bridges), 'bridge')} of {where} ({listed(list(bridges))}) sends traffic {between}"
        " of one switch up to the root complex",
        _FIX_ACS.format(bridges=" ".join(bridges) if few else _ALL_BRIDGES),
        {"hosts": machines, "devices": tuple(bridges)[:16]},
        lines[:4],
        **_numbers(facts, estimator, several=nics),
    )


def _by_iommu(rule: Rule, some: list[Iommu], facts: Facts, estimator: Estimator) -> Finding:
    machines = machine_names(one.place for one in some)
    refused = [device for one in some for device in one.refused]
    lines: tuple[Evidence, ...] = tuple(line for one in some for line in one.evidence)
    where = place(machines, "a machine")
    what = (
        f"The IOMMU of {where} refused {listed(refused)} access to memory: what GPUs and NICs send each other does not"
        " arrive"
        if refused
        else f"The IOMMU of {where} translates: what GPUs and NICs send each other goes up to the root complex"
    )
    return rule.finding(
        Severity.WARNING,
        Confidence.HIGH if refused else Confidence.MEDIUM,
        what,
        _FIX_IOMMU,
        {"hosts": machines, "devices": tuple(refused)[:16]},
        lines[:4],
        **_numbers(facts, estimator, several=not _has_nvlink(facts)),
    )


def _numbers(facts: Facts, estimator: Estimator, *, several: bool) -> Numbers:
    """Outputs of tools are of one machine; over several the NICs' traffic counts as well."""
    base: Mapping[str, object] = {} if facts.visibility.log else SEVERAL_NODES if several else {"nodes": 1}
    numbers = compared(estimator, base, {**base, "redirect": "acs"})
    return felt(numbers, OTHER_LIMIT)
