"""A port of an adapter is down or went down, or an adapter failed.

## What it finds

The events that adapters raise and every process prints as a warning: `NET/IB : Got async event : port error` (2.4 to
2.19.4, no device named), `NET/IB : mlx5_3:1 Got async event : port error` (2.20.3 and newer),
`NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)` (2.28.7 and newer), and `async fatal event` of a device, a
queue pair or a completion queue.

| event | severity |
| --- | --- |
| port error, and no `port active` after it | error |
| port error, then port active, and no request failed: a flap | warning |
| local catastrophic error (the device is gone), fatal event on a queue | error |

All ranks of a machine print the event of one port: it is one finding, for that machine and device.

States of ports as `ibstat`, `ibstatus`, `ibv_devinfo`, `rdma link` and `/sys/class/infiniband` tell them:

| port | severity |
| --- | --- |
| a rail that is not active: it carries traffic, `NCCL_IB_HCA` names it, or a matrix shows it near a GPU | error |
| one of 4, 8 or 16 ports of one adapter type and link layer that is not active, and not switched off | warning |

A cable error that the kernel reports of the adapter (`Port module event`) is named with the port, where the kernel
names the port's interface, too.

Losses of carrier in the logs of a machine (`ibp41s0: Lost carrier`, `Link down` of the kernel), where the interface is
IPoIB or that of a rail: three or more, or one without return, are a warning, unless all of the machine's did alike.
So is a rail's `link_downed` that rose between two readings of `/sys/class/infiniband`.

## Why it costs

Requests through a dead port are repeated until the retries are used up (status 12, 8 to 30 s or more, see IB010); then
the communicator fails and all ranks stop. Started again, the job runs on the ports that are left: N-1 of N rails, since
every rail carries the same share. A flap costs the seconds for which the port was away, each time, for all ranks: the
ring waits. Flaps come back, and one that outlasts the retries ends the job.

## Example

    sxm-12:40118:40377 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_5:1 Got async event : port error

with no `port active` to follow.

## How to fix

    ibstat mlx5_5                       # State: Active, Physical state: LinkUp; Polling: no signal
    dmesg -T | grep -iE 'mlx5|link (up|down)|health'
    mlxlink -d mlx5_5 -e -c             # bit errors, and what the cable's module says
    cat /sys/class/infiniband/mlx5_5/ports/1/counters/{link_downed,symbol_error}

- Port: reseat or replace cable or transceiver, try another switch port; compare with the switch's log. Drain the
  machine until `link_downed` stands still under load.
- Catastrophic error: firmware or PCIe. `mlxfwmanager`, `dmesg` (health, AER), power-cycle the machine (a warm reset
  does not always reset the card).
- Fatal event on a queue pair or completion queue: driver, firmware, or memory that was taken away under it; look at
  what failed first in that process.
- `NCCL_IB_TIMEOUT=22` bridges flaps of some seconds. `NCCL_IB_RESILIENCY_PORT_FAILOVER=1` (2.29.7 and newer) moves the
  traffic to another port instead.

## When it is not a problem

LID change, SM change, P_Key change, client reregistration and GID table change are not port failures: a subnet manager
that restarts raises them on all hosts (IB007 looks at the GID table of RoCE). Ports that NCCL_IB_HCA leaves out carry
no traffic. Ports that are `Disabled`: somebody switched them off, unless the job asks for them. Second ports of storage
and front-end adapters without a cable. In a job of one machine the port carries nothing: information.

## References

- NVIDIA/nccl issue 905: the same event, a flapping link
- NCCL sources: `src/transport/net_ib.cc`, ncclIbAsyncThreadMain (`src/transport/net_ib/common.cc` in 2.28 and newer)
- libibverbs: ibv_get_async_event(3)
- NCCL user guide, Environment Variables: NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT, NCCL_IB_RETURN_ASYNC_EVENTS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.cables import cable_errors
from ncclcheck.facts.carriers import Carrier, carriers, flapping
from ncclcheck.facts.facts import evidence_of, machine_names
from ncclcheck.facts.odd_ports import Odd, down_ports
from ncclcheck.facts.port_counters import links_lost
from ncclcheck.facts.ports import PortEvents, port_events
from ncclcheck.facts.rdma_ports import CARRIES, ports
from ncclcheck.rules.common import compared, counted, is_on, listed, no_number, of_a_job, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_NEEDS = "WARN lines of NCCL (NCCL_DEBUG=WARN or INFO; at VERSION they are not printed), or `ibstat` of every machine"
_FIX_PORT = (
    "ibstat {device}; mlxlink -d {device} -e -c; dmesg -T | grep -iE 'mlx5|link (up|down)' on the machine: cable,"
    " transceiver or switch port; drain the machine until link_downed stands still under load"
)
_FIX_NO_MANAGER = (
    "sminfo on the machine: no subnet manager answers; start opensm or the switch's manager, check the cable"
)
_FLAP_PRICE = "a flap costs the seconds for which the port is away: transfers wait and are repeated"
_FIX_DEVICE = "dmesg -T | grep -iE 'mlx5|health|AER', then firmware (mlxfwmanager) and a power cycle of the machine"
_FIX_QUEUE = "dmesg -T | grep -i mlx5 and what failed first in that process; driver and firmware of the adapter"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    groups: dict[tuple[str, bool], list[PortEvents]] = {}
    for event in port_events(facts):
        if event.kind != "gid" and _in_use(facts, event):
            groups.setdefault((event.kind, event.returned), []).append(event)
    for (kind, returned), events in groups.items():
        yield _finding(facts, estimator, kind, returned, events)
    told = {(event.machine, event.device) for events in groups.values() for event in events}
    yield from _down_by_tools(facts, estimator, told)
    yield from _flaps(facts, estimator)
    yield from _links_lost(facts)
    seen = facts.visibility.info or facts.failures() or any(port.state for port in ports(facts))
    if not groups and not seen and not carriers(facts):
        yield NotEvaluated(_NEEDS)


def _down_by_tools(facts: Facts, estimator: Estimator, told: set[tuple[str, str]]) -> Iterator[Finding]:
    """Ports that tools show down; events of the same port are told already."""
    groups: dict[tuple[str, str, str, bool], list[Odd]] = {}
    for odd in down_ports(facts):
        first = odd.ports[0]
        if not any((port.machine, port.device) in told for port in odd.ports):
            groups.setdefault((first.state, first.physical, first.rail, odd.sure), []).append(odd)
    for odds in groups.values():
        yield _down_finding(facts, estimator, odds)


def _down_finding(facts: Facts, estimator: Estimator, odds: Sequence[Odd]) -> Finding:
    down = [port for odd in odds for port in odd.ports]
    first, sure = down[0], odds[0].sure
    machines = machine_names(down)
    devices = tuple(sorted({port.device for port in down}))
    state = f"{first.state}{f' ({first.physical})' if first.physical not in ('', 'link-up') else ''}"
    why = (
        f"{'it' if len(down) == 1 else 'each'} {first.rail}"
        if first.rail
        else f"most of its siblings ({first.adapter}) are active"
    )
    errors = cable_errors(facts)
    cables = [error for port in down if (error := errors.get((port.place, port.netdev)))]
    cable = f"; the kernel says of the cable: {cables[0].text}" if cables else ""
    idle = facts.crossing.answer is Answer.NO
    return RULE.finding(
        Severity.INFO if idle else Severity.ERROR if sure else Severity.WARNING,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        f"{'Port' if len(down) == 1 else 'Ports'} {listed(devices)} of {place(machines, 'a machine')}"
        f" {'is' if len(down) == 1 else 'are'} not active: {state}; {why}{cable}",
        _FIX_NO_MANAGER if first.state == "init" else _fix("down", devices),
        {"hosts": machines, "devices": devices},
        (
            *(error.evidence for error in cables[:2]),
            *(line for port in down for line in port.evidence("state", "physical")),
        )[:4],
        **(no_number("the job does not use it") if idle else _without(facts, estimator, odds[0])),
    )


def _without(facts: Facts, estimator: Estimator, odd: Odd) -> Numbers:
    """The machine without its ports that are down. NCCL leaves them out at the start: what it lists is what is left."""
    nics = estimator.shape.nics_per_node or odd.others
    if odd.ports[0].rail == CARRIES:
        return _one_less(estimator)
    base = of_a_job(facts)
    return compared(estimator, base | {"nics": nics + len(odd.ports)}, base | {"nics": max(nics, 1)})


def _flaps(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """Fabric interfaces that lose their carrier again and again, or for good."""
    odd = flapping(facts)
    if not odd:
        return
    machines = machine_names(odd)
    devices = tuple(dict.fromkeys(one.port.device if one.port else one.netdev for one in odd))
    worst: Carrier = max(odd, key=lambda one: one.lost)
    gone = [one for one in odd if not one.returned]
    again = "and has none at the end of its log" if gone else "and came back each time: a flap"
    idle = facts.crossing.answer is Answer.NO
    yield RULE.finding(
        Severity.INFO if idle else Severity.WARNING,
        Confidence.HIGH if worst.port and worst.port.rail else Confidence.MEDIUM,
        f"{listed(devices)} of {place(machines, 'a machine')} lost its carrier {counted(worst.lost, 'time')} {again}",
        _fix("down", [one.port.device for one in odd if one.port]),
        {"hosts": machines, "devices": devices},
        evidence_of(odd),
        **(_one_less(estimator) if gone and not idle else no_number(_FLAP_PRICE)),
    )


def _links_lost(facts: Facts) -> Iterator[Finding]:
    """Links of rails that went down between two readings of `link_downed`."""
    lost = links_lost(facts)
    if not lost:
        return
    machines = machine_names(lost)
    devices = tuple(sorted({rise.part.rpartition("/")[0] for rise in lost}))
    yield RULE.finding(
        Severity.INFO if facts.crossing.answer is Answer.NO else Severity.WARNING,
        Confidence.HIGH,
        f"The link of {listed(devices)} of {place(machines, 'a machine')} went down between two readings of"
        f" link_downed ({counted(max(rise.by for rise in lost), 'time')})",
        _fix("down", devices),
        {"hosts": machines, "devices": devices},
        evidence_of(lost),
        **no_number(_FLAP_PRICE),
    )


def _in_use(facts: Facts, event: PortEvents) -> bool:
    """Does NCCL use the device, as far as the machine's list tells?"""
    listed_here = facts.nic_lists.get(event.machine, ())
    names = {part for nic in listed_here for part in nic.name.split("+")}
    return not (event.device and names) or event.device in names


