"""GPUDirect RDMA is off because neither the peer memory module nor dma-buf works.

## What it finds

A NIC can read and write GPU memory if the kernel module nvidia_peermem (older: nv_peer_mem) is loaded, or if kernel,
NIC driver and GPU driver share the memory as a dma-buf. NCCL tests both once per device and prints the result with
the NET subsystem:

- `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'` (2.13.4 and newer; 2.5.6 to 2.12.12 add `(no module)`, 2.4 `(no
  module or not supported by GPU)`): neither works for that device. GDR001 tells what it costs, this rule is its reason.
- `Unable to use GIN: Peermem is not supported, nor DMA-BUF` (2.29.7) says the same.
- `Call to ibv_reg_mr failed with error Bad address`, `ibv_reg_dmabuf_mr failed ... Operation not supported`: the test
  passed and the registration of GPU memory does not; init stops.

On one machine nothing uses it: information.

`lsmod` and the kernel's log tell of the module itself: the line of `nvidia` in lsmod lists who uses it, and
`nvidia_peermem: Unknown symbol ib_register_peer_memory_client` is a driver that was built without the OFED. Where
edges are staged and the driver's modules are the proprietary ones, which know no dma-buf, that is the reason. Alone it
is information at most: dma-buf does without the module.

## Why it costs

All data between machines is copied to host memory and back. One GPU and one NIC reach about 5.7 GB/s on PCIe gen 3, 8.8
on gen 4, 14.5 to 15 on gen 5; a node with eight rails stops near 72 GB/s (30 to 120) where GPUDirect gives 370 to 390.
After an update of a DGX system that renamed the module, two nodes fell from about 180 to 10 GB/s.

## Example

    dgx-3:4101:4180 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'

## How to fix

    lsmod | grep -E 'nvidia_peermem|nv_peer_mem'      # none: modprobe nvidia-peermem, on the host
    dmesg | grep -iE 'peermem|peer_mem' | tail        # "Unknown symbol ib_register_peer_memory_client": no OFED
    modinfo nvidia | grep -i '^license'               # "Dual MIT/GPL" (open modules) is needed for dma-buf
    uname -r                                          # dma-buf: 5.12 or newer, CUDA 11.7, NCCL 2.13.4

- `modprobe: Invalid argument`: the GPU driver was built before the OFED (DOCA) was installed; reinstall the driver.
- NCCL up to 2.22.3 looks for the old module only on some systems: with nvidia-peermem loaded and this line still there,
  use a newer NCCL.
- `echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf` loads it at boot. In Kubernetes the GPU operator does
  (`driver.rdma.enabled=true`); a container cannot.
- `NCCL_DMABUF_ENABLE=0` takes dma-buf away: unset it.

## When it is not a problem

nvidia_peermem absent while edges carry `/GDRDMA`: dma-buf does it, and a use count of 0 is normal. A device that
carries no traffic (storage, management). GeForce cards and NICs that cannot (Omni-Path over verbs). `DMA-BUF is
available on GPU device 0` proves nothing: it is the GPU's side only.

## References

- NVIDIA/nccl issues 465 ("no module"), 1676 (module renamed, NCCL up to 2.22.3), 1667 (which lines tell)
- NCCL sources: `src/transport/net_ib` (ncclIbGdrSupport, ncclIbDmaBufSupport)
- NVIDIA GPUDirect RDMA documentation: nvidia-peermem; NCCL user guide: NCCL_DMABUF_ENABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.gdr import devices_that_can
from ncclcheck.facts.peer_memory import NoPeerMemory, without_peer_memory
from ncclcheck.facts.seen import GdrRefusal
from ncclcheck.rules.common import compared, listed, no_number, place, stopped
from ncclcheck.rules.gdr.hardware import cards_without_gdr, omni_path, staged_edges
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure
    from ncclcheck.rules.common import Numbers

_OLD_TEST_UNTIL = 22203
_DMABUF_RELEASE, _DMABUF_DRIVER = 21304, 11070
_FIX = (
    "on the host: modprobe nvidia-peermem (lsmod | grep peermem; at boot: /etc/modules-load.d), or open kernel modules"
    " and kernel 5.12+ for dma-buf"
)
_NEEDS = (
    "the lines 'GPU Direct RDMA Enabled/Disabled for HCA' (NCCL_DEBUG_SUBSYS=INIT,ENV,NET) or `lsmod | grep peermem`:"
    " traffic between machines is staged, or no channel line tells"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if unregistered := _unregistered(facts):
        yield _stops(facts, estimator, unregistered)
        return
    if cards_without_gdr(facts) or omni_path(facts):
        return  # no module helps; GDR001 tells
    refused = _refused(facts)
    lines: list[GdrRefusal | Failure] = [*refused, *facts.failures("gin_without_peer_memory")]
    if lines and facts.crossing.answer is Answer.NO:
        yield _finding(
            facts,
            lines,
            Severity.INFO,
            Confidence.HIGH,
            ": no matter on one machine, but a job over several would stage all data",
            no_number("nothing leaves the machine"),
        )
    elif refused or (lines and staged_edges(facts)):
        sure = Confidence.HIGH if staged_edges(facts) else Confidence.MEDIUM
        numbers = compared(estimator, {"gdr": True}, {"gdr": False})
        yield _finding(facts, lines, Severity.ERROR, sure, _reason(facts), numbers)
    elif not devices_that_can(facts) and _open(facts):
        lacking = without_peer_memory(facts)
        if lacking and lacking.dmabuf is not True and not facts.notes("dmabuf_available"):
            yield _by_module(facts, estimator, lacking)
        if not (lacking and staged_edges(facts)):
            yield NotEvaluated(_NEEDS)


def _by_module(facts: Facts, estimator: Estimator, lacking: NoPeerMemory) -> Finding:
    """The module is not there. What that costs is known only where traffic is staged."""
    staged = bool(staged_edges(facts))
    why = f" (the kernel found no {lacking.refused})" if lacking.refused else ""
    proprietary = "; its proprietary kernel modules know no dma-buf" if lacking.dmabuf is False else ""
    certain = staged and lacking.dmabuf is False
    return RULE.finding(
        Severity.ERROR if certain else Severity.INFO,
        Confidence.HIGH if certain else Confidence.LOW,
        f"nvidia_peermem is not loaded on {place(lacking.machines, 'a machine')}{why}{proprietary}: GPUDirect RDMA"
        + (" is off" if certain else " needs dma-buf there"),
        _FIX,
        {"hosts": lacking.machines},
        lacking.evidence,
        **(
            compared(estimator, {"gdr": True}, {"gdr": False})
            if staged
            else no_number("nothing tells whether GPUDirect RDMA is off: dma-buf may do it")
        ),
    )


def _refused(facts: Facts) -> list[GdrRefusal]:
    """Devices that NCCL refuses as a whole. One that carries nothing does not matter where others do it."""
    refused = [one for one in facts.gdr_refusals if one.kind == "hca"]
    direct = any(edge.gdr for edge in facts.net_edges()) or bool(devices_that_can(facts))
    if not direct:
        return refused
    staged = {part for edge in staged_edges(facts) for device in edge.devices for part in device.split("+")}
    return [one for one in refused if one.hca in staged]


def _open(facts: Facts) -> bool:
    """May there be staged traffic for which the reason is not in the input?"""
    if facts.crossing.answer is Answer.NO:
        return False
    edges = [edge for edge in facts.net_edges() if networks.kind(edge.network) in networks.RDMA]
    if edges:
        return not all(edge.gdr for edge in edges) and not facts.gdr_refusals
    return not facts.networks or any(networks.kind(seen.value) in networks.RDMA for seen in facts.networks)


def _unregistered(facts: Facts) -> list[Failure]:
    """Registrations of memory that fail for want of access to the GPU, not for want of locked memory."""
    return [
        one
        for one in facts.failures("ibv_failed")
        if one.level == "WARN"
        and "reg" in one.fields.get("call", "")
        and one.fields.get("errno_text") in ("Bad address", "Operation not supported", "Function not implemented")
    ]


def _stops(facts: Facts, estimator: Estimator, failures: list[Failure]) -> Finding:
    call, error = failures[0].fields.get("call", ""), failures[0].fields.get("errno_text", "")
    machines = machines_of(failures)
    way = "dma-buf" if "dmabuf" in call else "the peer memory module"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if "dmabuf" in call or error == "Bad address" else Confidence.MEDIUM,
        f"The NIC cannot register GPU memory on {place(machines, 'a rank')} ({call}: {error}): {way} does not work",
        f"{_FIX}; NCCL_DMABUF_ENABLE=0 tells whether dma-buf is it, NCCL_NET_GDR_LEVEL=LOC gets the job going without"
        " GPUDirect",
        {"hosts": machines},
        evidence_of(failures),
        **stopped(estimator),
    )


def _reason(facts: Facts) -> str:
    """What the input adds to it."""
    drivers = [int(seen.value) for seen in facts.notes("cuda_driver_version") if seen.value.isdecimal()]
    if any(seen.value.rstrip(".") == "0" for seen in facts.settings("NCCL_DMABUF_ENABLE")):
        return "; NCCL_DMABUF_ENABLE=0 leaves only the module"
    lacking = without_peer_memory(facts)
    if lacking and lacking.refused:
        return f"; the kernel refused nvidia_peermem for want of {lacking.refused}"
    if facts.notes("dmabuf_available"):
        return "; the GPU's side offers dma-buf, so the kernel or the NIC's driver lacks it"
    if (facts.release or _DMABUF_RELEASE) < _DMABUF_RELEASE:
        return "; this release of NCCL knows the module only"
    if drivers and min(drivers) < _DMABUF_DRIVER:
        return "; the driver is older than CUDA 11.7, which dma-buf needs"
    return ""


def _finding(
    facts: Facts,
    lines: list[GdrRefusal | Failure],
    severity: Severity,
    confidence: Confidence,
    more: str,
    numbers: Numbers,
) -> Finding:
    machines = machines_of(lines)
    names = list(dict.fromkeys(one.hca for one in lines if isinstance(one, GdrRefusal)))
    devices = f" for {listed(names)}" if names else ""
    old = facts.release is None or facts.release <= _OLD_TEST_UNTIL
    fix = f"{_FIX}; if it is loaded, NCCL up to 2.22.3 may not notice it: upgrade" if old else _FIX
    return RULE.finding(
        severity,
        confidence,
        f"Neither the peer memory module nor dma-buf works{devices} on {place(machines, 'some machines')}{more}",
        fix,
        {"hosts": machines},
        evidence_of(lines),
        **numbers,
    )


RULE = Rule(
    code="GDR002",
    name="peermem-missing",
    severity=Severity.ERROR,
    summary="GPUDirect RDMA is off because neither the peer memory module nor dma-buf works",
    check=check,
    since="0.1.0",
)
