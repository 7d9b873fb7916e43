"""Machines of one NVLink rack talk over the network.

## What it finds

A communicator over several machines with `nNodes` above 1 and `MNNVL 0`, although

- the driver names the same NVLink domain on them (`MNNVL busId ... fabric UUID` equal and not zero, same cliqueId),
- or the GPUs are GB200 or GB300, sold in NVL72 racks, and the driver names no domain for them at all (then the finding
  is of medium or low confidence: they may be in different racks).

NCCL gives up **without a line** when memory cannot be shared by fabric handles: `NCCL_MNNVL_ENABLE=0`,
`NCCL_CUMEM_ENABLE=0`, P2P switched off, a fabric that is not ready on one rank (NVL004), a cluster id of zero, a
release before 2.21, a container without IMEX channels.

## Why it costs

72 GPUs of a rack reach about 840 GB/s of all_reduce bus bandwidth over NVLink. Over the network it is what the NICs
of a tray carry: four 400 Gb/s rails give about 190. Groups that were laid out for a domain of 72 (tensor or expert
parallel over trays) suffer most.

## Example

    gb-1:511:570 [1] NCCL INFO MNNVL busId 0x901000 fabric UUID 5f2c81aa.9e07 cliqueId 0x7ffe state 3 healthMask 0xaa
    gb-1:511:570 [1] NCCL INFO comm 0x55d0c8a3b2f0 rank 1 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 0

## How to fix

    env | grep -E 'NCCL_(MNNVL|CUMEM|P2P)'            # also /etc/nccl.conf
    ls -l /dev/nvidia-caps-imex-channels              # channel0 must be in the container
    nvidia-imex-ctl -N                                # all trays of the job READY
    nvidia-smi -q | grep -A12 Fabric                  # UUID not zero, equal on all trays of the rack

In Kubernetes use the DRA driver: one ComputeDomain for all pods of the job. vLLM and some launchers set
`NCCL_CUMEM_ENABLE=0`: unset it there. `NCCL_MNNVL_ENABLE=1` makes init fail with the reason, instead of falling back.

## When it is not a problem

Machines of different racks (different UUIDs): the network is the way between them. One machine, or `nNodes` equal to
the number of racks. A communicator with one rank per rack.

## References

- NVIDIA/nccl issue 1301 (UUID and clique)
- NCCL sources: `src/mnnvl.cc` (ncclMnnvlCheck)
- NCCL user guide, Environment Variables: NCCL_MNNVL_ENABLE, NCCL_CUMEM_ENABLE; NVIDIA IMEX service guide
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.fabric import divided_domains, fabric_states, nvlink_over_machines
from ncclcheck.facts.facts import evidence_of
from ncclcheck.rules.common import counted, listed, place
from ncclcheck.rules.mnnvl import over_the_network, sold_in_racks
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Communicator

_FIRST_USABLE = 22105
_SWITCHES = (
    ("NCCL_MNNVL_ENABLE", "0", "switches it off"),
    ("NCCL_MNNVL", "0", "switches it off"),
    ("NCCL_CUMEM_ENABLE", "0", "takes the memory away that can be shared over it"),
    ("NCCL_P2P_DISABLE", "1", "switches peer access off"),
    ("NCCL_P2P_LEVEL", "LOC", "switches peer access off"),
)
_FIX = (
    "ls /dev/nvidia-caps-imex-channels in the container (Kubernetes: one ComputeDomain for the job), nvidia-imex-ctl -N"
    " (all trays READY), nvidia-smi -q | grep -A12 Fabric; NCCL_MNNVL_ENABLE=1 makes init fail with the reason"
)
_NEEDS = "the lines 'MNNVL busId ... fabric UUID' and 'comm ... nNodes N ... MNNVL m' (NCCL 2.21+, INFO with INIT)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO or facts.is_rccl:
        return
    unused = [one for one in divided_domains(facts) if one.cliques == 1]
    over = _over_machines(facts)
    if unused:
        proof = unused[0].evidence + (over.evidence if over else ())
        yield _finding(facts, estimator, unused[0].machines, Confidence.HIGH, "share one NVLink domain", proof)
    elif sold_in_racks(facts, estimator):
        yield from _by_name(facts, estimator, over)
    elif not facts.communicators or (over is None and nvlink_over_machines(facts) is Answer.UNKNOWN):
        yield NotEvaluated(_NEEDS)


def _over_machines(facts: Facts) -> Communicator | None:
    """The largest communicator for which NCCL counts several nodes and no NVLink between machines."""
    return next(
        (one for one in facts.communicators if (one.nnodes or 1) > 1 and not one.mnnvl and len(one.machines) > 1), None
    )


def _by_name(facts: Facts, estimator: Estimator, over: Communicator | None) -> Iterator[Finding | NotEvaluated]:
    """GPUs that are sold in racks, and no domain that two machines share."""
    domains = [one for one in fabric_states(facts) if one.cluster]
    if over is not None and not domains:
        lines = [line for one in fabric_states(facts) for line in one.evidence]
        told = "the driver names" if lines else "the log shows"
        sure = Confidence.MEDIUM if lines or _cause(facts)[0] else Confidence.LOW
        what = f"have {listed(facts.gpu_names)} GPUs, for which {told} no NVLink domain"
        yield _finding(facts, estimator, over.machines, sure, what, (*over.evidence, *lines[:2]))
    elif over is None:
        yield NotEvaluated(_NEEDS)


def _finding(
    facts: Facts,
    estimator: Estimator,
    machines: tuple[str, ...],
    confidence: Confidence,
    what: str,
    proof: tuple[Evidence, ...],
) -> Finding:
    cause, variable, lines = _cause(facts)
    subject = {"hosts": machines} | ({"variable": (variable,)} if variable else {})
    return RULE.finding(
        Severity.WARNING,
        confidence,
        f"{counted(len(machines), 'machine')} ({listed(machines)}) {what}; NCCL uses the network between them"
        f" (MNNVL 0){f': {cause}' if cause else ''}",
        f"unset {variable}; if it was set against a failure: {_FIX}" if variable else _FIX,
        subject,
        tuple(dict.fromkeys((*lines, *proof)))[:4],
        **over_the_network(facts, estimator),
    )


def _cause(facts: Facts) -> tuple[str, str, tuple[Evidence, ...]]:
    """Why, as far as the input tells; the variable behind it, and its lines."""
    for name, value, effect in _SWITCHES:
        seen = [one for one in facts.settings(name) if one.value.rstrip(".") == value]
        if seen:
            where = place([m for one in seen for m in one.machines][:1], "a rank") if len(seen[0].machines) == 1 else ""
            return f"{name}={value}{f' on {where}' if where else ''} {effect}", name, evidence_of(seen, 1)
    if facts.releases and facts.releases[0] < _FIRST_USABLE:
        return "NCCL before 2.21 hardly uses it", "", ()
    if any(not one.ready for one in divided_domains(facts)):
        return "the fabric is not ready on every GPU", "", ()
    return "", "", ()


RULE = Rule(
    code="NVL005",
    name="mnnvl-unused",
    severity=Severity.WARNING,
    summary="Machines of one NVLink rack talk over the network",
    check=check,
    since="0.1.0",
    caused_by=("NVL004",),
)
