"""The NVLink fabric is not ready, divided, or its ranks disagree on it.

## What it finds

From 2.20.3 on NCCL prints what the driver says of the fabric of each GPU (`MNNVL busId ... fabric UUID ... state 3
healthMask 0xaa`) and, where NVLink joins machines (MNNVL, as in NVL72 racks), what it makes of it (`MNNVL 1 cliqueId
7ffe cliqueSize 72 ...`).

- State other than 3 (1 not started, 2 in progress), or `Cuda failure 802 'system not yet initialized'`: the fabric
  manager has not set the GPU up.
- A health mask with a bad answer. It holds two bits each for degraded bandwidth, route recovery, unhealthy routes and
  access timeouts (0 not supported, **1 yes, 2 no**), then four for the configuration (0 and 1 are good).
- The WARN `MNNVL (cliqueSize N) is available but not working on this system`: memory cannot be exported to other
  machines (IMEX), and init stops; or `MNNVL is not supported on this system` where it was asked for.
- `MNNVL 1` on some ranks of a communicator and `MNNVL 0` on others.
- A divided domain: one UUID and several cliques in a communicator, or `nvlDomainSize` above `cliqueSize` (2.30.3).
- `nvidia-smi -q` (text, XML, CSV): a fabric state other than Completed, a status other than Success, a health that
  names a fault; and what the fabric manager's log says of its failure.
- A fatal error of an NVSwitch (SXid) in the kernel's log, the fabric manager's or NCCL's own diagnostics. Medium
  confidence: logs reach further back than the job, and a reset may have mended it.

## Why it costs

NCCL falls back in silence: from NVLink (360 GB/s of ring bandwidth per H100, 680 per GB200) to PCIe inside a machine,
or to the network between the machines of a rack, where 72 GPUs reach 840 GB/s of all_reduce over NVLink and a tray with
four 400 Gb/s rails about 190. A failed IMEX check or ranks that disagree stop the job.

## Example

    gb-r04-t09:20511:20570 [1] NCCL INFO MNNVL busId 0x901000 fabric UUID 0.0 cliqueId 0x0 state 2 healthMask 0x0

## How to fix

    nvidia-smi -q | grep -A12 Fabric                  # Completed, Success; UUID and clique equal in a rack
    systemctl status nvidia-fabricmanager nvidia-imex # on NVL72 the fabric manager runs on the switch trays
    nvidia-imex-ctl -N                                # all nodes of the domain must be READY and see each other
    ls /dev/nvidia-caps-imex-channels                 # channel0, in the container too
    nvidia-smi nvlink -s                              # links down explain a degraded mask
    dmesg -T | grep -i sxid                           # errors of NVSwitches; a fatal one asks for a reset

Drain a tray whose state or mask differs from its neighbours, then reset its GPUs. In Kubernetes the pods of a job need
one ComputeDomain (DRA driver), or the IMEX channel as a device. `NCCL_MNNVL_ENABLE=0` lets the job run over the network
meanwhile. A divided domain is set on the switches (partitions of NMX): give the job trays of one partition.

## When it is not a problem

`cliqueSize` that differs between racks; a UUID of zero with state 3, which is every HGX machine; a state of N/A, which
is every GPU without NVSwitch and A100; masks such as 0xaa, 0x1aa, 0x80 and 0x0, whose answers are all "no" or "not
supported". No such line is normal for GPUs without NVSwitch. SXids that are not fatal. With `NCCL_MNNVL_CLIQUE_ID` set
the division is asked for: information.

## References

- NVIDIA/nccl issue 1301 (UUID and clique)
- NCCL sources: `src/mnnvl.cc` (ncclMnnvlCheck), `src/init.cc` (fillInfo)
- NVML: fabric definitions (nvmlGpuFabricInfo, health masks); NVIDIA IMEX service guide; Fabric Manager user guide
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.fabric import (
    READY,
    Clique,
    Divided,
    FabricState,
    cliques,
    divided_domains,
    fabric_states,
    mixed_flags,
)
from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.gpu_parts import Gpu, gpu_parts
from ncclcheck.facts.host_parts import host_states
from ncclcheck.facts.switch_errors import fatal_switch_errors
from ncclcheck.rules import gpus
from ncclcheck.rules.common import counted, listed, no_number, place, stopped
from ncclcheck.rules.mnnvl import over_the_network
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.parts import Value
    from ncclcheck.facts.seen import Failure
    from ncclcheck.rules import gpus
from ncclcheck.rules.common import Numbers

_STATES = {0: "not supported", 1: "not started", 2: "in progress"}
# Two-bit answers of the health mask, 1 means yes; then the four bits of the configuration.
_ANSWERS = (
    (0, "degraded bandwidth", Severity.WARNING),
    (2, "routes being recovered", Severity.WARNING),
    (4, "unhealthy routes", Severity.ERROR),
    (6, "recovery from access timeouts", Severity.WARNING),
)
_CONFIGURATION = {
    2: "a wrong system GUID",
    3: "a wrong chassis serial number",
    4: "no partition",
    5: "too few NVLinks",
    6: "incompatible GPU firmware",
    7: "a wrong location",
}
_CHECK = (
    "nvidia-smi -q | grep -A12 Fabric (Completed, Success); systemctl status nvidia-fabricmanager (HGX) or nvidia-imex"
    " and the switch trays (NVL72); drain the machine and reset its GPUs"
)
_IMEX = (
    "nvidia-imex-ctl -N must show all nodes READY; ls /dev/nvidia-caps-imex-channels in the container (Kubernetes: one"
    " ComputeDomain for the job); NCCL_MNNVL_ENABLE=0 runs the job over the network meanwhile"
)
_FIX_SWITCH = (
    "dmesg -T | grep -i sxid; drain the machine and reset all its GPUs with their NVSwitches (nvidia-smi -r), else"
    " reboot; an error that comes back is hardware: switch, baseboard or the GPU at the named link"
)
_NEEDS = (
    "the lines 'MNNVL busId ... state ...' (NCCL 2.20.3+, NCCL_DEBUG=INFO with INIT) or `nvidia-smi -q`; for errors of"
    " NVSwitches `dmesg -T | grep -i sxid` and the fabric manager's log"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = [
        *_not_ready(facts, estimator),
        *_unhealthy(facts),
        *_not_working(facts, estimator),
        *_mixed(facts, estimator),
        *_divided(facts, estimator),
    ]
    told = gpu_parts(facts)
    if not found:  # NCCL's lines say the same of the same GPUs
        found = [*_tools_not_ready(told, facts, estimator), *_tools_unhealthy(told), *_manager(facts, estimator)]
    found += _switches(facts, estimator)
    yield from found
    shown = fabric_states(facts) or any(gpu.knows(("fabric_state",)) for gpu in told)
    if not (found or shown or facts.is_rccl or _cuda_works(facts)):
        yield NotEvaluated(_NEEDS)


def _cuda_works(facts: Facts) -> bool:
    """CUDA does not start on GPUs with NVSwitches before their fabric is ready; NCCL counts nodes after it looked."""
    return bool(facts.edges) or any(one.completed or one.nnodes for one in facts.communicators)


def _not_ready(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    states = [one for one in fabric_states(facts) if one.state != READY]
    refused = [
        one
        for one in facts.failures("cuda_failure")
        if one.level == "WARN" and "not yet initialized" in one.fields.get("error", "")
    ]
    if states:
        words = listed(sorted({f"{one.state}, {_STATES.get(one.state, 'unknown')}" for one in states}))
        gpus = sum(one.gpus for one in states)
        yield _finding(
            Severity.ERROR,
            Confidence.HIGH,
            f"The NVLink fabric of {counted(gpus, 'GPU')} on {place(_hosts(states), 'some machines')} is not ready"
            f" (state {words})",
            _CHECK,
            _hosts(states),
            _lines(states),
            stopped(estimator) if refused else over_the_network(facts, estimator),
        )
    elif refused:
        yield _finding(
            Severity.ERROR,
            Confidence.HIGH,
            f"CUDA does not start on {place(machines_of(refused), 'a rank')} ('system not yet initialized', 802): the"
            " fabric manager has not set up its NVSwitches",
            _CHECK,
            machines_of(refused),
            evidence_of(refused),
            stopped(estimator),
        )


def _unhealthy(facts: Facts) -> Iterator[Finding]:
    bad = [(one, faults) for one in fabric_states(facts) if one.health and (faults := _faults(one.health))]
    if not bad:
        return
    states = [one for one, _ in bad]
    what = list(dict.fromkeys(fault for _, faults in bad for fault, _ in faults))
    worst = max((severity for _, faults in bad for _, severity in faults), key=lambda severity: severity.rank)
    masks = sorted({f"{one.health:#x}" for one in states})
    yield _finding(
        worst,
        Confidence.HIGH,
        f"The NVLink fabric of {counted(sum(one.gpus for one in states), 'GPU')} on"
        f" {place(_hosts(states), 'some machines')} reports {listed(what)} (health mask {listed(masks)})",
        f"nvidia-smi nvlink -s; {_CHECK}",
        _hosts(states),
        _lines(states),
        no_number("how many links are lost is not in the mask"),
    )


def _faults(mask: int) -> list[tuple[str, Severity]]:
    found = [(words, severity) for shift, words, severity in _ANSWERS if mask >> shift & 3 == 1]
    configuration = mask >> 8 & 15
    if configuration in _CONFIGURATION:
        found.append((_CONFIGURATION[configuration], Severity.ERROR))
    return found


# Words of nvidia-smi's health that stop traffic; the others slow it.
_BROKEN_ROUTES = ("route unhealthy", "incorrect configuration", "unhealthy")


def _tools_not_ready(told: Sequence[Gpu], facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    seen = []
    for gpu in told:
        if bad := gpu.unlike("fabric_state", "completed") or gpu.unlike("fabric_status", "success"):
            seen.append((gpu, bad))
    if seen:
        words = listed(sorted({value.text for _, value in seen}))
        yield _of_gpus(seen, Severity.ERROR, f"is not ready ({words})", _CHECK, over_the_network(facts, estimator))


def _tools_unhealthy(told: Sequence[Gpu]) -> Iterator[Finding]:
    seen = [(gpu, value) for gpu in told if (value := gpu.unlike("fabric_health", "healthy"))]
    if seen:
        broken = any(word in value.text for _, value in seen for word in _BROKEN_ROUTES)
        words = listed(sorted({value.text for _, value in seen}))
        yield _of_gpus(
            seen,
            Severity.ERROR if broken else Severity.WARNING,
            f"reports {words}",
            f"nvidia-smi nvlink -s; {_CHECK}",
            no_number("how many links are lost is not said"),
        )


def _of_gpus(seen: Sequence[tuple[Gpu, Value]], severity: Severity, what: str, fix: str, numbers: Numbers) -> Finding:
    them = [gpu for gpu, _ in seen]
    message = f"The NVLink fabric of {gpus.together(them)} {what}"
    lines = tuple(value.evidence for _, value in seen)[:4]
    return _finding(severity, Confidence.HIGH, message, fix, machine_names(them), lines, numbers)


def _manager(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    said = host_states(facts, "fabric_manager")
    if said:
        hosts = machine_names(said)
        yield _finding(
            Severity.ERROR,
            Confidence.HIGH,
            f"The fabric manager on {place(hosts, 'a machine')} failed: {said[0].text}",
            _CHECK,
            hosts,
            tuple(one.evidence for one in said)[:4],
            over_the_network(facts, estimator),
        )


def _switches(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """Fatal errors of NVSwitches: what runs on their GPUs ends."""
    errors = fatal_switch_errors(facts)
    if not errors:
        return
    first, hosts = errors[0], machine_names(errors)
    switch = f"NVSwitch {first.switch}" if first.switch else "An NVSwitch"
    others = f"; {counted(len(errors) - 1, 'other fatal SXid')}" if errors[1:] else ""
    yield _finding(
        Severity.ERROR,
        Confidence.MEDIUM,
        f"{switch}{f' of {first.machine}' if first.machine else ''} reports SXid {first.number} (fatal){others}",
        _FIX_SWITCH,
        hosts,
        tuple(error.evidence for error in errors)[:4],
        stopped(estimator),
    )


def _not_working(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    broken = [one for one in facts.failures("warn") if _says_not_working(one)]
    if broken:
        asked = all(one.fields["text"].startswith("MNNVL is not supported") for one in broken)
        yield _finding(
            Severity.ERROR,
            Confidence.HIGH,
            "NCCL_MNNVL_ENABLE=1 asks for NVLink between machines, which this system does not have"
            if asked
            else f"NVLink joins the machines, but {place(machines_of(broken), 'a rank')} cannot export memory to the"
            " others (IMEX), and init stops",
            "unset NCCL_MNNVL_ENABLE (the default, 2, tries by itself); " + _CHECK if asked else _IMEX,
            machines_of(broken),
            evidence_of(broken),
            stopped(estimator),
        )


def _says_not_working(failure: Failure) -> bool:
    text = failure.fields.get("text", "")
    return text.startswith("MNNVL") and ("not working" in text or "not supported" in text)


def _mixed(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    for mixed in mixed_flags(facts)[:1]:
        yield _finding(
            Severity.ERROR,
            Confidence.HIGH,
            f"Ranks of one communicator disagree on NVLink between machines: {place(mixed.without, 'some')} without"
            f" (MNNVL 0), {place(mixed.beside, 'others')} with it (MNNVL 1)",
            f"NCCL_MNNVL_ENABLE and NCCL_CUMEM_ENABLE must be equal on all ranks; {_IMEX}",
            mixed.without,
            mixed.evidence,
            stopped(estimator),
        )


def _divided(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    apart = [one for one in divided_domains(facts) if one.cliques > 1]
    smaller = [one for one in cliques(facts) if one.domain is not None and one.domain > one.size]
    joined = any(seen.value.rstrip(".") == "1" for seen in facts.settings("NCCL_MNNVL_CROSS_CLIQUE"))
    if joined or not (apart or smaller):
        return
    asked = bool(facts.settings("NCCL_MNNVL_CLIQUE_ID"))
    proof: list[Clique | Divided] = [*smaller, *apart]
    hosts = tuple(sorted({machine for one in proof for machine in one.machines}))
    if smaller:
        what = f"{smaller[0].domain} ranks share an NVLink domain, but only {smaller[0].size} of them a clique"
    else:
        what = f"{counted(len(apart[0].machines), 'machine')} share an NVLink domain that is divided into"
        what = f"{what} {apart[0].cliques} cliques"
    yield _finding(
        Severity.INFO if asked else Severity.ERROR,
        Confidence.HIGH if asked else Confidence.MEDIUM,
        f"{what}: the rest goes over the network" + (" (NCCL_MNNVL_CLIQUE_ID asks for it)" if asked else ""),
        "unset NCCL_MNNVL_CLIQUE_ID" if asked else "give the job trays of one partition, or join the partitions on the"
        " NVLink switches (nmx / nvidia-smi -q | grep -A12 Fabric: CliqueId must be equal)",
        hosts,
        tuple(line for one in proof for line in one.evidence)[:4],
        over_the_network(facts, estimator),
    )  # fmt: skip


def _hosts(states: list[FabricState]) -> tuple[str, ...]:
    return tuple(sorted({machine for one in states for machine in one.machines}))


def _lines(states: list[FabricState]) -> tuple[Evidence, ...]:
    return tuple(line for one in states for line in one.evidence)[:4]


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
) -> Finding:
    return RULE.finding(severity, confidence, message, fix, {"hosts": hosts}, evidence, **numbers)


RULE = Rule(
    code="NVL004",
    name="fabric-state",
    severity=Severity.ERROR,
    summary="The NVLink fabric is not ready, divided, or its ranks disagree on it",
    check=check,
    since="0.1.0",
)
