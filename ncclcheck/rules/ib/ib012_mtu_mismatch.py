"""RDMA ports have different MTUs on different machines, or a small one.

## What it finds

Active MTUs as `ibv_devinfo` tells them:

- The same port (name, adapter type, link layer) of one machine has another MTU than on most others.
- RoCE rails run at 1024 bytes though they can do 4096: their interface has Ethernet's usual 1500.

Rails are ports that carry traffic of the job, that `NCCL_IB_HCA` names, or that a matrix shows beside a GPU; where
nothing of that is in the input and the machine has no InfiniBand, 4, 8 or 16 RoCE ports of one type.

## Why it costs

Every packet has headers and work of its own: at 1024 bytes a RoCE port reaches 0.90 to 0.97 of what it reaches at 4096.
Two ends of different MTU take the smaller one, where the queue pair is set up with it; where it is not, packets are
dropped on the way and requests fail by timeout.

## Example

    hca_id: mlx5_4
        port:   1
            state:                  PORT_ACTIVE (4)
            max_mtu:                4096 (5)
            active_mtu:             1024 (3)
            link_layer:             Ethernet

## How to fix

    ip link set dev ens6f0np0 mtu 9000           # RoCE: on every host, and 9216 on the switches' ports
    ibv_devinfo -d mlx5_4 | grep mtu             # then active_mtu 4096

InfiniBand: the subnet manager sets the partition's MTU (`partitions.conf`: `mtu=5` is 4096), the same for all.

## When it is not a problem

Front-end ports at 1500, which carry nothing of the job. All ports equal at 4096, or at what the fabric's switches can
do at most.

## References

- libibverbs: ibv_devinfo(1), ibv_query_port(3)
- opensm(8): partition configuration, mtu
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import machine_names
from ncclcheck.facts.odd_ports import Odd, small_mtus, unequal_mtus
from ncclcheck.facts.rdma_ports import Port, ports
from ncclcheck.rules.common import compared, counted, goes_another_way, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

_NEEDS = "MTUs of the ports: the output of `ibv_devinfo` of every machine of the job"
_FIX_ROCE = (
    "ip link set dev {netdev} mtu 9000 on every host (9216 on the switches), then ibv_devinfo -d {device} | grep mtu"
)
_FIX_IB = "the partition's mtu in the subnet manager (partitions.conf: mtu=5 is 4096), then restart the ports"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO or goes_another_way(facts):
        return
    unequal = unequal_mtus(facts)
    for odd in unequal:
        yield _unequal(estimator, odd)
    told = {port for odd in unequal for port in odd.ports}
    small = [port for port in small_mtus(facts) if port not in told]
    if small:
        yield _small(estimator, small)
    if not unequal and not small and not any(port.mtu for port in ports(facts)):
        yield NotEvaluated(_NEEDS)


def _unequal(estimator: Estimator, odd: Odd) -> Finding:
    first, usual = odd.ports[0], odd.usual
    small = first.mtu < usual.mtu and first.layer == "ethernet"
    price = no_number("the ends agree on the smaller MTU; what that costs was measured for RoCE at 1024 only")
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if odd.sure else Confidence.MEDIUM,
        f"{_what(odd.ports)} {'has' if len(odd.ports) == 1 else 'have'} an active MTU of {first.mtu:g}, the same port"
        f" of {usual.machine or 'another machine'} {usual.mtu:g}",
        _fix(first),
        _subject(odd.ports),
        _lines([*odd.ports[:3], usual]),
        **(compared(estimator, {}, {"effect": "roce-mtu"}) if small and first.mtu <= 1024 else price),
    )


def _small(estimator: Estimator, small: Sequence[Port]) -> Finding:
    sure = all(port.rail for port in small)
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"{_what(small)} {'runs' if len(small) == 1 else 'run'} RoCE at an MTU of {small[0].mtu:g} where"
        f" {small[0].mtu_max:g} fits: the interface has Ethernet's 1500",
        _fix(small[0]),
        _subject(small),
        _lines(small),
        **compared(estimator, {}, {"effect": "roce-mtu"}),
    )


def _what(some: Sequence[Port]) -> str:
    devices = sorted({port.device for port in some})
    return f"{counted(len(some), 'port')} ({listed(devices)}) of {place(machine_names(some), 'a machine')}"


def _fix(port: Port) -> str:
    if port.layer != "ethernet":
        return _FIX_IB
    return _FIX_ROCE.format(netdev=port.netdev or "<interface>", device=port.device)


def _subject(some: Sequence[Port]) -> dict[str, tuple[str, ...]]:
    return {"hosts": machine_names(some), "devices": tuple(sorted({port.device for port in some}))}


def _lines(some: Sequence[Port]) -> tuple[Evidence, ...]:
    return tuple(line for port in some for line in port.evidence("mtu"))[:4]


RULE = Rule(
    code="IB012",
    name="mtu-mismatch",
    severity=Severity.WARNING,
    summary="RDMA ports have different MTUs on different machines, or a small one",
    check=check,
    since="0.1.0",
)
