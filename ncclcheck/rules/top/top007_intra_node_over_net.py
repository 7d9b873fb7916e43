"""GPUs of one machine talk over the network, because NCCL takes them for several nodes.

## What it finds

NCCL joins ranks to a node if peer access (P2P) or shared memory (SHM) works between them. Where neither does, each part
of the machine is a node of its own and the traffic goes through a NIC and back: `0[0] -> 1[1] via NET/Socket/0` on one
machine. The rule fires when the ranks of a communicator on one machine are more than the localRanks that NCCL prints
(2.20.3 and newer), or when all its ranks are on one machine and a channel goes over NET (until 2.28.3 NCCL drops the
NICs where all ranks are one node).

It is information where NCCL counts the ranks as one node and takes the NICs by choice: on PCIe machines two GPUs of
different sockets can reach each other faster through near NICs.

One machine means one name and one bootstrap address, or one process: host names alone are cut at the first dot.
Containers with names of their own look like machines in a log; `localRanks 1` on every rank and a rate of a few GB/s
are what is left to see.

## Why it costs

NVLink carries 236 (A100) to 366 GB/s (H100) in a ring, a 400 Gb/s NIC 48 and TCP over the machine's own interface 2 to
3 GB/s.

## Example

    h100-n3:812:901 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.
    h100-n3:812:901 [0] NCCL INFO comm 0x5581d1c0a2e0 rank 0 nRanks 8 nNodes 8 localRanks 1 localRank 0 MNNVL 0
    h100-n3:812:990 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0

with `NCCL_P2P_DISABLE=1` beside it.

## How to fix

- Settings: `unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE`; they are mostly left from a hang.
- Containers, one per GPU: NCCL compares host name and boot id, then the device number of /dev/shm. Give them
  `--ipc=host` and `--uts=host` (Kubernetes: one pod per node; or `hostIPC: true` and the same `NCCL_HOSTID` for all
  pods of the machine), and let every container see all GPUs in NVML.
- /dev/shm: one mount for all processes of the machine, not a tmpfs per container.
- Check: `comm ... nNodes 1`, and `via P2P/CUMEM` or `P2P/IPC` in place of `via NET`.

## When it is not a problem

Different machines that look alike by name. NCCL's own choice (information). MNNVL racks are one node over several
machines and use no NIC inside. One rank per machine.

## References

- NCCL sources: `src/graph/topo.cc` (ncclTopoTrimSystem), `src/graph/paths.cc`, `src/misc/utils.cc` (host hash)
- NCCL user guide, Environment Variables: NCCL_SHM_DISABLE, NCCL_P2P_DISABLE, NCCL_HOSTID, NCCL_NET_DISABLE_INTRA
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.domains import Inside, networked_inside
from ncclcheck.facts.facts import evidence_of
from ncclcheck.rules.common import Numbers, compared, counted, is_on, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

_NEEDS_PROOF = (
    "'Bootstrap : Using' lines with addresses, which tell whether these ranks are on one machine, and 'comm ... nNodes"
    " ... localRanks' (NCCL 2.20.3+): a host name alone is no proof"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    cases = networked_inside(facts)
    apart = len(_switched_off(facts)[0]) == 2
    split = [case for case in cases if case.proven and (case.split or (case.split is None and apart))]
    chosen = [case for case in cases if case.proven and case.split is False]
    if split:
        yield _split(split, facts, estimator)
    elif chosen:
        yield _chosen(chosen)
    elif cases or not _seen_to_be_fine(facts):
        yield NotEvaluated(
            _NEEDS_PROOF if cases else "channel lines, or 'comm ... nNodes ... localRanks' (NCCL 2.20.3+)"
        )


def _seen_to_be_fine(facts: Facts) -> bool:
    """Channels are printed and none goes over the network inside a machine, or NCCL counts one node."""
    known = bool(facts.communicators) and all(c.nnodes == 1 or c.nranks == 1 for c in facts.communicators)
    if not facts.edges:
        return known or (bool(facts.communicators) and all(c.local_ranks is not None for c in facts.communicators))
    return known or not (facts.net_edges("unknown") or facts.net_edges("inside"))


def _switched_off(facts: Facts) -> tuple[list[str], tuple[Evidence, ...]]:
    """Of P2P and SHM, what a setting switches off, with the lines."""
    p2p = [seen for seen in facts.settings("NCCL_P2P_DISABLE") if is_on(seen.value)]
    p2p += [seen for seen in facts.settings("NCCL_P2P_LEVEL") if seen.value == "LOC"]
    shm = [seen for seen in facts.settings("NCCL_SHM_DISABLE") if is_on(seen.value)]
    names = ["peer access (NCCL_P2P_DISABLE)"] * bool(p2p) + ["shared memory (NCCL_SHM_DISABLE)"] * bool(shm)
    return names, evidence_of([*p2p[:1], *shm[:1]], 2)


def _split(cases: list[Inside], facts: Facts, estimator: Estimator) -> Finding:
    case = cases[0]
    machines = tuple(sorted({machine for one in cases for machine in one.machines}))
    cause, fix, lines = _cause(case, facts)
    where = place(machines[:1], "one machine")
    over = f"talk over {listed(case.networks)}" if case.networks else "are joined by the network only"
    nodes = "several nodes" if case.local_ranks is None else f"nodes of {counted(case.local_ranks, 'rank')}"
    message = f"The {case.ranks} ranks on {where} {over}, because NCCL takes them for {nodes}: {cause}"
    return RULE.finding(
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        message=message,
        fix=fix,
        subject={"hosts": machines},
        evidence=(*case.evidence[:3], *lines)[:4],
        **_numbers(case, facts, estimator),
    )


def _cause(case: Inside, facts: Facts) -> tuple[str, str, tuple[Evidence, ...]]:
    names, lines = _switched_off(facts)
    if len(names) == 2:
        fix = "unset NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and NCCL_SHM_DISABLE (job script, /etc/nccl.conf, ~/.nccl.conf)"
        return f"{listed(names)} are both switched off", fix, lines
    containers = (
        "one host identity and one /dev/shm for all processes of the machine: --ipc=host and --uts=host, or one pod per"
        " machine, or hostIPC and the same NCCL_HOSTID"
    )
    hostid = facts.settings("NCCL_HOSTID")
    if len(hostid) > 1:
        return "NCCL_HOSTID differs between its processes", "the same NCCL_HOSTID on one machine, or none", ()
    if names:
        fix = "unset NCCL_SHM_DISABLE" if "SHM" in names[0] else "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL"
        return f"{names[0]} is switched off, and the other way does not work", f"{fix}; {containers}", lines
    return "they share neither peer access nor /dev/shm (containers, or NCCL's host identity differs)", containers, ()


def _numbers(case: Inside, facts: Facts, estimator: Estimator) -> Numbers:
    nranks, local = case.nranks or case.ranks, case.local_ranks or 1
    names = case.networks or tuple(seen.value for seen in facts.networks)
    if not names:
        return no_number("the network is not in the input")
    tcp = any(networks.kind(name) == "socket" for name in names)
    healthy: dict[str, object] = {"nodes": max(1, nranks // case.ranks), "gpus_per_node": case.ranks}
    actual: dict[str, object] = {"nodes": nranks // local, "gpus_per_node": local}
    actual["network"] = "socket" if tcp else "rdma"
    nics = facts.shape().nics_per_node
    if nics and not tcp:  # the parts of the machine share its NICs
        actual["nics"] = max(1, nics * local // case.ranks)
    return compared(estimator, healthy, actual)


def _chosen(cases: list[Inside]) -> Finding:
    case = cases[0]
    return RULE.finding(
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
        message=f"Some of the {case.ranks} GPUs of {place(case.machines[:1], 'one machine')} talk over"
        f" {listed(case.networks)} although NCCL counts them as one node: it rates near NICs above PCIe",
        fix="nothing to do where NICs are near; NCCL_NET_DISABLE_INTRA=1 forbids it, to compare",
        subject={"hosts": tuple(sorted({machine for one in cases for machine in one.machines}))},
        evidence=case.evidence,
        **no_number("NCCL's choice is the faster of the two by its own figures"),
    )


RULE = Rule(
    code="TOP007",
    name="intra-node-over-net",
    severity=Severity.WARNING,
    summary="GPUs of one machine talk over the network, because NCCL takes them for several nodes",
    check=check,
    since="0.1.0",
    caused_by=("PCI002",),
)
