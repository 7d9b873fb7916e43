"""NCCL_IB_DISABLE=1 keeps a job of several machines off InfiniBand and RoCE.

## What it finds

`NCCL_IB_DISABLE set by environment to 1.` in a process whose communicator spans several NCCL nodes and whose network
is the internal one. The variable stops the internal verbs transport only, so NCCL does not look for devices (no
`NET/IB` line at all) and takes sockets. A value of 0 is printed as well, in the same words: it is parsed, not matched.

An error when anything says that the machines have RDMA (see NET001), otherwise a warning: the variable hides the line
that would tell. With the number of machines unknown it is information, and only where RDMA was meant.

Numeric variables are printed whenever they are set, even to their default, with a full stop at the end. They have
been visible at NCCL_DEBUG=INFO in all releases (from 2.16.5 on through the ENV subsystem, which
`NCCL_DEBUG_SUBSYS=INIT` hides).

## Why it costs

The same as NET001, of which it is the cause: one or two TCP flows of 20 to 28 Gb/s against all rails of the node.
Eight 400 Gb/s rails carry 370 to 390 GB/s, sockets 3 (1.4 to 5.5). With IPoIB as socket interface the fabric is the
same and the speed is not: 3.15 GB/s were measured on an HDR fabric where RDMA gives 24 per port.

## Example

    gpu-e01:18840:18902 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
    gpu-e01:18840:18902 [0] NCCL INFO NET/Socket : Using [0]bond0:10.76.0.1<0>
    gpu-e01:18840:18902 [0] NCCL INFO Using network Socket
    gpu-e01:18840:18902 [0] NCCL INFO comm 0x55b03c8e1d20 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0

## How to fix

Find where it is set; the environment of the process tells more than the job script:

    xargs -0 -n1 < /proc/<pid>/environ | grep NCCL
    cat /etc/nccl.conf ~/.nccl.conf 2>/dev/null
    grep -rn NCCL_IB_DISABLE /etc/profile.d /opt/*/env* Dockerfile* 2>/dev/null

Usual sources: a recipe for a workstation or a single node, an image made for a cloud without RDMA, a work-around for
a RoCE failure (`ibv_modify_qp` with 110 or 22: the GID index; `ibv_reg_mr` with Cannot allocate memory: the memlock
limit). Remove it, mend that cause, and check that `NET/IB : Using` lists the compute rails. To keep some adapters out
use `NCCL_IB_HCA=^mlx5_bond_0` instead; to compare with TCP on purpose use `NCCL_NET=Socket` for that one run.

## When it is not a problem

One machine or one MNNVL rack: there is no traffic for it to slow down. An external plugin (EFA, IBext of HPC-X, UCX,
TCPX) that carries the traffic does not read the variable: the finding is then information, "no effect", because the
variable misleads the next reader. A public Azure report saw no change of bus bandwidth for that reason. An
Ethernet-only cluster may set it to keep the log quiet.

## References

- NCCL user guide, Environment Variables: NCCL_IB_DISABLE, NCCL_IB_HCA, NCCL_NET
- NCCL sources: `src/transport/net_ib` (ncclIbInit), `src/misc/param.cc` (variables are echoed once, at first use)
- NVIDIA/nccl issue 450: TCP on 100 Gb/s
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import compared, ib_disabled, listed, no_number, place, rdma_expected, rides_on_tcp
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Seen
    from ncclcheck.rules.common import Numbers

_FIX = (
    "unset NCCL_IB_DISABLE where it is set (xargs -0 -n1 < /proc/<pid>/environ | grep NCCL; cat /etc/nccl.conf"
    " ~/.nccl.conf), then check that 'NET/IB : Using' lists the compute rails"
)
_NEEDS_SIZE = (
    "NCCL_IB_DISABLE=1 is set; the line 'comm ... nRanks N nNodes M' (NCCL 2.20.3+) or channel lines would tell"
    " whether the job has several machines"
)
_NEEDS_ENV = "'NCCL_IB_DISABLE set by environment' is printed with INIT and ENV in NCCL_DEBUG_SUBSYS (NCCL_DEBUG=INFO)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    disabled = ib_disabled(facts)
    if not disabled:
        if not _searched(facts):
            yield NotEvaluated(_NEEDS_ENV)
    elif carriers := _carriers(facts, disabled):
        yield _no_effect(disabled, carriers)
    elif facts.crossing.answer is Answer.YES:
        yield _keeps_off(facts, estimator, disabled)
    elif facts.rdma_signs:
        yield _may_keep_off(facts, disabled)
    else:
        yield NotEvaluated(_NEEDS_SIZE)


def _searched(facts: Facts) -> bool:
    """Did NCCL look for devices, or does something else carry the traffic? Then the variable is not in force."""
    carried = any(not rides_on_tcp(facts, seen.value) for seen in facts.networks)
    zero = bool(facts.settings("NCCL_IB_DISABLE"))
    return zero or carried or bool(facts.nic_lists or facts.notes("net_ib_no_device"))


def _carriers(facts: Facts, disabled: tuple[Seen, ...]) -> list[str]:
    """Networks of a plugin in use on the machines that have the variable."""
    where = {*machines_of(disabled)}
    return [
        seen.value
        for seen in facts.networks
        if not rides_on_tcp(facts, seen.value) and seen.value != "IB" and (not where or where & {*seen.machines})
    ]


def _keeps_off(facts: Facts, estimator: Estimator, disabled: tuple[Seen, ...]) -> Finding:
    sign = rdma_expected(facts, estimator)
    machines = machines_of(disabled)
    sure = facts.crossing.confidence == "high" and bool(sign)
    doubt = f" (RDMA is expected: {sign})" if sign else "; the input does not show whether they have RDMA"
    return _finding(
        Severity.ERROR if sign else Severity.WARNING,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"NCCL_IB_DISABLE=1 on {place(machines, 'all machines')} leaves TCP sockets for the traffic between"
        f" machines{doubt}",
        _FIX,
        disabled,
        compared(estimator, {"network": "rdma"}, {"network": "socket"}),
    )


def _no_effect(disabled: tuple[Seen, ...], carriers: list[str]) -> Finding:
    return _finding(
        Severity.INFO,
        Confidence.HIGH,
        f"NCCL_IB_DISABLE=1 has no effect: the plugin's network {listed(carriers)} carries the traffic and does not"
        " read it",
        "unset NCCL_IB_DISABLE: it misleads the next reader",
        disabled,
        no_number("the setting changes nothing here"),
    )


def _may_keep_off(facts: Facts, disabled: tuple[Seen, ...]) -> Finding:
    return _finding(
        Severity.INFO,
        Confidence.MEDIUM,
        f"NCCL_IB_DISABLE=1 is set although RDMA was meant ({facts.rdma_signs[0].value}); it costs as soon as the job"
        " spans machines, and the input does not tell",
        _FIX,
        disabled,
        no_number("the number of machines is not in the input: there may be no traffic between machines"),
    )


def _finding(
    severity: Severity, confidence: Confidence, message: str, fix: str, disabled: tuple[Seen, ...], numbers: Numbers
) -> Finding:
    subject = {"hosts": machines_of(disabled), "variable": ("NCCL_IB_DISABLE",)}
    return RULE.finding(severity, confidence, message, fix, subject, evidence_of(disabled), **numbers)


RULE = Rule(
    code="IB003",
    name="ib-disabled",
    severity=Severity.ERROR,
    summary="NCCL_IB_DISABLE=1 keeps a job of several machines off InfiniBand and RoCE",
    check=check,
    since="0.1.0",
)
