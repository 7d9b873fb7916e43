"""A port of an adapter runs at a lower rate than its siblings.

## What it finds

Rates of active ports as `ibstat`, `ibstatus`, `ibv_devinfo -v`, `/sys/class/infiniband`, `ibnetdiscover` tell them,
put together with the log of the job:

- A rail (a port that carries traffic between machines, that `NCCL_IB_HCA` names, or that a matrix shows beside a GPU)
  is slower than another rail of its machine.
- Where nothing tells what the rails are: one of 4, 8 or 16 ports of one adapter type and link layer is slower than
  most of them.

## Why it costs

A ring gives every rail the same share, so the slowest one sets the pace for all of them, on all machines. A port that
trained with two lanes in place of four, or at the speed of a generation before, has half the rate: with it the network
part of the job takes twice as long.

## Example

    Infiniband device 'mlx5_6' port 1 status:
        state:           4: ACTIVE
        rate:            200 Gb/sec (2X NDR)

beside seven ports of 400 Gb/sec (4X NDR).

## How to fix

    ibstatus | grep -E 'device|rate'             # 2X: lanes lost; EDR beside HDR: speed lost
    mlxlink -d mlx5_6 -c -e                      # what the port asks for, bit errors, the module
    mlxlink -d mlx5_6 --port_state TG            # train the link anew (the port goes down for a moment)

Reseat or replace the cable or the transceiver; look at the switch's side of the link (speed set by hand, a splitter
cable where none belongs).

## When it is not a problem

Front-end and storage ports, which carry nothing of the job: they are left out where the log shows which ports do, where
their number is not that of rails, or where their adapter is of another type. The ports of ConnectX-7 at 100 Gb/s that
manage the NVSwitches of B200 and B300 boards. Ports that are all equally slow: IB004 compares machines. A port that is
down prints a default rate: IB006.

## References

- NVIDIA, InfiniBand fabric utilities: ibstat(8), ibstatus(8)
- NVIDIA firmware tools: mlxlink
- NCCL user guide, Environment Variables: NCCL_IB_HCA
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import machine_names
from ncclcheck.facts.odd_ports import Odd, slow_ports
from ncclcheck.facts.rdma_ports import ports
from ncclcheck.rules.common import compared, counted, felt, goes_another_way, listed, of_a_job, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_NEEDS = "rates of the ports: the output of `ibstat` of every machine of the job"

_UNFELT = "by the model another limit binds first (NVLink or the GPU's slot)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO or goes_another_way(facts):
        return
    groups: dict[tuple[float, float, str, bool], list[Odd]] = {}
    for odd in slow_ports(facts):
        slowest = min(port.gbit for port in odd.ports)
        groups.setdefault((slowest, odd.usual.gbit, odd.usual.rail, odd.sure), []).append(odd)
    for (slow, usual, _, _), odds in groups.items():
        yield _finding(facts, estimator, slow, usual, odds)
    if not groups and not any(port.gbit for port in ports(facts)):
        yield NotEvaluated(_NEEDS)


def _finding(facts: Facts, estimator: Estimator, slow: float, usual: float, odds: Sequence[Odd]) -> Finding:
    machines, base = machine_names(odd.usual for odd in odds), of_a_job(facts)
    slow_ones = [port for odd in odds for port in odd.ports]
    devices = tuple(sorted({port.device for port in slow_ones}))
    like = "the other rails" if odds[0].sure else f"most ports of the type {odds[0].usual.adapter}"
    verb = "runs" if len(slow_ones) == 1 else "run"
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if odds[0].sure else Confidence.MEDIUM,
        f"{counted(len(slow_ones), 'port')} ({listed(devices)}) of {place(machines, 'a machine')} {verb} at {slow:g}"
        f" Gb/s, {like} at {usual:g}: the slowest rail sets the pace of all",
        f"mlxlink -d {devices[0]} -c -e on the machine (lanes, speed, bit errors); reseat or replace cable and"
        " transceiver, compare the switch's side of the link",
        {"hosts": machines, "devices": devices},
        tuple(dict.fromkeys(line for odd in odds for port in (*odd.ports, odd.usual)
                            for line in port.evidence("rate_gbit")))[:4],
        **felt(compared(estimator, base | {"nic_gbit": usual}, base | {"nic_gbit": slow}), _UNFELT),
    )  # fmt: skip


RULE = Rule(
    code="IB005",
    name="port-rate",
    severity=Severity.WARNING,
    summary="A port of an adapter runs at a lower rate than its siblings",
    check=check,
    since="0.1.0",
)
