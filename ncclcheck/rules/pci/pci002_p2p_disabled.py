"""Peer access between GPUs is switched off or refused where NCCL would use it.

## What it finds

- `NCCL_P2P_DISABLE set by environment to 1` (2.23.4 and newer) or `NCCL_P2P_LEVEL set by environment to LOC` (what
  2.7.3 to 2.22.3 print for it), or any level below the default of that release.
- The driver or CUDA refuses: `P2P is disabled between connected GPUs 0 and 1`, `Could not enable P2P between dev
  0(=1a000) and dev 1(=88000)`, CNS, GNS, TNS or NS in `nvidia-smi topo -p2p` for a pair within the limit.
- SHM edges on a pair whose path class is known and within the default limit, or between NVSwitch GPUs: somebody
  refused P2P without a line.

Default limit by release: SYS until 2.22.3, but PXB on Intel, ARM and Zhaoxin hosts; from 2.23.4 PXB everywhere, and
SYS on AMD with at most two GPUs. **A pair beyond the limit on SHM is NCCL's design**; PCI001 gives its number and this
rule stays silent. GeForce cards whose stock driver has no peer access are information.

## Why it costs

Each byte crosses host memory twice. On NVSwitch machines that is the worst single setting there is: four A100 fell from
235 to 5.2 GB/s of bus bandwidth (0.022). On PCIe machines the factor is 0.5 to 0.8 on recent CPUs (RTX 4090
with P2P: 20.6), and far less on EPYC Rome across NUMA nodes (0.05 to 0.16 of the raw link).

## Example

    h100-q1:4411:4475 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1
    h100-q1:4411:4602 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct

## How to fix

Settings: find them (`xargs -0 -n1 < /proc/<pid>/environ | grep NCCL_P2P`, `/etc/nccl.conf`) and remove them. They are
mostly left from a hang on a machine with ACS or IOMMU in the way; mend that instead:

    nvidia-smi topo -p2p r                                   # OK expected
    lspci -vvv | grep -B30 'ACSCtl.*ReqRedir+' | grep -E '^[0-9a-f]'   # bridges that redirect (root)
    dmesg | grep -iE 'iommu.*(Translated|Passthrough)|DMAR|AMD-Vi'

- Bare metal: ACS off in the BIOS or by `setpci` on the bridges of the path, `iommu=pt` on the kernel command line.
  In a virtual machine ACS must stay; use the hypervisor's ATS/direct-translated support.
- `P2P is disabled between NVLINK connected GPUs` stops init and is a hardware or fabric manager fault:
  `nvidia-smi nvlink -s`, `nvidia-smi -q | grep -A6 Fabric`, reset, drain. Do not hide it with NCCL_IGNORE_DISABLED_P2P.
- Containers: same IPC name space (`--ipc=host`), same /dev/shm, all GPUs of the node visible to NVML; MIG slices have
  no peer access.
- Check with `all_reduce_perf -b 1G -e 1G -g <n>` and the cuda-samples p2pBandwidthLatencyTest before the job.

## When it is not a problem

SHM beyond the default limit. A level at or above the default (`NCCL_P2P_LEVEL=SYS` only adds). `NCCL_P2P_DISABLE=0`.
GeForce without driver support (information). One GPU per node. `topo -p2p n` says NS on every machine without NVLink.

## References

- NVIDIA/nccl issues 489, 1464, 1674 (ACS and IOMMU), 1639; nccl-tests issue 307 (4090)
- NCCL sources: `src/graph/paths.cc` (ncclTopoCheckP2p, NCCL_IGNORE_DISABLED_P2P), `src/transport/p2p.cc`
- NCCL user guide, Environment Variables: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL; Troubleshooting: GPU Direct, PCI ACS
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.domains import networked_inside
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.matrix import ORDER, Matrix
from ncclcheck.facts.seen import Seen
from ncclcheck.rules import gpus
from ncclcheck.rules.common import compared, listed, no_number, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


# Values of NCCL_P2P_LEVEL, near to far; digits mean the scale before 2.6 and are echoed as names from 2.7.3 on.
_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS")

_GEFORCE = "the stock driver offers no peer access for these cards"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    limit = default_limit(facts)
    found: list[Finding | NotEvaluated] = [
        *_by_setting(facts, estimator, limit),
        *_by_driver(facts, estimator),
        *_by_matrix(facts, estimator, limit),
    ]
    if not found:
        found = list(_by_edges(facts, estimator, limit))
    yield from found


def default_limit(facts: Facts) -> str | None:
    """The farthest path over which NCCL uses P2P by default, None where release or CPU leave it open."""
    release, vendors = facts.release, facts.cpu_vendors
    if release is None:
        return None
    if release >= 22304:
        two_on_amd = "AMD" in vendors and (facts.shape().gpus_per_node or 8) <= 2
        return "SYS" if two_on_amd else "PXB"
    if not vendors:
        return None
    return "PXB" if vendors & {"Intel", "Arm", "Zhaoxin"} else "SYS"


def _by_setting(facts: Facts, estimator: Estimator, limit: str | None) -> Iterator[Finding]:
    for seen in facts.settings("NCCL_P2P_DISABLE"):
        if seen.value == "1":
            yield _set_off("NCCL_P2P_DISABLE=1", seen, facts, estimator)
    for seen in facts.settings("NCCL_P2P_LEVEL"):
        if seen.value == "LOC":
            yield _set_off("NCCL_P2P_LEVEL=LOC (what NCCL_P2P_DISABLE=1 means to it)", seen, facts, estimator)
        elif seen.value in _LEVELS and limit and _LEVELS.index(seen.value) < _LEVELS.index(limit):
            if seen.value == "NVL" and facts.nvlink is Answer.YES:
                continue  # all pairs have NVLink: nothing is cut off
            yield _set_off(f"NCCL_P2P_LEVEL={seen.value}, below the default {limit}", seen, facts, estimator)


def _set_off(setting: str, seen: Seen, facts: Facts, estimator: Estimator) -> Finding:
    one_gpu = bool(facts.communicators) and all(c.local_ranks == 1 for c in facts.communicators)
    # nodes of one GPU may be what the setting makes of one machine
    one_gpu = one_gpu and not networked_inside(facts)
    return _finding(
        f"{setting} switches peer access between GPUs off" + (": no effect, one GPU per node" if one_gpu else ""),
        seen.machines,
        seen.evidence,
        facts,
        estimator,
        severity=Severity.INFO if one_gpu or gpus.without_p2p(facts, estimator) else Severity.ERROR,
        confidence=Confidence.HIGH,
        fix="unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL (job script, /etc/nccl.conf, ~/.nccl.conf); if the job hangs"
        " without them, look for ACS or IOMMU: `lspci -vvv | grep ReqRedir+`",
    )


def _by_driver(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    geforce = gpus.without_p2p(facts, estimator)
    named = bool(gpus.classes(facts, estimator))
    for kind, wording, sure in (
        ("p2p_unavailable", "CUDA cannot enable peer access", True),
        ("p2p_disabled_pair", "The driver reports peer access as disabled", False),
    ):
        seen = facts.p2p_refused(kind)
        if seen:
            pairs = sorted({one.value for one in seen})
            yield _finding(
                f"{wording} between GPUs of one node ({listed(pairs)})" + (f": {_GEFORCE}" if geforce else ""),
                machines_of(seen),
                evidence_of(seen),
                facts,
                estimator,
                severity=Severity.INFO if geforce else Severity.ERROR,
                confidence=Confidence.HIGH if sure or geforce or named else Confidence.MEDIUM,
                fix="`nvidia-smi topo -p2p r` names the pairs; in containers give all GPUs of the node and one IPC"
                " name space; on bare metal set iommu=pt and switch ACS redirect off on the bridges",
            )
    broken = facts.failures("p2p_nvlink_disabled")
    if broken:
        yield _finding(
            "The driver reports peer access as disabled between GPUs that NVLink joins: a fault of the hardware or of"
            " the fabric manager, and NCCL gives up",
            machines_of(broken),
            evidence_of(broken),
            facts,
            estimator,
            severity=Severity.ERROR,
            confidence=Confidence.HIGH,
            fix="drain the machine: nvidia-smi nvlink -s, nvidia-smi -q | grep -A6 Fabric, systemctl status"
            " nvidia-fabricmanager, reset the GPUs; do not hide it with NCCL_IGNORE_DISABLED_P2P",
            stops=True,
        )
    ipc = facts.failures("cuda_ipc_failed")
    if ipc:
        told = ipc[0].fields
        why = told.get("error") or told.get("text") or "no text"
        yield _finding(
            f"{told.get('call', 'the IPC call')} failed ({why}): GPUs cannot share memory with each other's processes",
            machines_of(ipc),
            evidence_of(ipc),
            facts,
            estimator,
            severity=Severity.ERROR,
            confidence=Confidence.HIGH,
            fix="one IPC name space for all processes of the node (--ipc=host), iommu=pt on the kernel command line"
            + ("; on AMD GPUs HSA_FORCE_FINE_GRAIN_PCIE=1" if facts.is_rccl else ""),
            stops=True,
        )


def _by_matrix(facts: Facts, estimator: Estimator, limit: str | None) -> Iterator[Finding]:
    """`topo -p2p`: a pair that the driver refuses and that lies within the limit."""
    topo = next((m for m in facts.matrices if m.kind == "topo"), None)
    for matrix in facts.matrices:
        if not matrix.kind.startswith("p2p") or matrix.kind in ("p2p-nvlink", "p2p-atomics"):
            continue
        refused = [(a, b, why) for a, b, why in matrix.gpu_pairs() if why in ("CNS", "GNS", "TNS", "NS")]
        if not refused:
            continue
        within = [pair for pair in refused if _within(topo, pair[0], pair[1], limit)]
        geforce = gpus.without_p2p(facts, estimator) or {why for _, _, why in refused} == {"GNS"}
        if not within and topo is not None and limit is not None:
            continue
        words = ", ".join(sorted({why for _, _, why in refused}))
        yield _finding(
            f"The driver refuses peer access for {len(refused)} of {len(matrix.gpu_pairs())} GPU pairs ({words}):"
            f" {listed([f'{a} and {b}' for a, b, _ in refused])}"
            + (": the GPU does not support it (GeForce driver)" if geforce else ""),
            (),
            tuple(matrix.lines[a] for a, _, _ in refused[:3] if a in matrix.lines),
            facts,
            estimator,
            severity=Severity.INFO if geforce else Severity.ERROR,
            confidence=Confidence.HIGH if within or geforce else Confidence.MEDIUM,
            fix="CNS: chipset or IOMMU (iommu=pt, ACS off, BIOS peer-to-peer setting); GNS: the driver has none for"
            " this card; TNS: no PCIe path between the pair",
        )


def _within(topo: Matrix | None, a: str, b: str, limit: str | None) -> bool:
    """PIX and PXB are within every default limit; what is farther depends on release and CPU."""
    path = topo.between(a, b) if topo else None
    if path in ("NV", "PIX", "PXB"):
        return True
    return path in ORDER and limit in ORDER and ORDER.index(path) <= ORDER.index(limit)


def _by_edges(facts: Facts, estimator: Estimator, limit: str | None) -> Iterator[Finding | NotEvaluated]:
    shm = [group for group in facts.edges if group.scope == "inside" and group.transport == "SHM"]
    if not shm:
        if not facts.edges and not facts.matrices and not _no_pairs(facts):
            yield NotEvaluated("channel lines (INFO with INIT,ENV,P2P) or `nvidia-smi topo -p2p r`")
        return
    known = [path for path in facts.gpu_paths if path not in ("NV", "C2C")]
    if gpus.nvlink_by_design(facts, estimator) is Answer.YES and not known:
        yield _finding(
            "GPUs that have NVLink exchange data through host memory: peer access was refused without a line",
            machines_of(shm),
            evidence_of(shm),
            facts,
            estimator,
            severity=Severity.ERROR,
            confidence=Confidence.MEDIUM,
            fix="`nvidia-smi topo -m`, `nvidia-smi topo -p2p r` and `systemctl status nvidia-fabricmanager`; in"
            " containers all GPUs of the node and one IPC name space",
        )
    elif gpus.without_p2p(facts, estimator):
        yield _finding(
            f"GPUs of one node use host memory (SHM): {_GEFORCE}",
            machines_of(shm),
            evidence_of(shm),
            facts,
            estimator,
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
            fix="no setting brings peer access to these cards; keep groups small, or use cards with it",
        )
    elif known and limit and all(ORDER.index(path) <= ORDER.index(limit) for path in known):
        yield _finding(
            f"GPUs of one node use host memory (SHM) although their path ({', '.join(sorted(known))}) is within NCCL's"
            f" default limit {limit}: somebody refused peer access",
            machines_of(shm),
            evidence_of(shm),
            facts,
            estimator,
            severity=Severity.ERROR,
            confidence=Confidence.MEDIUM,
            fix="`nvidia-smi topo -p2p r` names the pairs; look for ACS and IOMMU (`lspci -vvv | grep ReqRedir+`,"
            " iommu=pt)",
        )
    elif not (known and limit):
        yield NotEvaluated(
            "the path between the GPUs on SHM and the CPU (NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH or `nvidia-smi topo -m`):"
            " SHM may be NCCL's design there"
        )


def _no_pairs(facts: Facts) -> bool:
    return bool(facts.communicators) and all(c.local_ranks == 1 or c.nranks == 1 for c in facts.communicators)


def _finding(
    message: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    facts: Facts,
    estimator: Estimator,
    *,
    severity: Severity,
    confidence: Confidence,
    fix: str,
    stops: bool = False,
) -> Finding:
    healthy = gpus.best_paths(facts, gpus.nvlink_by_design(facts, estimator))
    if stops:
        numbers = stopped(estimator)
    elif estimator.shape.gpus_per_node == 1:
        numbers = no_number("NCCL counts each GPU as a node of its own: what follows from that has the number")
    else:
        numbers = compared(estimator, healthy, {"intra": "shm"})
    return RULE.finding(
        severity=severity,
        confidence=confidence,
        message=message,
        fix=fix,
        subject={"hosts": hosts},
        evidence=evidence,
        **numbers,
    )


RULE = Rule(
    code="PCI002",
    name="p2p-disabled",
    severity=Severity.ERROR,
    summary="Peer access between GPUs is switched off or refused where NCCL would use it",
    check=check,
    since="0.1.0",
    caused_by=("PCI004", "NVL002"),
)