def _finding(facts: Facts, estimator: Estimator, kind: str, returned: bool, events: Sequence[PortEvents]) -> Finding:
    machines = machine_names(events)
    devices = sorted({event.device for event in events if event.device})
    severity, what, numbers = _verdict(facts, estimator, kind, returned, max(event.times for event in events))
    which = _which(kind, devices, len(events))
    unnamed = "" if devices else " (this release does not print which)"
    return RULE.finding(
        severity,
        Confidence.HIGH,
        f"{which} of {place(machines, 'a machine')} {what}{unnamed}",
        _fix(kind, devices),
        {"hosts": machines, "devices": tuple(devices)},
        evidence_of(events),
        **numbers,
    )


def _which(kind: str, devices: Sequence[str], ports: int) -> str:
    named = f" {listed(devices)}" if devices else ""
    if kind == "down":
        return f"Port{named}" if devices and ports == 1 else f"Ports{named}" if ports > 1 else "A port"
    thing = "Adapter" if kind == "device" else "A queue of adapter"
    return f"{thing}{named}" if devices else f"{'An' if kind == 'device' else 'A queue of an'} adapter"


def _verdict(
    facts: Facts, estimator: Estimator, kind: str, returned: bool, times: int
) -> tuple[Severity, str, Numbers]:
    """Severity, what happened in words, and its price."""
    idle = facts.crossing.answer is Answer.NO
    fatal = {"device": "failed (local catastrophic error)", "queue": "failed (fatal event)"}
    back = "came back" if returned else "did not come back in this input"
    what = fatal.get(kind) or f"went down{f' {times} times' if times > 1 else ''} and {back}"
    if idle:
        return Severity.INFO, f"{what}; this job has no traffic between machines", no_number("the job does not use it")
    broke = bool(facts.failed_completions)
    if kind != "down":
        return Severity.ERROR, what, stopped(estimator)
    if returned and not broke:
        return Severity.WARNING, f"{what}: a flap, no request failed", no_number(_FLAP_PRICE)
    if any(is_on(seen.value) for seen in facts.settings("NCCL_IB_RESILIENCY_PORT_FAILOVER")):
        return Severity.WARNING, f"{what}; NCCL moves its traffic to another port", _one_less(estimator)
    if broke:
        return Severity.ERROR, f"{what}, and RDMA requests failed", stopped(estimator)
    return Severity.ERROR, f"{what}: requests through it fail when their retries are used up", _one_less(estimator)


def _one_less(estimator: Estimator) -> Numbers:
    """What is left after a restart: one net device less on that machine, and the others wait for it."""
    nics = estimator.shape.nics_per_node
    if nics is None or nics < 2:
        return stopped(estimator)
    return compared(estimator, {"nics": nics}, {"nics": nics - 1})


def _fix(kind: str, devices: Sequence[str]) -> str:
    if kind == "down":
        return _FIX_PORT.format(device=devices[0] if len(devices) == 1 else "<device>")
    return _FIX_DEVICE if kind == "device" else _FIX_QUEUE


RULE = Rule(
    code="IB006",
    name="port-down",
    severity=Severity.ERROR,
    summary="A port of an adapter is down or went down, or an adapter failed",
    check=check,
    since="0.1.0",
)
