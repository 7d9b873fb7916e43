"""The release of NCCL has a known fault for what the log shows.

## What it finds

A symptom in the log together with a release that is known to have it, and the release that mends it:

- `Could not find real path of /sys/class/pci_bus/...`, up to 2.9: init fails where containers, WSL or guests hide the
  PCI tree. Mended in 2.10.3.
- All network channels on one device although several alike are listed, 2.5: the search does not spread them. Mended in
  2.6.4.
- `GPU Direct RDMA Disabled for HCA`, up to 2.22.3: only the old name of the peer memory module is looked for. Mended in
  2.23.4.
- `ibv_modify_qp` fails on RoCE with no GID index set, up to 2.20.5: entry 0 of the GID table is used, mostly a
  link-local address. Mended in 2.21.5, which picks the entry itself.
- Nodes with different `crossNic`, 2.20.3 to 2.27.7: their rings do not fit together. Mended in 2.28.3.

Age alone is never reported.

## Why it costs

Each fault has its own finding and number where it is more than the release (GDR001, IB007, TOP001, TOP002): host
staging instead of GPUDirect, one NIC instead of all, a job that stops. This one says that an upgrade ends it.

## Example

    NCCL version 2.18.5+cuda12.2
    gpu-f1:3310:3377 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.4.0.1<0>
    gpu-f1:3310:3377 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out

## How to fix

Upgrade NCCL: `pip install -U nvidia-nccl-cu12` (PyTorch wheels pin a release: take a newer PyTorch, or preload the
library with `LD_PRELOAD=/path/libnccl.so.2`), or the `libnccl2` package. Check the line `NCCL version` of the next
run. Until then: `NCCL_IB_GID_INDEX` with the entry of `show_gids` for RoCE, `NCCL_CROSS_NIC=0` for mixed nodes,
`/sys` mounted into the container.

## When it is not a problem

The same symptoms have other causes: a peer memory module that is not loaded at all, an address that is really
missing, adapters left out on purpose. The confidence says how much the release explains.

## References

- NCCL release notes 2.6, 2.10, 2.21, 2.23, 2.28
- NVIDIA/nccl issue 1494: nodes with different crossNic
- NCCL sources: `src/graph/xml.cc`, `src/graph/search.cc`, `src/transport/net_ib`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.cross_nic import cross_nic_by_machine
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.interfaces import socket_lists
from ncclcheck.facts.releases import release_text
from ncclcheck.facts.settings import set_to
from ncclcheck.facts.verbs import verbs_failures
from ncclcheck.rules.common import listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import NEEDS_RELEASE

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts


# EINVAL, ENETUNREACH, ETIMEDOUT, EHOSTUNREACH: what an address that does not lead to the peer gives.
_WRONG_ADDRESS = frozenset((22, 101, 110, 113))


class _Fault(NamedTuple):
    """A symptom of releases from `since` to before `mended`."""

    since: int
    mended: int
    symptom: str
    confidence: Confidence
    machines: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    until_then: str


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    faults = [
        fault for look in (_pci_tree_hidden, _one_device, _module_name, _gid, _mixed_cross_nic)
        if (fault := look(facts)) is not None
    ]  # fmt: skip
    here = [fault for fault in faults if _explains(facts, fault)]
    if here:
        yield _finding(facts, here)
    elif faults and not facts.releases:
        yield NotEvaluated(NEEDS_RELEASE)
    elif not facts.visibility.log:
        yield NotEvaluated("an NCCL log with its release (`NCCL version ...`)")


def _explains(facts: Facts, fault: _Fault) -> bool:
    return not facts.is_rccl and any(fault.since <= release < fault.mended for release in facts.releases)


def _pci_tree_hidden(facts: Facts) -> _Fault | None:
    seen = [one for one in facts.notes("path_not_found") if "/sys/class/pci_bus/" in one.value]
    if not seen:
        return None
    return _Fault(
        20402, 21003, "init fails where /sys does not show the PCI tree (containers, WSL, guests)", Confidence.MEDIUM,
        machines_of(seen), evidence_of(seen), "mount /sys into the container",
    )  # fmt: skip


def _one_device(facts: Facts) -> _Fault | None:
    edges = facts.net_edges()
    listed_here = {machine: len(nics) for machine, nics in facts.nic_lists.items()} or socket_lists(facts)
    used = {device for edge in edges for device in edge.devices}
    if not edges or len(used) != 1 or min(listed_here.values(), default=0) < 2:
        return None
    return _Fault(
        20506, 20604, "the search puts all network channels on one device though several alike are listed",
        Confidence.MEDIUM, machines_of(edges), evidence_of(edges, 2), "no setting helps",
    )  # fmt: skip


def _module_name(facts: Facts) -> _Fault | None:
    refused = [one for one in facts.gdr_refusals if one.kind == "hca"]
    if not refused:
        return None
    return _Fault(
        20402, 22304,
        "GPUDirect RDMA is off on the adapters, and these releases look for the peer memory module under its old name"
        " only (if lsmod shows nvidia_peermem, that is why)",
        Confidence.LOW, machines_of(refused), evidence_of(refused, 2), "the module nv_peer_mem, whose name they know",
    )  # fmt: skip


def _gid(facts: Facts) -> _Fault | None:
    roce = any(nic.link == "RoCE" for nics in facts.nic_lists.values() for nic in nics)
    failed = [one for one in verbs_failures(facts) if one.call == "ibv_modify_qp" and one.errno in _WRONG_ADDRESS]
    if not failed or not roce or set_to(facts, "NCCL_IB_GID_INDEX"):
        return None
    machines = tuple(sorted({machine for one in failed for machine in one.machines}))
    return _Fault(
        20402, 22105, "RoCE connections fail, and these releases use entry 0 of the GID table unless told otherwise",
        Confidence.MEDIUM, machines, tuple(line for one in failed for line in one.evidence[:1])[:2],
        "NCCL_IB_GID_INDEX with the RoCE v2 entry of show_gids",
    )  # fmt: skip


def _mixed_cross_nic(facts: Facts) -> _Fault | None:
    nodes = cross_nic_by_machine(facts)
    first = {node.value: node.evidence for node in reversed(nodes)}
    if len(first) < 2 or facts.crossing.answer is not Answer.YES:
        return None
    return _Fault(
        22003, 22803, "nodes differ in crossNic, so their rings do not fit together", Confidence.HIGH,
        tuple(sorted(node.machine for node in nodes)), tuple(first.values()), "NCCL_CROSS_NIC=0 on all nodes",
    )  # fmt: skip


def _finding(facts: Facts, faults: list[_Fault]) -> Finding:
    newest = max(fault.mended for fault in faults)
    surest = max(faults, key=lambda fault: ("low", "medium", "high").index(fault.confidence.value))
    said = [f"{fault.symptom}; mended in {release_text(fault.mended)}" for fault in faults]
    return RULE.finding(
        Severity.INFO,
        surest.confidence,
        f"NCCL {listed([release_text(release) for release in facts.releases])}: {'; '.join(said)}",
        f"upgrade to NCCL {release_text(newest)} or newer; until then: {'; '.join(one.until_then for one in faults)}",
        {"hosts": tuple(sorted({machine for fault in faults for machine in fault.machines}))},
        tuple(dict.fromkeys(line for fault in faults for line in fault.evidence))[:4],
        **no_number("the finding of the symptom itself has the number"),
    )


RULE = Rule(
    code="RUN009",
    name="outdated-nccl",
    severity=Severity.INFO,
    summary="The release of NCCL has a known fault for what the log shows",
    check=check,
    since="0.1.0",
)
