"""GPUs that are built with NVLink do not see each other over it.

## What it finds

The GPU model is one whose board joins all GPUs by NVLink (SXM boards, Grace systems), and what shows the topology has
no NVLink between any two of them:

- a topology dump (`NCCL_TOPO_DUMP_FILE`): `<gpu>` elements and no `<nvlink>` in any;
- `nvidia-smi topo -m`: PIX to SYS in all cells where `NV#` belongs;
- a log with GRAPH lines whose paths between GPUs are PIX, PXB, PHB or SYS, and no setting that switches P2P off.

The model comes from the list of nccl-tests, `nvidia-smi -L`, or the PCI id in the dump. Files without `<gpu>` elements,
as clouds ship them, say nothing of NVLink: NCCL looks for it itself.

## Why it costs

All traffic between the GPUs of a node goes over PCIe or host memory: 5 to 45 GB/s of all_reduce bus bandwidth where a
ring over NVLink reaches 118 (V100), 235 (A100), 364 (H100) and 680 (B200). GPUDirect RDMA with PXN, NVLS and the send
side of GPUDirect RDMA before Ampere fall with it.

## Example

    <pci busid="0000:1a:00.0" class="0x030200" vendor="0x10de" device="0x2330" ...>
      <gpu dev="0" sm="90" rank="0" gdr="1"/>

and so on all eight GPUs of an HGX H100.

## How to fix

    nvidia-smi nvlink -s                               # <inactive> on all links, or no links at all
    nvidia-smi -q | grep -A6 Fabric                    # H100 and newer: State Completed, Status Success
    systemctl status nvidia-fabricmanager              # must run, and be of the driver's very version
    nvidia-smi -q | grep -A2 "MIG Mode"                # MIG switches NVLink off
    lsmod | grep nvidia; dmesg | grep -i nvlink        # NVreg_NvLinkDisable=1 in modprobe.d

Start the fabric manager, then reset all GPUs together or reboot. In a guest the host's fabric manager makes the
partitions: a guest that got some GPUs of a board may have none of their NVLinks.

## When it is not a problem

PCIe cards: L40S, RTX, T4, and A100, H100 and H200 as PCIe cards without bridges (PCI001 gives their number). One GPU. A
matrix of `topo -mp`, which leaves NVLink out. NCCL_P2P_DISABLE or a P2P level, which hide NVLink from the graph
(PCI002).

## References

- NCCL sources: `src/graph/xml.cc` (ncclTopoGetXmlFromGpu), `src/graph/paths.cc`
- nvidia-smi documentation: topo, nvlink; NVIDIA Fabric Manager user guide
- NCCL user guide, Environment Variables: NCCL_TOPO_DUMP_FILE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.topo_file import path_tables
from ncclcheck.rules import gpus
from ncclcheck.rules.common import compared, listed
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_JOINED = ("NV", "C2C")


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    tables = [table for table in path_tables(facts) if len(table.gpus) > 1 and not table.nvlink_hidden]
    by_design = gpus.nvlink_by_name(facts, estimator)
    if by_design is Answer.NO or facts.nvlink is Answer.YES:
        return
    bare = [table for table in tables if not any(path in _JOINED for _, _, path in table.gpu_pairs())]
    if not bare and not facts.gpu_paths:
        yield NotEvaluated(
            "the paths between the GPUs of a node: a topology dump (NCCL_TOPO_DUMP_FILE), `nvidia-smi topo -m`, or the"
            " log's topology (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH)"
        )
    elif by_design is Answer.UNKNOWN:
        yield NotEvaluated("the GPU model (nvidia-smi -L, nccl-tests' device list, or --gpu): cards are without NVLink")
    elif bare:
        paths = sorted({path for table in bare for _, _, path in table.gpu_pairs()})
        lines = tuple(table.lines[gpu] for table in bare for gpu in table.gpus[:2] if gpu in table.lines)
        yield _finding(f"{len(bare[0].gpus)} GPUs", paths, (), lines, facts, estimator)
    elif _switched_off(facts):
        yield NotEvaluated(
            "a topology dump or `nvidia-smi topo -m`: with P2P switched off NCCL's graph leaves NVLink out"
        )
    else:
        paths = sorted(facts.gpu_paths)
        yield _finding("the GPUs of a node", paths, facts.machines, facts.path_evidence, facts, estimator)


def _switched_off(facts: Facts) -> bool:
    """With P2P off NCCL's graph leaves NVLink out: that is another finding."""
    settings = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_IGNORE_DISABLED_P2P")
    refused = facts.p2p_refused("p2p_unavailable") or facts.p2p_refused("p2p_disabled_pair")
    return bool(refused) or any(facts.settings(name) for name in settings)


def _finding(
    who: str,
    paths: list[str],
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    facts: Facts,
    estimator: Estimator,
) -> Finding:
    names = listed([gpu.name for gpu in gpus.classes(facts, estimator)])
    return RULE.finding(
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if evidence else Confidence.MEDIUM,
        message=f"no NVLink between {who}, which are {names} and built with it: their paths are {', '.join(paths)}",
        fix="nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager (of the driver's version); nvidia-smi -q |"
        " grep -A6 Fabric; then reset all GPUs of the board together",
        subject={"hosts": hosts},
        evidence=evidence[:4],
        **compared(estimator, {"intra": "nvlink"}, {"intra": ("pcie-cpu", "shm")}),
    )


RULE = Rule(
    code="NVL001",
    name="nvlink-absent",
    severity=Severity.WARNING,
    summary="GPUs that are built with NVLink do not see each other over it",
    check=check,
    since="0.1.0",
)
