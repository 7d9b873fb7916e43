"""Ranks of one communicator use different networks.

## What it finds

Within one communicator some ranks say `Using network IB` and others `Using network Socket`, or some use a plugin's
network (`IBext`, `AWS Libfabric`, `FasTrak`) and others NCCL's own. Every rank chooses alone, from what it finds on
its machine; NCCL does not compare the choices. Each network has its own handshake, so a rank of one cannot connect to
a rank of another.

The cause is on the machines that are in the minority: no device there (IB001, HST003), `NCCL_IB_DISABLE=1` there
(IB003), the plugin missing or refused there (NET004), `NCCL_NET` set there.

## Why it costs

The first connection between the two parts fails or never comes about: the job stops while it connects, at init or,
from 2.22.3 on, in the first collective. All GPUs wait. Where the parts do not have to talk (each keeps to its own
machines) the slower network sets the pace for all: 2 to 5 GB/s of sockets instead of 40 to 390 GB/s of a node's
rails.

## Example

    gpu-n1:5120:5188 [0] NCCL INFO Using network IB
    gpu-n2:6231:6299 [0] NCCL INFO NET/IB : No device found.
    gpu-n2:6231:6299 [0] NCCL INFO Using network Socket

## How to fix

1. On a machine of the minority: `ibv_devinfo -l`, `env | grep NCCL`, `cat /etc/nccl.conf ~/.nccl.conf`, `ls -l
   $(ldconfig -p | grep -o '/.*libnccl-net.*')`, and the same on one of the others: compare.
2. Use one image, one environment and one plugin on all machines.
3. Set `NCCL_NET=IB` (or the plugin's name) everywhere: a machine that lacks it then fails at init, by name, instead
   of choosing something else.

## When it is not a problem

Different communicators may use different networks (`ncclConfig_t.netName`). `IBext_v7` and `IBext_v8` are one plugin
with two versions of its interface.

## References

- NCCL sources: `src/plugin/net.cc` (ncclNetInit: each rank takes the first network with devices)
- NVIDIA/nccl issue 2428: a machine with fewer adapters
- NCCL user guide, Environment Variables: NCCL_NET, NCCL_NET_PLUGIN, NCCL_IB_DISABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.mixture import mixtures
from ncclcheck.rules.common import compared, counted, listed, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.mixture import Mixture

_FIX = (
    "compare a machine of each part: ibv_devinfo -l; env | grep NCCL; cat /etc/nccl.conf ~/.nccl.conf; ldconfig -p |"
    " grep libnccl-net. NCCL_NET=<network> on all ranks makes the one that lacks it fail at init, by name"
)
_NEEDS_NETWORK = "the line 'Using network ...' of ranks on several machines (NCCL_DEBUG=INFO on all of them)"
_NEEDS_COMMUNICATOR = "networks differ between machines; 'Init START' or 'Init COMPLETE' would tell who talks to whom"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    found = mixtures(facts)
    if found:
        yield _finding(facts, estimator, found[0], len(found))
    elif not facts.communicators and len({seen.value for seen in facts.networks}) > 1 and len(facts.machines) > 1:
        yield NotEvaluated(_NEEDS_COMMUNICATOR)
    elif len(machines_of(facts.networks)) < 2 and not facts.rings_connected:
        yield NotEvaluated(_NEEDS_NETWORK)


def _finding(facts: Facts, estimator: Estimator, mixture: Mixture, others: int) -> Finding:
    (few, machines), (many, rest) = mixture.parts[0], mixture.parts[-1]
    shown = [
        seen
        for names, there in (mixture.parts[0], mixture.parts[-1])
        for seen in facts.networks
        if seen.value in names and (not there or {*seen.machines} & {*there})
    ]
    size = f" of {mixture.nranks} ranks" if mixture.nranks else ""
    more = f" (and in {counted(others - 1, 'more communicator')})" if others > 1 else ""
    where = place(machines, "Some ranks")
    kinds = {networks.kind(name) for names, _ in mixture.parts for name in names}
    slower = "socket" in kinds and len(kinds) > 1
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if machines and rest and facts.crossing.answer is Answer.YES else Confidence.MEDIUM,
        f"{where} {'uses' if len(machines) == 1 else 'use'} {listed(few)}, {place(rest, 'others')}"
        f" {'uses' if len(rest) == 1 else 'use'} {listed(many)} in one communicator{size}{more}: these networks do not"
        " talk to each other",
        _FIX,
        {"hosts": machines or rest},
        evidence_of(shown),
        **(
            compared(estimator, {"network": "rdma"}, {"network": "socket"})
            if facts.rings_connected and slower
            else stopped(estimator)
        ),
    )


RULE = Rule(
    code="NET003",
    name="mixed-transport",
    severity=Severity.ERROR,
    summary="Ranks of one communicator use different networks",
    check=check,
    since="0.1.0",
    caused_by=("HST003", "IB001", "IB003", "NET004"),
)
