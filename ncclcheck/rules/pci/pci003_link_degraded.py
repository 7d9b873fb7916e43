"""A GPU or NIC has a slower PCIe link than it could have, or than its siblings.

## What it finds

- Errors: in `lspci -vvv` a link of a GPU or compute NIC, or of a bridge above it, whose width (`LnkSta`) is below what
  both its ends can (`LnkCap`), or a NIC's speed below that; in `nvidia-smi` a GPU whose width is below the maximum
  while others of the machine (or a GPU on bare metal) are not, or whose generation is below the maximum **under load**
  (utilization above 0 at P0, or clocks that do not idle).
- Warnings: the same where the other end of the link is not told (a narrow slot looks like that, too); the kernel's
  `available PCIe bandwidth, limited by` at boot, unless all cards have it alike; many corrected errors (AER) of a
  device, which a marginal link makes.

GPUs (or NICs beside GPUs) of one model and one machine, of which a minority has a narrower or slower PCIe link:

- in a topology dump (`NCCL_TOPO_DUMP_FILE`): `link_width="8"` or an older `link_speed` on one `<pci>` element where the
  siblings have `link_width="16"`;
- in a log with GRAPH lines: `PCI[24.0] - GPU/...` for one GPU and `PCI[48.0]` for the others.

Both are a warning of **low** confidence. Until 2.30.6 NCCL reads the *maxima* of a device and of the port above it, so
a link that trained down does not show at all, and what shows is a slot or a riser with fewer lanes. From 2.30.7 GPUs
are read as they are at that moment, where an idle GPU may stand at generation 1. Only `lspci` or NVML under load
decide. Machines with signs of a hypervisor are left out: their links are emulated.

## Why it costs

Bandwidth follows lanes and generation: x8 of x16 halves it, a generation back too. x16 carries 15.75, 31.5 and 63 GB/s
one way at generation 3, 4 and 5, of which a ring of PCIe cards reaches about two thirds; the ring runs at the pace of
the slowest. With NVLink inside the node the link still carries GPUDirect RDMA: 400 Gb/s need 50 GB/s, x8 of
generation 5 has 31.5.

## Example

    <pci busid="0000:5e:00.0" class="0x030200" device="0x26b9" link_speed="16.0 GT/s PCIe" link_width="8" ...>

where three other L40S of the machine have `link_width="16"`, or on such a machine

    LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM L1
    LnkSta: Speed 16GT/s (ok), Width x8 (downgraded)

## How to fix

    sudo lspci -vvs 5e:00.0 | grep -E 'LnkCap|LnkSta'     # Width x8 (downgraded), Speed 16GT/s
    nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max,pcie.link.gen.current --format=csv

under load. Reseat the card, riser or cable; look for bifurcation in the firmware; move the card to an x16 slot;
compare with a good machine (`lspci -tv`). Errors of the link stand in dmesg as AER.

## When it is not a problem

x8 on all cards by design (cloud A10G and L40S, desktop boards with two slots). Equal halves of a board. An idle GPU at
generation 1, a free port of a switch, a narrow link to NVSwitches (management only). Unreadable values: 12.0 in the
log, an empty text or width 0 in the file. A management port at 5 GT/s above a switch.

## References

- NCCL sources: `src/graph/xml.cc` (max_link_speed, max_link_width), `src/graph/topo.cc`
- nvidia-smi documentation: pcie.link.gen, pcie.link.width; PCI Express base specification, Link Status register
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.graph_dump import dumped_gpus
from ncclcheck.facts.matrix import NEAR
from ncclcheck.facts.slow_links import links_told
from ncclcheck.facts.topo_file import TopoFile, topo_files
from ncclcheck.rules.common import OTHER_LIMIT, Numbers, compared, felt, listed, no_number, of_a_job
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.pci import slow_links
from ncclcheck.rules.pci.slow_links import AS_LINK

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# From this release on NCCL reads the link of a GPU as it is at the moment.
_CURRENT_SINCE = 23007
# What NCCL takes for a speed that it does not know.
_UNKNOWN_GBPS = 12.0


class Link(NamedTuple):
    """A device and its link: GB/s as NCCL counts it, and how the input words it. gbit: the rate of a NIC's port."""

    name: str
    gbps: float
    text: str
    evidence: Evidence
    gbit: float | None = None


