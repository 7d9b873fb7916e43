"""GPU and NIC are too far apart for GPUDirect RDMA, or a far NIC is used while a near one idles.

## What it finds

- NCCL refuses GPUDirect RDMA for the distance and traffic is staged: `GPU Direct RDMA Disabled for GPU 1b000 / HCA 4
  (distance 7 > 4)`, printed with the NET subsystem up to 2.29.7. The numbers are indexes into the path types **of that
  release** and are named here: SYS is 7 in 2.12.7 to 2.25, 8 in 2.26, 9 from 2.27.3 on.
- A `Pattern 4` line whose second type is PHB or SYS (`type NVL/SYS`, GRAPH), beside edges without `/GDRDMA`.
- A level below the default in force (`NCCL_NET_GDR_LEVEL set by environment to LOC`).
- Edges between machines through a NIC that `nvidia-smi topo -m` shows at PHB, NODE or SYS from the edge's GPU, while
  the nearest NIC of that GPU carries nothing.

Default limit: PXB (through PCIe switches, not through the CPU) from 2.4 to 2.28.9, from 2.29.2 also P2C on Grace.

## Why it costs

Refused: host staging, 5.7 to 15 GB/s for one GPU and NIC, 72 (30 to 120) for a node with eight rails instead of 370 to
390. Allowed through the CPU: 0.5 to 0.95 of the rate within a socket, 0.25 to 0.7 across sockets. These two are
assumptions, not measurements: root ports differ.

## Example

    xe-02:9921:9990 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 7 > 4)
    xe-02:9921:9990 [0] NCCL INFO Channel 00/0 : 3[b1000] -> 0[1b000] [receive] via NET/IB/0

## How to fix

    nvidia-smi topo -m                                # the NIC should be PIX or PXB to its GPU
    NCCL_IB_HCA=...                                   # name the NIC beside the GPU, or unset a filter that hides it
    NCCL_NET_GDR_LEVEL=PHB                            # allows the way through the host bridge (SYS: between
                                                      # sockets as well); measure it

Use the GPUs beside the NIC (CUDA_VISIBLE_DEVICES, `--gpu-bind=closest`), move the card to the right riser, or give a
virtual machine the topology file of its type: in a flat guest every path is PHB and GPUDirect stays off. Level names
are upper case and a typo is ignored in silence: only the echoed line is in force.

## When it is not a problem

NCCL prints the distance of every GPU to every NIC, so refused pairs are normal where each GPU has a near NIC or
reaches one through a neighbour (PXN). NICs that carry nothing. Trays and guests where all NICs are equally far.

## References

- NVIDIA/nccl issues 1151 ("distance 7 > 4"), 1667 (which lines tell)
- NCCL sources: `src/graph/paths.cc` (ncclTopoCheckGdr), `src/graph/topo.h` (path types)
- NCCL user guide, Environment Variables: NCCL_NET_GDR_LEVEL, NCCL_IB_HCA
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.gdr import far_patterns, far_use, limit_is_refused, path_type, too_far
from ncclcheck.rules.common import compared, listed, place
from ncclcheck.rules.gdr.hardware import cards_without_gdr, omni_path, staged_edges
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.gdr import FarUse, TooFar
    from ncclcheck.rules.common import Numbers

_BELOW_DEFAULT = ("LOC", "NVL", "NVB", "C2C", "PIX")
_NEAR = "use the NIC beside the GPU (nvidia-smi topo -m; NCCL_IB_HCA may hide it; CUDA_VISIBLE_DEVICES)"
_FIX = (
    f"{_NEAR}, or try NCCL_NET_GDR_LEVEL=PHB (SYS between sockets) and measure; in a guest give NCCL the instance"
    " type's topology file"
)
_NEEDS = (
    "why edges go without GPUDirect: NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH prints distances (to 2.29.7) and patterns, or"
    " `nvidia-smi topo -m`"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    found = _refused(facts, estimator) or _by_pattern(facts, estimator) or _by_matrix(facts, estimator)
    if found:
        yield found
    elif staged_edges(facts) and not _explained(facts):
        yield NotEvaluated(_NEEDS)
    elif not (facts.net_edges() or too_far(facts)) and _rdma_or_unknown(facts):
        yield NotEvaluated("channel lines between machines ('via NET/IB/0'), and the distance of GPU and NIC")


def _explained(facts: Facts) -> bool:
    """Staged for another reason: the module, the card, the network."""
    refused = any(one.kind == "hca" for one in facts.gdr_refusals)
    return refused or bool(too_far(facts)) or bool(cards_without_gdr(facts)) or omni_path(facts)


def _rdma_or_unknown(facts: Facts) -> bool:
    return not facts.networks or bool(facts.nic_lists)


def _refused(facts: Facts, estimator: Estimator) -> Finding | None:
    """Refused pairs, where traffic is staged or no pair of the machine is near enough."""
    staged = staged_edges(facts)
    received = {*machines_of(edge for edge in staged if edge.direction != "send")}
    by_module = {machine for one in facts.gdr_refusals if one.kind == "hca" for machine in one.machines}
    guilty = []
    for one in too_far(facts):
        here = {*one.machines} - by_module
        if (here & received) or (one.everywhere and not staged and (here or not one.machines)):
            guilty.append(one)
    if not guilty:
        return None
    sure = Confidence.HIGH if received and guilty[0].everywhere else Confidence.MEDIUM
    machines = tuple(sorted({machine for one in guilty for machine in one.machines}))
    proof = tuple(line for one in guilty for line in one.evidence[:2])[:3]
    cause, fix, variable = _limit(facts, guilty[0])
    every = "every GPU is" if all(one.everywhere for one in guilty) else "GPUs are"
    return _finding(
        f"GPUDirect RDMA is refused on {place(machines, 'a machine')}: {every} {cause}",
        fix,
        machines,
        sure,
        (*proof, *evidence_of(staged, 1)),
        compared(estimator, {"gdr": True}, {"gdr": False}),
        variable,
    )


def _limit(facts: Facts, far: TooFar) -> tuple[str, str, str]:
    """The distance in words, what to do, and the variable behind it."""
    distance, limit = path_type(facts.release, far.distance), path_type(facts.release, far.limit)
    forced = [seen.value.rstrip(".") for seen in facts.settings("NCCL_NET_GDR_LEVEL")]
    numbers = f"{far.distance} {'>=' if limit_is_refused(facts.release) else '>'} {far.limit}"
    if forced and (limit in _BELOW_DEFAULT or forced[0] in _BELOW_DEFAULT):
        words = f"farther from its NIC than NCCL_NET_GDR_LEVEL={forced[0]} allows (distance {numbers})"
        return words, "unset NCCL_NET_GDR_LEVEL (default PXB)", "NCCL_NET_GDR_LEVEL"
    if distance and limit:
        beyond = "the limit excludes" if limit_is_refused(facts.release) else "the limit is"
        return f"{distance} from the NIC, and {beyond} {limit} (distance {numbers})", _FIX, ""
    return f"too far from the NIC (distance {numbers})", _FIX, ""


def _by_pattern(facts: Facts, estimator: Estimator) -> Finding | None:
    """NCCL's own graph leads through a host bridge, and traffic is staged."""
    staged = staged_edges(facts)
    where = {*machines_of(edge for edge in staged if edge.direction != "send")}
    if any(one.kind == "hca" for one in facts.gdr_refusals) or cards_without_gdr(facts) or omni_path(facts):
        return None
    far = [(machine, path, line) for machine, path, line in far_patterns(facts) if machine in where]
    if not far:
        return None
    machines = tuple(sorted({machine for machine, _, _ in far}))
    paths = listed(sorted({path for _, path, _ in far}))
    return _finding(
        f"NCCL's rings reach the NIC over {paths} on {place(machines, 'a machine')}, too far for GPUDirect RDMA",
        _FIX,
        machines,
        Confidence.MEDIUM,
        (*(line for _, _, line in far[:2]), *evidence_of(staged, 1)),
        compared(estimator, {"gdr": True}, {"gdr": False}),
    )


