"""ACS or a translating IOMMU sends traffic between PCIe devices up to the root complex.

## What it finds

On bare metal, by outputs of tools:

- `ACSCtl` with `ReqRedir+` or `CmpltRedir+` in `sudo lspci -vvv`, on a port of a switch that has both GPUs, or the GPU
  and a NIC, below it. Root ports do not count: devices below different root ports meet in the CPU, redirected or not.
- an IOMMU that translates: `iommu: Default domain type: Translated` beside lines of DMAR or AMD-Vi in the kernel's log,
  `intel_iommu=on` without `iommu=pt` in /proc/cmdline where something tells that the machine is no guest.
- `DMAR: [DMA Read] Request device [...]`, `AMD-Vi: Event logged [IO_PAGE_FAULT ...` for a GPU or NIC: the IOMMU has
  refused it an address.

No NCCL log shows the ACS bits. What a log does show are their signatures:

- `Got completion ... with error 4 ... vendor err 81`: the NIC could not reach GPU memory. On bare metal that is mostly
  ACS redirect or an IOMMU that translates; `HINT: In many cases this error occurs when ACS is enabled` (2.30.7) says
  the same.
- RCCL: `Missing "iommu=pt" from kernel command line`: the IOMMU translates.
- All GPUs of one machine without NVLink are connected over P2P, and PyTorch's watchdog ends the very first collective
  (`SeqNum=1`), with nothing else on record. Low confidence: other hangs look the same.

The first one in a virtual machine is information: ACS must stay on in the host there, and the guest needs ATS.

## Why it costs

With ACS redirect a packet from one device to its neighbour under the same switch climbs to the root complex and comes
back. At best that is slow: 0.32 (0.25 to 0.56) of each rail's rate and 109 GB/s (70 to 140) for a node with eight
rails. At worst it never arrives: the first collective hangs, or the work request fails as above. Traffic over NVLink
inside a node does not pass PCIe and costs nothing.

## Example

    dl-a14:9911:9987 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.9.1.15<46021> with
    error 4, opcode 0, len 0, vendor err 81 (Recv)

## How to fix

    lspci -vvv | grep -B40 'ACSCtl.*ReqRedir+' | grep -E '^[0-9a-f]'    # bridges that redirect (root)
    dmesg | grep -iE 'iommu.*(Translated|Passthrough)|DMAR|AMD-Vi|IO_PAGE_FAULT'
    cat /proc/cmdline                                                  # iommu=pt expected

- Bare metal: ACS off in the BIOS ("ACS Control", "PCIe ARI/ACS"), or at each boot
  `setpci -s <bridge> ECAP_ACS+0x6.w=0000` on every bridge between GPUs and NICs. `iommu=pt` on the kernel command line,
  or VT-d and AMD-Vi off in the BIOS.
- Virtual machines: leave ACS on. The host must give the NIC ATS (`mlxconfig -d <dev> set ATS_ENABLED=1`), and GPUDirect
  RDMA needs the vendor's peer mapping.
- To prove it: the job works with `NCCL_NET_GDR_LEVEL=LOC` (network) or `NCCL_P2P_DISABLE=1` (between GPUs), slowly.
  Remove these settings when the cause is mended.

## When it is not a problem

`SrcValid+` without ReqRedir+ or CmpltRedir+. Bridges that are on no path between GPUs, or GPU and NIC: NVSwitches
behind a switch of their own, storage. `Default domain type: Translated` of a kernel whose IOMMU is off. Virtual
machines, whose host needs ACS. A single node with NVLink. Status 4 with another vendor error is a question of memory
registration or of the driver (IB010).

## References

- NVIDIA/nccl issues 660 and 928 (status 4, vendor error 81), 1674; ROCm/rccl issue 908
- NCCL user guide, Troubleshooting: GPU Direct, PCI Access Control Services
- Linux kernel: admin-guide/kernel-parameters, `iommu=`; PCIe base specification, ACS extended capability
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.completions import Completions
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.seen import Seen
from ncclcheck.facts.stalls import first_collective_stalls
from ncclcheck.rules import gpus
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.pci import redirects

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

# ibv_wc_status: local protection error, and what mlx5 adds where the NIC's access to GPU memory was refused (0x51).
_PROTECTION, _REFUSED = 4, 81
_FIX = (
    "lspci -vvv | grep -B40 'ACSCtl.*ReqRedir+' names the bridges; ACS off in the BIOS or by setpci, iommu=pt on the"
    " kernel command line"
)
_FIX_STALL = "run once with NCCL_P2P_DISABLE=1: if that works, " + _FIX
_FIX_GUEST = "leave ACS on; the host must enable ATS on the NIC (mlxconfig ATS_ENABLED=1) and map GPU and NIC as peers"
_FIX_RCCL = "add iommu=pt to the kernel command line and reboot; dmesg | grep -i 'iommu: Default domain' shows the mode"
_NEEDS = (
    "`sudo lspci -vvv` and `cat /proc/cmdline` (or dmesg) of a host: a log shows ACS and the IOMMU only when they break"
    " something"
)
_NEEDS_IOMMU = (
    "`cat /proc/cmdline` (or dmesg) of each machine: ACS is off on its bridges, the IOMMU may still translate"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    refused = [one for one in facts.failed_completions if one.status == _PROTECTION and _REFUSED in one.vendor_errs]
    hints = [seen for seen in facts.notes("ib_hint") if "ACS is enabled" in seen.value]
    translating = [seen for seen in facts.notes("rccl_kernel_option_missing") if "iommu=pt" in seen.value]
    told = list(redirects.findings(RULE, facts, estimator))
    yield from told
    if refused or hints:
        yield _memory_refused(refused, hints, facts, estimator)
    if translating:
        yield _translating(facts, estimator)
    stalled = () if refused or hints or translating else _stalled_over_pcie(facts, estimator)
    if stalled:
        yield _stalled(stalled, facts, estimator)
    if told or refused or hints or translating or stalled or _nothing_to_redirect(facts):
        return
    if not redirects.all_clear(facts):
        yield NotEvaluated(_NEEDS_IOMMU if redirects.bridges_clear(facts) else _NEEDS)


def _nothing_to_redirect(facts: Facts) -> bool:
    """One node, and NVLink between its GPUs: nothing crosses PCIe."""
    return facts.crossing.answer is Answer.NO and facts.nvlink is Answer.YES


def _stalled_over_pcie(facts: Facts, estimator: Estimator) -> tuple[Evidence, ...]:
    """Lines of the watchdog, where P2P over PCIe is all that the first collective needed."""
    without_nvlink = Answer.NO in (facts.nvlink, gpus.nvlink_by_name(facts, estimator))
    peers = any(group.transport == "P2P" and group.scope == "inside" for group in facts.edges)
    world = facts.world
    all_there = world is not None and world.nranks == len(world.ranks) == world.completed
    if not (without_nvlink and peers and all_there) or facts.crossing.answer is not Answer.NO or facts.guest_signs:
        return ()
    return first_collective_stalls(facts)


def _stalled(lines: tuple[Evidence, ...], facts: Facts, estimator: Estimator) -> Finding:
    peers = [group for group in facts.edges if group.transport == "P2P" and group.scope == "inside"]
    return _finding(
        f"The first collective on {place(machines_of(peers), 'the machine')} never finished, with all GPUs connected"
        " over PCIe (P2P) and nothing else on record: so do ACS redirect and a translating IOMMU look",
        machines_of(peers),
        (*lines[:2], *evidence_of(peers, 2)),
        _FIX_STALL,
        stopped(estimator),
        severity=Severity.WARNING,
        confidence=Confidence.LOW,
    )


def _memory_refused(refused: list[Completions], hints: list[Seen], facts: Facts, estimator: Estimator) -> Finding:
    guest = bool(facts.guest_signs)
    machines = tuple(sorted({*(m for one in refused for m in one.machines), *machines_of(hints)}))
    lines = (*(line for one in refused for line in one.evidence[:2]), *evidence_of(hints, 1))
    why = (
        "a NIC without ATS, or peers that the host does not map"
        if guest
        else "mostly ACS redirect or a translating IOMMU between GPU and NIC"
    )
    what = "completion status 4, vendor error 81" if refused else "NCCL's hint at ACS"
    return _finding(
        f"The NIC was refused access to memory on {place(machines, 'a machine')} ({what}): {why}",
        machines,
        lines,
        _FIX_GUEST if guest else _FIX,
        stopped(estimator),
        severity=Severity.INFO if guest else Severity.WARNING,
    )


def _translating(facts: Facts, estimator: Estimator) -> Finding:
    missing = facts.notes("rccl_kernel_option_missing")
    broken = facts.failures("cuda_ipc_failed")
    guest = bool(facts.guest_signs) and not broken
    numbers = stopped(estimator) if broken else no_number("the hardware table has no AMD GPUs")
    return _finding(
        f"The kernel command line of {place(machines_of(missing), 'a machine')} lacks"
        f" {listed(sorted({seen.value for seen in missing}))}: the IOMMU may translate what GPUs and NICs send each"
        " other" + (", and a GPU could not share its memory" if broken else ""),
        machines_of(missing),
        (*evidence_of(missing, 3), *evidence_of(broken, 1)),
        _FIX_RCCL,
        numbers,
        severity=Severity.INFO if guest else Severity.WARNING,
        confidence=Confidence.HIGH if broken else Confidence.MEDIUM,
    )


def _finding(
    message: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    fix: str,
    numbers: Numbers,
    *,
    severity: Severity,
    confidence: Confidence = Confidence.MEDIUM,
) -> Finding:
    subject = {"hosts": hosts}
    return RULE.finding(severity, confidence, message, fix, subject, evidence[:4], **numbers)


RULE = Rule(
    code="PCI004",
    name="acs-enabled",
    severity=Severity.WARNING,
    summary="ACS or a translating IOMMU sends traffic between PCIe devices up to the root complex",
    check=check,
    since="0.1.0",
)
