"""The container, or the image, lacks what RDMA or the topology search needs from the host.

## What it finds

The host has the device, the process cannot use it:
- `Call to ibv_open_device failed`, `NET/IB : Unable to open device mlx5_0`: /sys lists the device, but
  /dev/infiniband/uverbs0 is not in the container, or the device cgroup refuses it;
- `Failed to open libibverbs.so[.1]`: the image has no libibverbs;
- libibverbs without the driver of the NIC: `couldn't load driver 'libmlx5-rdmav34.so'`, `no userspace device-specific
  driver found for /sys/class/infiniband_verbs/uverbs0`;
- WARN `Could not find real path of /sys/class/pci_bus/...`: /sys is not visible, so NCCL cannot build its topology
  and stops at init;
- `cuMem host allocations do not appear to be working`: the runtime blocks the NUMA calls (`move_pages`, `mbind`,
  `set_mempolicy`); NCCL falls back to /dev/shm. Information.

A device that cannot be opened is a fault only where nothing else carries the network. With SR-IOV /sys shows the
virtual functions of all pods, each pod may open its own, and the WARNs about the others are noise.

## Why it costs

NCCL takes the next network: sockets. One GPU per node then reaches about 2 GB/s, four to eight about 3, where an HGX
H100 node has 370 to 390 GB/s; the cause is two lines at init. Without /sys the job does not start at all. The cuMem
fallback costs nothing measurable, but it needs room in /dev/shm, of which Docker gives 64 MB.

## Example

    train-3:88:88 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed
    train-3:88:88 [0] transport/net_ib.cc:149 NCCL WARN NET/IB : Unable to open device mlx5_0
    train-3:88:88 [0] NCCL INFO NET/IB : No device found.

## How to fix

- Docker: `--device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 --network=host`. Podman: the same;
  rootless, the user must be able to open the files of /dev/infiniband.
- Kubernetes: a resource of the RDMA device plugin (`rdma/hca_shared_devices: 1`, `nvidia.com/mlnxnics`,
  `vpc.amazonaws.com/efa: 4`); `securityContext.capabilities.add: [IPC_LOCK]`.
- Image: `apt-get install libibverbs1 ibverbs-providers librdmacm1`, or the user-space packages of the host's OFED
  (`mlnxofedinstall --user-space-only --without-fw-update`). An image of an older OFED than the host's can fail as
  well.
- Check in the container: `ls -l /dev/infiniband`, `ibv_devinfo | grep -E 'hca_id|state'`, `ls /sys/class/infiniband`.
- /sys: mount it (`-v /sys:/sys:ro`; Singularity `--contain` and chroots lack it), or a newer NCCL, which goes on.
- cuMem: `--cap-add=SYS_NICE` or a seccomp profile that allows the calls; or `NCCL_CUMEM_HOST_ENABLE=0` and a larger
  /dev/shm.

## When it is not a problem

Hosts without adapters. Hosts on which another device, or a plugin, carries the network. One machine: no network used.

## References

- NVIDIA/nccl issues 229, 451, 941, 1925, 2428; NVIDIA/nvidia-docker issue 930
- NCCL sources: `src/misc/ibvwrap.cc`, `src/transport/net_ib/init.cc`, `src/graph/xml.cc`, `src/misc/cudawrap.cc`
- NCCL user guide, Troubleshooting: InfiniBand, Docker; Environment Variables: NCCL_CUMEM_HOST_ENABLE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.seen import Failure, Seen
from ncclcheck.rules.common import Numbers, compared, listed, no_number, nvswitch_class, place, rides_on_tcp, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_Item = TypeVar("_Item", Seen, Failure)
_FIX_DEVICE = (
    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 (Kubernetes: a resource of the RDMA"
    " device plugin); in the container ls -l /dev/infiniband, then ibv_devinfo"
)
_FIX_LIBRARY = (
    "in the image: apt-get install libibverbs1 ibverbs-providers, or the user-space part of the host's OFED; then"
    " ibv_devinfo must list the devices"
)
_FIX_SYS = "make /sys visible to the process (docker run -v /sys:/sys:ro; no chroot, no --contain), or use a newer NCCL"
_FIX_NUMA = (
    "docker run --cap-add=SYS_NICE (or a seccomp profile that allows NUMA calls); or NCCL_CUMEM_HOST_ENABLE=0, with"
    " room in /dev/shm (--shm-size=8g)"
)
_NO_SIZE = "the number of machines is not in the input: there may be no traffic between machines"
_NEEDS_LINES = "the lines 'NET/IB : Using ...' or 'NET/IB : No device found.' (NCCL_DEBUG=INFO)"
_NEEDS_DEVICES = "does the host have RDMA devices that libibverbs would show? ibv_devinfo -l on the host tells"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    yield from _numa_calls(facts)
    yield from _sys_hidden(facts, estimator)
    if facts.crossing.answer is Answer.NO:
        return
    refused, libraries = _left_without(facts, _refused(facts)), _left_without(facts, _no_library(facts))
    drivers = _left_without(facts, facts.notes("verbs_driver_missing"))
    if refused and _searched(facts):
        yield _finding_refused(facts, estimator, refused)
    elif refused:  # whether others are left comes after that
        yield NotEvaluated(_NEEDS_LINES)
    if libraries:
        if _devices_meant(facts, estimator):
            yield _finding_library(facts, estimator, libraries)
        else:
            yield NotEvaluated(_NEEDS_DEVICES)
    if drivers and not refused and (_has_device(drivers) or facts.notes("net_ib_no_device")):
        yield _finding_driver(facts, estimator, drivers)
    if not (refused or libraries or drivers or _searched(facts)):
        yield NotEvaluated(_NEEDS_LINES)


def _refused(facts: Facts) -> tuple[Failure, ...]:
    """Devices that /sys shows and the process may not open."""
    opened = [one for one in facts.failures("ibv_failed") if one.fields.get("call") == "ibv_open_device"]
    return tuple(one for one in (*facts.failures("ib_open_failed"), *opened) if one.level == "WARN")


def _no_library(facts: Facts) -> tuple[Failure, ...]:
    return facts.failures("ib_library_missing")


def _left_without(facts: Facts, failures: Sequence[_Item]) -> list[_Item]:
    """Those on machines that nothing else serves: no other device of theirs, and no network but sockets."""
    served = frozenset(facts.nic_lists) | _carried(facts)
    return [one for one in failures if _is_left(one, served)]


def _carried(facts: Facts) -> frozenset[str]:
    return frozenset(machines_of([seen for seen in facts.networks if not rides_on_tcp(facts, seen.value)]))


def _is_left(item: Seen | Failure, served: frozenset[str]) -> bool:
    """Records without a host may be of any machine."""
    return not served.issuperset(item.machines) if item.machines else not served


def _searched(facts: Facts) -> bool:
    return bool(facts.nic_lists or facts.notes("net_ib_no_device") or facts.networks or facts.net_edges())


def _devices_meant(facts: Facts, estimator: Estimator) -> bool:
    """Does anything but the missing library itself speak of RDMA?"""
    signs = [sign for sign in facts.rdma_signs if not sign.value.startswith("libibverbs")]
    return bool(signs) or nvswitch_class(facts, estimator)


def _has_device(drivers: Sequence[Seen]) -> bool:
    """The kernel has a device, whose driver is missing in user space; other drivers may be missing without harm."""
    return any("/infiniband_verbs/" in seen.value for seen in drivers)


def _severity(facts: Facts) -> tuple[Severity, Confidence]:
    if facts.crossing.answer is Answer.YES:
        return Severity.ERROR, Confidence.HIGH if facts.crossing.confidence == "high" else Confidence.MEDIUM
    return Severity.WARNING, Confidence.MEDIUM


def _numbers(facts: Facts, estimator: Estimator) -> Numbers:
    if facts.crossing.answer is Answer.YES:
        return compared(estimator, {"network": "rdma"}, {"network": "socket"})
    return no_number(_NO_SIZE)


def _finding_refused(facts: Facts, estimator: Estimator, refused: list[Failure]) -> Finding:
    machines = machines_of(refused)
    names = {one.fields.get("text", "") for one in refused if one.category == "ib_open_failed"} - {""}
    what = listed(sorted(names)) if names else "the RDMA devices"
    severity, confidence = _severity(facts)
    return _finding(
        severity,
        confidence,
        f"NCCL may not open {what} on {place(machines, 'a machine')}, and no other device is left: /dev/infiniband is"
        " not in the container, or access is refused",
        _FIX_DEVICE,
        machines,
        refused,
        _numbers(facts, estimator),
    )


def _finding_library(facts: Facts, estimator: Estimator, libraries: list[Failure]) -> Finding:
    machines = machines_of(libraries)
    severity, _ = _severity(facts)
    return _finding(
        severity,
        Confidence.MEDIUM,
        f"libibverbs cannot be loaded on {place(machines, 'a machine')}: the image lacks it, so NCCL sees no adapter",
        _FIX_LIBRARY,
        machines,
        libraries,
        _numbers(facts, estimator),
    )


def _finding_driver(facts: Facts, estimator: Estimator, drivers: list[Seen]) -> Finding:
    machines = machines_of(drivers)
    severity, _ = _severity(facts)
    return _finding(
        severity,
        Confidence.MEDIUM,
        f"libibverbs finds no driver for the adapter on {place(machines, 'a machine')}: the image lacks the provider of"
        " the NIC, or has one that does not fit the host's",
        _FIX_LIBRARY,
        machines,
        drivers,
        _numbers(facts, estimator),
    )


def _sys_hidden(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """NCCL warns, and did not get any further."""
    hidden = [one for one in facts.failures("path_not_found") if "/pci_bus/" in one.fields.get("path", "")]
    went_on = facts.edges or facts.rings_connected or any(one.completed for one in facts.communicators)
    if hidden and not went_on:
        yield _finding(
            Severity.ERROR,
            Confidence.MEDIUM,
            f"NCCL does not find the PCI devices of {place(machines_of(hidden), 'a machine')} in /sys"
            f" ({hidden[0].fields['path']}): /sys of the host is not visible, and init stops without a topology",
            _FIX_SYS,
            machines_of(hidden),
            hidden,
            stopped(estimator),
        )


def _numa_calls(facts: Facts) -> Iterator[Finding]:
    blocked = facts.notes("shm_cumem_fallback")
    if blocked:
        yield _finding(
            Severity.INFO,
            Confidence.HIGH,
            f"The container runtime of {place(machines_of(blocked), 'a machine')} seems to block NUMA calls: NCCL falls"
            " back from cuMem host memory to /dev/shm",
            _FIX_NUMA,
            machines_of(blocked),
            blocked,
            no_number("the fallback works; it only needs room in /dev/shm"),
        )


def _finding(
    severity: Severity,
    confidence: Confidence,
    message: str,
    fix: str,
    machines: tuple[str, ...],
    proof: Sequence[Failure | Seen],
    numbers: Numbers,
) -> Finding:
    return RULE.finding(severity, confidence, message, fix, {"hosts": machines}, evidence_of(proof), **numbers)


RULE = Rule(
    code="HST003",
    name="device-not-in-container",
    severity=Severity.ERROR,
    summary="The container, or the image, lacks what RDMA or the topology search needs from the host",
    check=check,
    since="0.1.0",
)