def _by_matrix(facts: Facts, estimator: Estimator) -> Finding | None:
    used = far_use(facts)
    if not used:
        return None
    machines = machine_names(used)
    worst = used[0]
    pinned = [seen.value for seen in facts.settings("NCCL_IB_HCA")]
    why = f"; NCCL_IB_HCA={pinned[0]} leaves {'it' if len(worst.nearer) == 1 else 'them'} out" if pinned else ""
    uses = listed([*dict.fromkeys(f"{one.gpu} uses {one.nic} at {one.path}" for one in used)])
    return _finding(
        f"{uses} on {place(machines, 'a machine')}, while {listed(worst.nearer)} at {worst.nearer_path} carries"
        f" nothing{why}",
        _NEAR,
        machines,
        Confidence.MEDIUM,
        tuple(dict.fromkeys(line for one in used for line in one.evidence))[:4],
        _price(estimator, used),
        "NCCL_IB_HCA" if pinned else "",
    )


def _price(estimator: Estimator, used: tuple[FarUse, ...]) -> Numbers:
    if not all(one.gdr for one in used):
        return compared(estimator, {"gdr": True}, {"gdr": False})
    effect = "nic-sys" if any(one.path == "SYS" for one in used) else "nic-phb"
    return compared(estimator, {"effect": ""}, {"effect": effect})


def _finding(
    message: str,
    fix: str,
    machines: tuple[str, ...],
    confidence: Confidence,
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
    variable: str = "",
) -> Finding:
    subject = {"hosts": machines} | ({"variable": (variable,)} if variable else {})
    return RULE.finding(Severity.WARNING, confidence, message, fix, subject, evidence, **numbers)


RULE = Rule(
    code="GDR003",
    name="nic-too-far",
    severity=Severity.WARNING,
    summary="GPU and NIC are too far apart for GPUDirect RDMA, or a far NIC is used while a near one idles",
    check=check,
    since="0.1.0",
    caused_by=("IB002", "TOP003", "TOP004"),
)
