"""GPUs of one node exchange data over PCIe or host memory.

## What it finds

Pairs of GPUs of one NCCL node whose edges run over PCIe peer access or over shared host memory (`via
SHM/direct/direct`, `via direct shared memory` until 2.12.12), with the path class and the bandwidth that follows.
`P2P/CUMEM` and `P2P/IPC` alone do not tell NVLink from PCIe: the class comes from the GPU's name, the NVLink total of
the GRAPH dump (`NVL[370.8]`), `type` and `bw` of the ring's `Pattern 4` line, NVLS support, `P2P/.../read` (Ampere
over NVLink only), a matrix (`NV18` against PIX to SYS), or a topology dump (`<nvlink>` elements, and the tree of PCI
switches where there are none). Names of cards that are never built with NVLink tell as well. Where none of these is in
the input the rule is not evaluated.

A warning when NVLink-class GPUs go without NVLink, or peer access that is possible lies unused; information for PCIe
cards, whose design it is. With GPU class and path both unknown the confidence is medium.

## Why it costs

A ring is as fast as its slowest edge. Bus bandwidth of a ring, GB/s per direction:

| path | PCIe gen 3 | gen 4 | gen 5 |
| --- | --- | --- | --- |
| NVLink for comparison | V100 118 | A100 235 | H100, H200 364 |
| P2P through PCIe switches | about 11 | about 22 | 41 to 46 |
| P2P through CPU root ports | about 10 | 21 | 41 |
| SHM, two copies through host memory | 4 to 7 | 1.4 to 5 (EPYC Rome), else 10 to 17 | 27 to 35 |

x16 raw is 15.75, 31.5 and 63 GB/s one way; 64 GB/s for gen 4 is both directions added. Four A100 SXM with P2P
disabled measured 5.2 GB/s against 235. SHM is the least predictable path: CPU generation and NUMA layout decide. Tensor
parallelism (4 all_reduces per layer and step) feels it most; pipeline stages hardly.

## Example

    dgxa-3:62003:62070 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to LOC
    dgxa-3:62003:62070 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct

on A100-SXM4: 5 GB/s where 235 are there; PCI002 is the cause.

## How to fix

- NVLink-class GPUs on SHM: remove `NCCL_P2P_DISABLE`, `NCCL_P2P_LEVEL`; then `nvidia-smi topo -m` (NV# expected),
  `nvidia-smi nvlink -s`, `systemctl status nvidia-fabricmanager`; in containers share IPC name space and /dev/shm
  (`--ipc=host`, or one pod per node).
- Pairs within reach but on SHM: `nvidia-smi topo -p2p r` must say OK; turn ACS redirect off on the switches and IOMMU
  translation off (`iommu=pt`) on bare metal.
- Pairs beyond the default limit (PXB from 2.23.4 on; SYS before, but PXB on Intel): `NCCL_P2P_LEVEL=SYS` is worth a
  measurement with `all_reduce_perf -b 1G -e 1G -g 8`; AMD root ports often gain, older Intel ones often lose.
- Mixed boxes (NVLink pairs): keep tensor-parallel groups inside a pair.
- Place GPUs of one job under one switch or socket (`CUDA_VISIBLE_DEVICES` by the matrix).

## When it is not a problem

L40S, L4, A10, T4, RTX cards and PCIe boards without bridges have nothing better: the number is information. One GPU
per node has no such pair. SHM between the pairs of an NVLink-pair machine is normal, and sets the ring's pace.

## References

- NVIDIA/nccl issues 1639 (5090 over SHM), 290; nccl-tests issues 287 (5090), 307 (4090)
- NCCL sources: `src/graph/topo.h` (link bandwidths), `src/graph/paths.cc` (P2P level), `src/transport/shm.cc`, `p2p.cc`
- NCCL user guide, Environment Variables: NCCL_P2P_LEVEL, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE
- nvidia-smi documentation: topo -m, topo -p2p
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.matrix import Matrix
from ncclcheck.facts.named_gpus import named_machines
from ncclcheck.facts.topo_file import path_tables
from ncclcheck.rules import gpus
from ncclcheck.rules.common import compared
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    inside = [group for group in facts.edges if group.scope == "inside" and group.transport in ("P2P", "SHM")]
    tables = [m for m in path_tables(facts) if len(m.gpus) > 1 and not m.nvlink_hidden]
    outcomes: list[Finding | NotEvaluated] = []
    if inside:
        outcomes += _from_edges(facts, estimator)
    elif facts.gpu_paths and not tables:
        outcomes += _from_paths(facts, estimator)
    if not any(isinstance(outcome, Finding) for outcome in outcomes):  # edges tell what is used, tables what is there
        for matrix in tables:
            outcomes += _from_matrix(matrix, facts, estimator)
    yield from outcomes
    if inside or tables or facts.gpu_paths or _one_gpu_per_node(facts):
        return
    cards = list(_without_nvlink(facts, estimator))
    yield from cards
    if not cards:
        yield NotEvaluated(
            "channel lines of GPUs of one node (INFO with INIT), GRAPH lines, `nvidia-smi topo -m` or a topology dump"
            " (NCCL_TOPO_DUMP_FILE)"
        )


def _one_gpu_per_node(facts: Facts) -> bool:
    """No two GPUs of one node: there is no pair to judge."""
    return bool(facts.communicators) and all(
        c.local_ranks == 1 or c.nranks == 1 or (c.nnodes is not None and c.nnodes == c.nranks)
        for c in facts.communicators
    )


def _from_edges(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    by_design = gpus.nvlink_by_design(facts, estimator)
    shm = [group for group in facts.edges if group.scope == "inside" and group.transport == "SHM"]
    p2p = [group for group in facts.edges if group.scope == "inside" and group.transport == "P2P"]
    if shm:
        unused = by_design is Answer.YES
        pairs = f"{sum(group.edges for group in shm)} channel lines between GPUs of one node"
        what = f"{pairs} go through host memory (SHM)" + _path_text(facts)
        if unused:
            what += " although these GPUs have NVLink"
        known = by_design is not Answer.UNKNOWN or bool(facts.gpu_paths)
        yield _finding(
            what,
            machines_of(shm),
            evidence_of(shm),
            estimator,
            severity=Severity.WARNING if unused else Severity.INFO,
            confidence=Confidence.HIGH if known else Confidence.MEDIUM,
            healthy=gpus.best_paths(facts, by_design),
            actual={"intra": "shm"},
            fix="find out why P2P is not used: NCCL_P2P_DISABLE and NCCL_P2P_LEVEL must be unset, `nvidia-smi topo"
            " -p2p r` must say OK"
            if unused
            else "`nvidia-smi topo -p2p r` tells whether peer access is there; beyond NCCL's default distance try"
            " NCCL_P2P_LEVEL=SYS and measure",
        )
        return
    if facts.nvlink is Answer.YES or by_design is Answer.YES:
        return
    if by_design is Answer.UNKNOWN and facts.nvlink is Answer.UNKNOWN:
        yield NotEvaluated(
            "the GPU model, GRAPH lines (NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH) or `nvidia-smi topo -m`: P2P lines do not"
            " tell NVLink from PCIe"
        )
        return
    yield _finding(
        "GPUs of one node reach each other by PCIe peer access" + _path_text(facts) + ": these cards have no NVLink"
        " between all of them",
        machines_of(p2p),
        evidence_of(p2p),
        estimator,
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        healthy={"intra": "pcie-switch"},
        actual={"intra": _pcie(facts)},
        fix="nothing is wrong with the settings; keep tensor-parallel groups small and under one PCIe switch or socket",
    )


def _from_paths(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    """GRAPH lines without channel lines: the path is known, the transport is not."""
    if facts.nvlink is not Answer.NO:
        return
    by_design = gpus.nvlink_by_design(facts, estimator)
    yield _finding(
        "NCCL's topology shows no NVLink between GPUs of one node" + _path_text(facts),
        facts.machines,
        facts.path_evidence,
        estimator,
        severity=Severity.WARNING if by_design is Answer.YES else Severity.INFO,
        confidence=Confidence.HIGH,
        healthy=gpus.best_paths(facts, by_design),
        actual={"intra": ("pcie-cpu", "shm")},
        fix="for SXM GPUs check `nvidia-smi topo -m` and `nvidia-smi nvlink -s`; PCIe cards have nothing better:"
        " keep groups under one switch or socket",
    )


def _from_matrix(matrix: Matrix, facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    pairs = matrix.gpu_pairs()
    joined = [pair for pair in pairs if pair[2] in ("NV", "C2C")]
    apart = [pair for pair in pairs if pair[2] not in ("NV", "C2C")]
    if not apart:
        return
    by_design = gpus.nvlink_by_name(facts, estimator) if not joined else Answer.UNKNOWN
    worst = sorted({path for _, _, path in apart})
    count = f"{len(apart)} of {len(pairs)} GPU pairs"
    if joined:
        what = (
            f"{count} have no NVLink ({', '.join(worst)}) while the others have: a ring over all of them runs at the"
            " pace of the former (the number compares it with a pair)"
        )
    else:
        what = f"No NVLink between any two of {len(matrix.gpus)} GPUs ({', '.join(worst)})"
    healthy: dict[str, object] = {"nodes": 1, "intra": "nvlink" if joined or by_design is Answer.YES else "pcie-switch"}
    if joined:
        healthy["gpus_per_node"] = 2  # a pair, which NVLink joins
    lines = tuple(dict.fromkeys(matrix.lines[a] for a, _, _ in apart if a in matrix.lines))[:3]
    yield _finding(
        what,
        (),
        lines,
        estimator,
        severity=Severity.WARNING if by_design is Answer.YES else Severity.INFO,
        confidence=Confidence.HIGH if joined or by_design is not Answer.UNKNOWN else Confidence.MEDIUM,
        healthy=healthy,
        actual={"nodes": 1, "intra": "mixed"} if joined else {"nodes": 1, "intra": ("pcie-cpu", "shm")},
        fix="keep tensor-parallel groups inside the NVLink pairs (CUDA_VISIBLE_DEVICES by the matrix); on SXM boards"
        " check `nvidia-smi nvlink -s`"
        if joined
        else "nothing is wrong with the settings; place GPUs of one group under one switch or socket, and see"
        " `nvidia-smi topo -p2p r` for peer access",
    )


def _without_nvlink(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """Names alone: several cards of one machine that are never built with NVLink have only PCIe between them."""
    machines = [machine for machine in named_machines(facts) if machine.gpus > 1]
    if not machines or any(gpu.nvlink for gpu in gpus.classes(facts, estimator)):
        return
    known = [machine for machine in machines if all(estimator.hardware.classes_of_name(n) for n in machine.names)]
    if not known:
        return
    first = known[0]
    yield _finding(
        f"{first.gpus} GPUs of one machine ({', '.join(first.names)}) have no NVLink: they exchange data over PCIe or"
        " host memory",
        tuple(machine.host for machine in known if machine.host),
        first.evidence,
        estimator,
        severity=Severity.INFO,
        confidence=Confidence.HIGH,
        healthy={"gpus_per_node": first.gpus, "intra": "pcie-switch"},
        actual={"gpus_per_node": first.gpus, "intra": ("pcie-cpu", "shm")},
        fix="nothing is wrong with the settings; keep tensor-parallel groups small and under one PCIe switch or socket"
        " (`nvidia-smi topo -m`)",
    )


def _pcie(facts: Facts) -> str | tuple[str, ...]:
    if facts.gpu_paths & {"PHB", "SYS", "NODE"}:
        return "pcie-cpu"
    return "pcie-switch" if facts.gpu_paths else ("pcie-switch", "pcie-cpu")


def _path_text(facts: Facts) -> str:
    paths = sorted(facts.gpu_paths - {"NV", "C2C"})
    return f" (path {', '.join(paths)})" if paths else ""


def _finding(
    message: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    estimator: Estimator,
    *,
    severity: Severity,
    confidence: Confidence,
    healthy: dict[str, object],
    actual: dict[str, object],
    fix: str,
) -> Finding:
    return RULE.finding(
        severity=severity,
        confidence=confidence,
        message=message,
        fix=fix,
        subject={"hosts": hosts},
        evidence=evidence,
        **compared(estimator, healthy, actual),
    )


RULE = Rule(
    code="PCI001",
    name="pcie-bound",
    severity=Severity.WARNING,
    summary="GPUs of one node exchange data over PCIe or host memory",
    check=check,
    since="0.1.0",
    caused_by=("PCI002", "NVL001", "NVL002"),
)
