"""Rings leave a node on one rail and enter the next on another, or GPUs are not equally near their NICs.

## What it finds

From a log: ring edges between nodes (connection 0) whose send-side and receive-side **NIC** lie on different rails,
as a share x of the ring channels. GPU numbers prove nothing: with PXN a ring enters at the GPU beside the NIC and
leaves from another GPU through the same NIC (`1[1] -> 8[0] [send] via NET/IB/0(0)`; the number in parentheses is a
rank). Tree edges do not count. Indexes are compared between hosts by rail: rail number of the log or the
plugin, the leaf switches behind the devices (`ibnetdiscover`), equal device names, order by PCI address, then the GPU
beside the device, whichever all hosts can answer first. Until 2.29.3 the index order is what libibverbs returned on
that host.

From `nvidia-smi topo -m` or a topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): some GPUs have a NIC at PXB or
nearer and others only PHB or worse, or such NICs serve unequal numbers of GPUs. NICs near no GPU are front-end or
storage and are dropped first.

From `ibnetdiscover`: an adapter of a machine sits on a leaf where the other machines have another one, though the
fabric is wired by rails: two cables are swapped.

It is a warning when a cause is on record (NCCL_CROSS_NIC=1, HCAs missing or listed in another order on a host, nodes
with different crossNic, an uneven matrix, a swapped cable), and information otherwise, because NCCL and this tool do
not see the fabric.

## Why it costs

On a rail-optimised fabric all NICs of index i share a leaf. A transfer from rail 0 to rail 1 climbs to the spine, one
or two tiers further (1 to 2 us each) and into links that other jobs fill. With share x the node bandwidth becomes
B/(1-x+x/m), m = 0.5 / 0.8 / 1.0 for a spine that is oversubscribed, shared or non-blocking. No paired measurement is
public; the range is reasoning, and on a single leaf the cost is nothing. An uneven matrix costs more surely: GPUs
without a near NIC lose GPUDirect RDMA at the default level (GDR001), and the ring runs at the pace of the slowest.

## Example

    hgx-a1:5120:5188 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA
    hgx-a2:9007:9071 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA

with `NCCL_CROSS_NIC set by environment to 1.`: x = 1.

## How to fix

- `NCCL_CROSS_NIC=0` keeps each ring on one rail, unset (2) lets NCCL cross where it expects to gain. Value 1 is for
  fabrics where all NICs share a switch.
- Equal lists on all hosts: same `NCCL_IB_HCA=mlx5_0,mlx5_3,...`, device names pinned by udev
  (`rdma-core` persistent naming), or NCCL 2.29.7 and newer, which sorts by PCI address
  (`NCCL_IB_DEVICE_PCI_ORDER`).
- The same local devices on every node for a communicator; whole nodes, or equal `CUDA_VISIBLE_DEVICES`.
- PXN on (`NCCL_PXN_DISABLE` unset) so that any GPU can use the NIC of its rail.
- Mixed crossNic within a job misjoins rings before 2.28.3: update.
- Swapped cable: put it into the leaf of its rail; `ibnetdiscover | grep <machine>` shows the switch of each adapter.
- Uneven matrix: an HCA is missing, down, or in the wrong slot; compare `lspci -tv` of two nodes. In a virtual machine
  give the instance type's topology file.

## When it is not a problem

One NIC per node. The same NIC at both ends. Alternating rings: with crossNic 2 (2.20.3 and newer) odd nodes swap
channels, so exit A meets entry A; an odd number of nodes leaves one crossing wrap-around edge per ring (share at most
1/nodes). Names that differ while rails are equal. k GPUs per NIC evenly (two per NIC on many 8-GPU, 4-NIC machines).
All GPUs equally far: a flat virtual machine is not a rail question. NUMA-per-quadrant hosts with PXB here and SYS
elsewhere. All adapters of a machine on one leaf: that fabric has no rails. EFA and TCPX(O) have no rails of this kind;
sockets are not evaluated.

## References

- NVIDIA/nccl issues 1411 (NCCL knows only NCCL_CROSS_NIC), 1357 (crossing rings explained), 1494 (mixed crossNic)
- NCCL sources: `src/graph/search.cc`, `src/graph/connect.cc` (alternating rings), `src/transport/net.cc` (PXN)
- NCCL user guide, Environment Variables: NCCL_CROSS_NIC, NCCL_PXN_DISABLE, NCCL_IB_HCA
- IBM/pytorch-communication-benchmarks issue 1: eight GPUs, six NICs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machine_names
from ncclcheck.facts.leaves import Misplaced, leaves
from ncclcheck.facts.matrix import NEAR, Matrix
from ncclcheck.facts.rails import RingRails
from ncclcheck.facts.seen import Seen
from ncclcheck.facts.topo_file import path_tables
from ncclcheck.rules.common import SEVERAL_NODES, compared, counted, listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    matrices = [matrix for matrix in path_tables(facts) if len(matrix.gpus) > 1]
    for matrix in matrices:
        yield from _from_matrix(matrix, estimator)
    misplaced = leaves(facts).misplaced
    if misplaced:
        yield _swapped(misplaced, estimator)
    elif facts.communicators or facts.edges or not matrices:
        yield from _from_rings(facts, estimator)


# -------------------------------------------------------------------------------------------------------- from a log


def _from_rings(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    kinds = {networks.kind(group.network) for group in facts.net_edges()}
    if "socket" in kinds:
        yield NotEvaluated("an InfiniBand or RoCE network: sockets leave the rails unused")
        return
    if kinds - {"ib"}:
        return  # EFA and other plugins route for themselves: no rails to keep
    lists = facts.nic_lists.values()
    if lists and all(len(nics) == 1 for nics in lists):
        return  # one net device per machine: there is one rail
    rails = facts.ring_rails
    if rails is not None and set(rails.machines) <= leaves(facts).flat:
        return  # all adapters of a machine on one leaf: the fabric has no rails
    if rails is None:
        yield NotEvaluated("channel lines of rings between machines, with both ends in the input")
    elif rails.nics_per_machine < 2:
        if facts.absent or not facts.communicators:
            yield NotEvaluated(
                "all ranks, or the list of net devices (`NET/IB : Using`): other ranks may use other NICs"
            )
    elif not rails.basis:
        yield NotEvaluated("names of the net devices on all machines (`NET/IB : Using`), to tell rails apart")
    elif not rails.channels:
        yield NotEvaluated("both ends of ring edges between machines: send and receive lines of neighbouring machines")
    elif rails.inferred and rails.crossing:
        yield from _from_one_side(rails, facts, estimator)
    elif rails.crossing:
        yield _crossing(rails, facts, estimator, Confidence.LOW if rails.contradicted else Confidence.HIGH)


def _from_one_side(rails: RingRails, facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    """Machines that enter by one NIC and leave by another: alternating rings keep rails, others do not."""
    patterns = {value for _, value in facts.cross_nic}
    if patterns == {1}:
        yield _crossing(rails, facts, estimator, Confidence.MEDIUM)
    elif patterns != {2}:
        yield NotEvaluated(
            "`Pattern 4` lines (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH) or the neighbours' channel lines: rings"
            " that enter and leave by different NICs may alternate"
        )


def _crossing(rails: RingRails, facts: Facts, estimator: Estimator, confidence: Confidence) -> Finding:
    cause, lines = _cause(rails, facts)
    keep = "NCCL_CROSS_NIC=0 keeps rings on one rail"
    if "NCCL_CROSS_NIC" in cause:
        keep = f"unset NCCL_CROSS_NIC; {keep}"
    share = f"{rails.crossing} of {rails.channels} ring channels"
    message = f"{share} leave a machine on one rail and enter the next on another (rails by {rails.basis})"
    message += f": {cause}" if cause else "; free on one leaf or a non-blocking fabric, spine hops on a rail-wired one"
    change = {"crossing_share": rails.share}
    numbers = compared(estimator, {}, change) if cause else no_number("the fabric is unknown")
    return RULE.finding(
        severity=Severity.WARNING if cause else Severity.INFO,
        confidence=confidence,
        message=message,
        fix=f"{keep}; give all hosts the same NCCL_IB_HCA list in the same order (2.29.7 and newer sort by PCI"
        " address)",
        subject={"hosts": rails.machines},
        evidence=(*rails.evidence[:2], *lines, *rails.evidence[2:])[:4],
        **numbers,
    )


def _cause(rails: RingRails, facts: Facts) -> tuple[str, tuple[Evidence, ...]]:
    """What on record explains the crossing, with its lines; empty: nothing."""
    forced = [seen for seen in facts.settings("NCCL_CROSS_NIC") if seen.value == "1"]
    if forced:
        return "NCCL_CROSS_NIC=1 lets rings change the NIC", evidence_of(forced, 1)
    mixed = {value for _, value in facts.cross_nic}
    if len(mixed) > 1:
        return (
            f"machines differ in crossNic ({', '.join(map(str, sorted(mixed)))}), which misjoins rings before 2.28.3",
            (),
        )
    lists = {machine: tuple(nic.name for nic in facts.nic_lists.get(machine, ())) for machine in rails.machines}
    orders = set(lists.values())
    if len(orders) > 1 and len({frozenset(order) for order in orders}) == 1:
        return "the same devices are listed in different order on different machines", _list_lines(facts)
    if len({len(order) for order in orders}) > 1:
        return "the machines list different numbers of devices", _list_lines(facts)
    return "", ()


def _list_lines(facts: Facts) -> tuple[Evidence, ...]:
    devices: list[Seen] = [sign for sign in facts.rdma_signs if sign.value.startswith("device ")]
    return evidence_of(devices, 2)


# ----------------------------------------------------------------------------------------------------- from a fabric


def _swapped(misplaced: Sequence[Misplaced], estimator: Estimator) -> Finding:
    """Adapters on leaves of other rails: every channel over one crosses at its machine."""
    machines = machine_names(misplaced)
    worst = max(sum(one.machine == machine for one in misplaced) for machine in machines)
    first = misplaced[0]
    are = [f"{one.device} of {one.machine} on {one.leaf} (there {listed(one.usual)})" for one in misplaced]
    return RULE.finding(
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if len(misplaced) > 1 else Confidence.MEDIUM,
        message=f"The fabric is wired by rails, and {counted(len(misplaced), 'adapter')} on the leaf of another:"
        f" {listed(are)}",
        fix=f"put the cables into the leaves of their rails (swapped at {first.machine}?); ibnetdiscover shows the"
        " switch of each adapter",
        subject={"hosts": machines, "devices": tuple(sorted({one.device for one in misplaced}))},
        evidence=evidence_of(misplaced, 4),
        **compared(estimator, {}, {"crossing_share": min(1.0, worst / first.adapters)}),
    )


# ----------------------------------------------------------------------------------------------------- from a matrix


def _from_matrix(matrix: Matrix, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    gpus = matrix.known_gpus()
    if not matrix.nics:
        yield NotEvaluated("RDMA devices of the host in the matrix (NIC columns) or in the topology file")
        return
    if matrix.kind == "topo-xml" and not matrix.complete:
        yield NotEvaluated("the whole topology file: NICs may stand where it is cut off")
        return
    if len(gpus) < 2:
        yield NotEvaluated("a matrix with whole rows: the paths between GPUs and NICs are cut off")
        return
    best = {gpu: matrix.best(gpu) for gpu in gpus}
    near = {gpu: [nic for nic in matrix.nics if matrix.between(gpu, nic) == best[gpu]] for gpu in gpus}
    close = [gpu for gpu in gpus if best[gpu] in NEAR]
    far = [gpu for gpu in gpus if best[gpu] not in NEAR]
    if not close:
        return  # all equally far: not a question of rails
    if far:
        yield _uneven(
            matrix,
            f"{', '.join(close)} {'has' if len(close) == 1 else 'have'} a NIC at {_classes(best, close)},"
            f" {', '.join(far)} only at {_classes(best, far)}",
            far,
            estimator,
            {"nics": len({nic for gpu in close for nic in near[gpu]})},
            len(far) / len(gpus),
        )
        return
    served = {nic: sum(nic in near[gpu] for gpu in gpus) for nic in matrix.nics}
    used = {nic: count for nic, count in served.items() if count}  # the others are front-end or storage
    if max(used.values()) - min(used.values()) >= 2:
        loads = ", ".join(f"{matrix.nic_names.get(nic, nic)} {count}" for nic, count in used.items())
        yield _uneven(
            matrix,
            f"near NICs serve unequal numbers of GPUs: {loads}",
            list(used),
            estimator,
            {"nics": len(used)},
            1 - len(used) / max(len(gpus), len(used)),
        )


def _classes(best: dict[str, str | None], gpus: list[str]) -> str:
    return "/".join(sorted({best[gpu] or "no path" for gpu in gpus}))


def _uneven(
    matrix: Matrix, what: str, lines: list[str], estimator: Estimator, change: dict[str, object], share: float
) -> Finding:
    # a job over several such machines: traffic of the far GPUs shares the near ones' NICs or leaves its rail
    healthy, actual = {**SEVERAL_NODES, "nics": len(matrix.gpus)}, {**SEVERAL_NODES, **change, "crossing_share": share}
    return RULE.finding(
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if matrix.damaged else Confidence.HIGH,
        message=f"GPUs are not equally near their NICs: {what}",
        fix="compare `lspci -tv` with a good machine (a NIC missing, down or in the wrong slot); in a virtual machine"
        " give NCCL the instance type's topology file",
        subject={"devices": tuple(lines)},
        evidence=tuple(matrix.lines[name] for name in lines if name in matrix.lines)[:3],
        **compared(estimator, healthy, actual),
    )


RULE = Rule(
    code="TOP001",
    name="non-rail",
    severity=Severity.WARNING,
    summary="Rings leave a node on one rail and enter the next on another, or GPUs are not equally near their NICs",
    check=check,
    since="0.1.0",
)