class Group(NamedTuple):
    """Devices of one model on one machine."""

    what: str
    where: str
    links: tuple[Link, ...]

    @property
    def usual(self) -> float:
        return Counter(link.gbps for link in self.links).most_common(1)[0][0]

    @property
    def slow(self) -> tuple[Link, ...]:
        """Those slower than most; empty where no clear majority tells what is usual."""
        slow = tuple(link for link in self.links if link.gbps < self.usual)
        same = sum(link.gbps == self.usual for link in self.links)
        return slow if same > 1 and same * 2 > len(self.links) else ()


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    groups = [group for group in (*_from_files(facts), *_from_log(facts)) if len(group.links) > 1]
    slow = [group for group in groups if group.slow]
    told = list(slow_links.findings(RULE, facts, estimator))
    yield from told
    if slow and not told:
        yield _finding(slow, facts, estimator)
    if not groups and not links_told(facts):
        yield NotEvaluated(
            "`sudo lspci -vvv`, or `nvidia-smi -q` under load; a topology dump (NCCL_TOPO_DUMP_FILE) or the log's"
            " topology (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH) tells of links that differ from their siblings"
        )


def _from_files(facts: Facts) -> Iterator[Group]:
    for file in topo_files(facts):
        if file.skeleton or file.guest_signs:
            continue
        models: dict[tuple[str, str], list[Link]] = {}
        for gpu in file.gpus:
            if gpu.pci.gbps is not None and not gpu.pci.speed.startswith("2.5"):  # an idle GPU may stand there
                link = Link(gpu.name, gpu.pci.gbps, f"{gpu.pci.speed} x{gpu.pci.width}", gpu.pci.line)
                models.setdefault(("GPUs", gpu.pci.device), []).append(link)
        for nic in file.nics:
            if nic.rdma and nic.pci and nic.pci.gbps is not None and _is_near(file, nic.name):
                link = Link(nic.name, nic.pci.gbps, f"{nic.pci.speed} x{nic.pci.width}", nic.line, nic.gbit)
                models.setdefault(("NICs", nic.pci.device), []).append(link)
        for (what, _), links in models.items():
            yield Group(what, "", tuple(links))


def _is_near(file: TopoFile, nic: str) -> bool:
    """Others are front-end or storage, in whatever slot was left."""
    return any(file.between(gpu.name, nic) in NEAR for gpu in file.gpus)


def _from_log(facts: Facts) -> Iterator[Group]:
    if facts.guest_signs:
        return
    machines: dict[str, list[Link]] = {}
    for gpu in dumped_gpus(facts):
        current = gpu.release is not None and gpu.release >= _CURRENT_SINCE
        if gpu.pci_gbps is not None and gpu.pci_gbps != _UNKNOWN_GBPS and not current:
            link = Link(f"GPU {gpu.gpu}", gpu.pci_gbps, f"PCI[{gpu.pci_gbps:.1f}]", gpu.evidence)
            machines.setdefault(gpu.machine, []).append(link)
    for machine, links in machines.items():
        yield Group("GPUs", machine, tuple(links))


def _finding(groups: Sequence[Group], facts: Facts, estimator: Estimator) -> Finding:
    first = groups[0]
    slow = first.slow[0]
    usual = next(link for link in first.links if link.gbps == first.usual)
    names = listed([link.name for link in first.slow])
    where = f" of {first.where}" if first.where else ""
    more = f"; the same kind of difference on {len(groups) - 1} more" if len(groups) > 1 else ""
    return RULE.finding(
        severity=Severity.WARNING,
        confidence=Confidence.LOW,
        message=f"The PCIe link of {names}{where} is {slow.text} ({slow.gbps:g} GB/s as NCCL counts), most"
        f" {first.what} of this kind have {usual.text} ({usual.gbps:g} GB/s){more}; these are maxima: lspci tells what"
        " the link does",
        fix="lspci -vvs <address> | grep -E 'LnkCap|LnkSta' under load; reseat the card or riser, check bifurcation and"
        " the slot's lanes, compare with a good machine",
        subject={
            "hosts": tuple(sorted({group.where for group in groups if group.where})),
            "devices": tuple(link.name for group in groups for link in group.slow)[:16],
        },
        evidence=tuple(dict.fromkeys((slow.evidence, usual.evidence, *(link.evidence for link in first.slow))))[:4],
        **_numbers(slow, usual, facts, estimator),
    )


def _numbers(slow: Link, usual: Link, facts: Facts, estimator: Estimator) -> Numbers:
    base = of_a_job(facts)
    if slow.gbit is not None:
        left = slow.gbps * 8
        if left >= slow.gbit:
            return no_number("the link still carries what the port of this NIC sends")
        return compared(estimator, {**base, "nic_gbit": slow.gbit}, {**base, "nic_gbit": left})
    if slow.gbps not in AS_LINK or usual.gbps not in AS_LINK:
        return no_number("the model knows no link of this width")
    sides = [
        {**base, "pcie_gen": generation, "pcie_width": lanes}
        for generation, lanes in (AS_LINK[usual.gbps], AS_LINK[slow.gbps])
    ]
    return felt(compared(estimator, *sides), OTHER_LIMIT)


RULE = Rule(
    code="PCI003",
    name="link-degraded",
    severity=Severity.ERROR,
    summary="A GPU or NIC has a slower PCIe link than it could have, or than its siblings",
    check=check,
    since="0.1.0",
)
