"""RDMA traffic is staged through host memory because GPUDirect RDMA is off.

## What it finds

Edges between machines on an RDMA network (IB, RoCE, EFA, Slingshot) whose channel lines lack `/GDRDMA`. Receive and
send are judged apart, because NCCL decides them apart. `Connected all rings, use ring PXN p GDR 0` (2.24.3 and
newer) counts when edges confirm it: the number starts at 1 and one ring edge clears it, also one inside a machine.

Where the input tells the cause it is named:
- `GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)`: neither peer memory nor dma-buf works. The bracket is
  printed until 2.12.12; all forms need the NET subsystem.
- `GPU Direct RDMA Disabled for GPU 1b000 / HCA 4 (distance 6 > 4)`: too far for the level in force. The numbers are
  indexes into the path types **of that release**: 4 is PHB in 2.6, PXB in 2.8 to 2.25.
- a plugin that says so (`disabling GDR`) on an instance type that cannot, a GeForce card: information, with the reason.
  Where the GPUs are of NVSwitch class it is an error, and a warning where the input does not name them.
- from 2.30.3 the distance lines are gone at INFO: then it is "module or distance", and GRAPH output would tell.

`DMA-BUF is available on GPU device 0` clears nothing: it concerns the GPU's side of the registration.

## Why it costs

Each byte takes a copy from GPU to host, a read by the NIC, and the mirror of both at the receiver. One GPU and one
NIC reach about 5.7 GB/s on PCIe gen 3, 8.8 on gen 4, 14.5 to 15 on gen 5 (measured without GDR: 5.7 on 100 Gb/s,
8.8 on 200, 15.0 on 400), and a node with eight rails stops near 72 GB/s (30 to 120) where GDR gives 370 to 390.
On AMD hosts with one NUMA domain per socket an otherwise equal pair fell to an eighth. Small messages lose
little: an 8-byte all_reduce over two nodes took 17 us with and without GDR.

## Example

    roce-01:83112:83309 [0] NCCL INFO DMA-BUF is available on GPU device 0
    roce-01:83112:83309 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
    roce-01:83112:83309 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0

## How to fix

    lsmod | grep -E 'nvidia_peermem|nv_peer_mem'        # nvidia_peermem is part of the driver since R470
    modprobe nvidia-peermem                             # "Invalid argument": the driver was built without this OFED
    modinfo nvidia | grep -i '^license'                 # open modules ("Dual MIT/GPL") are needed for dma-buf
    nvidia-smi topo -m                                  # the NIC should be PIX or PXB to its GPU

dma-buf works with kernel 5.12, CUDA 11.7 and NCCL 2.13.4 or newer on open kernel modules; otherwise install the
peer memory module. Load it at boot (`/etc/modules-load.d/`), not from the container. Distance: use the NIC beside the
GPU (`NCCL_IB_HCA`), or give a virtual machine its topology file. `NCCL_NET_GDR_LEVEL=PHB` allows paths through the
host bridge; measure it, for some root ports are slower than staging. Level names are upper case and **a typo is
ignored in silence**: only the echoed line `NCCL_NET_GDR_LEVEL set by environment to PHB` is in force.
Then rerun with `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH`.

## When it is not a problem

Sending below compute capability 8.0 uses no GDR by design when the GPUs have no NVLink and the GPU is not alone in its
node; `NCCL_NET_GDR_READ=0` does the same by request: information. Networks that never print the suffix (FasTrak,
TCPX) are not evaluated. A single-node communicator proves nothing either way, and edges over NET inside one machine
are another matter. An absent nvidia_peermem is fine where edges carry `/GDRDMA`: dma-buf does it.

## References

- NVIDIA/nccl issues 465, 489, 1188, 1412, 1667 (which lines tell), 1151 ("distance 7 > 4"), 243, 2409 (rates
  without GDR); nccl-tests issues 245 (DMA-BUF line), 293 (latency and rate, with and without)
- NCCL sources: `src/graph/paths.cc` (ncclTopoCheckGdr), `src/transport/net.cc`
- NCCL user guide, Environment Variables: NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_DMABUF_ENABLE
- NVIDIA GPUDirect RDMA documentation: nvidia-peermem, supported systems
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import compared, listed, no_number, nvswitch_class, place, rides_on_tcp
from ncclcheck.rules.gdr.hardware import cards_without_gdr, omni_path
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import EdgeGroup, GdrRefusal, Seen

# Cards below compute capability 8.0, and cards whose driver offers no GPUDirect RDMA, by their printed names.
_BELOW_SM80 = re.compile(r"\b(?:V100|T4|P100|P40|P4|M40|M60|K80|GTX|TITAN|RTX 20\d0|Quadro RTX)\b", re.I)

# The release from which NCCL no longer prints at INFO why a GPU and a NIC are too far apart.
_DISTANCE_LINES_GONE = 23003

_NEEDS_EDGES = (
    "channel lines between machines ('via NET/IB/0/GDRDMA' or without the suffix); from 2.22.3 on they are printed at"
    " the first collective"
)
_NEEDS_PLUGIN = "edges of {} never carry /GDRDMA: the plugin's own log tells whether it reads GPU memory directly"

_MODULE = "modprobe nvidia-peermem on the host (lsmod | grep peermem), or open kernel modules for dma-buf"
_RERUN = "rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH to see the reason per GPU and NIC"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """How bad, how sure, why, and what to do. priced: does it cost bandwidth that could be had?"""

    severity: Severity
    confidence: Confidence
    cause: str
    fix: str
    priced: bool = True


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    edges, silent = _judged(facts)
    staged = [edge for edge in edges if not edge.gdr]
    if staged:
        yield _from_edges(facts, estimator, staged, edges)
    elif not edges and (said := _from_words(facts, estimator)):
        yield said
    elif not edges and silent:
        yield NotEvaluated(_NEEDS_PLUGIN.format(listed(silent)))
    elif edges and (side := _side_not_seen(edges)):
        yield NotEvaluated(f"channel lines of the {side} side between machines")
    elif not (edges or _sockets_only(facts) or _all_direct(facts) or _inside_one_machine(facts)):
        yield NotEvaluated(_NEEDS_EDGES)


def _judged(facts: Facts) -> tuple[list[EdgeGroup], list[str]]:
    """Edges between machines on networks that print the suffix, and the names of networks that never do."""
    between = [edge for edge in facts.net_edges() if not rides_on_tcp(facts, edge.network)]
    printing = {edge.network for edge in between if edge.gdr or networks.kind(edge.network) in networks.RDMA}
    silent = sorted({edge.network for edge in between} - printing)
    return [edge for edge in between if edge.network in printing], silent


def _side_not_seen(edges: list[EdgeGroup]) -> str:
    """Each side is decided for itself."""
    missing = {"send", "receive"} - {edge.direction for edge in edges}
    return missing.pop() if len(missing) == 1 else ""


def _sockets_only(facts: Facts) -> bool:
    return bool(facts.networks) and all(rides_on_tcp(facts, seen.value) for seen in facts.networks)


def _all_direct(facts: Facts) -> bool:
    """Excerpts: where edges lead is unknown, but all of them carry the suffix."""
    open_ones = facts.net_edges("unknown")
    return bool(open_ones) and all(edge.gdr for edge in open_ones)


def _inside_one_machine(facts: Facts) -> bool:
    """P2P and SHM are off: what goes over the network stays on the machine, and another rule tells."""
    return len(facts.machines) == 1 and bool(facts.net_edges("inside")) and not facts.net_edges("unknown")


def _from_edges(facts: Facts, estimator: Estimator, staged: list[EdgeGroup], edges: list[EdgeGroup]) -> Finding:
    received = [edge for edge in staged if edge.direction != "send"]
    verdict = _on_record(facts, estimator, Confidence.HIGH) or (
        _receiving(facts, received, edges) if received else _sending(facts, estimator)
    )
    sides = sorted({edge.direction for edge in staged} - {""})
    verbs = {("receive", "send"): "receiving and sending", ("receive",): "receiving", ("send",): "sending"}
    side = verbs.get(tuple(sides), "traffic")
    devices = sorted({device for edge in staged for device in edge.devices})
    machines = machines_of(staged)
    return _finding(
        estimator,
        verdict,
        f"GPUDirect RDMA is off for {side} on {place(machines, 'some machines')} ({staged[0].network}"
        f" {listed(devices)})",
        machines,
        evidence_of(staged, 3) + _why_lines(facts),
    )


def _from_words(facts: Facts, estimator: Estimator) -> Finding | None:
    """No edge between machines in the input, but the plugin or NCCL says that it does without."""
    said: list[Seen | GdrRefusal] = [*facts.notes("net_ofi_gdr_off")]
    said += [one for one in facts.gdr_refusals if one.kind == "hca"]
    verdict = _on_record(facts, estimator, Confidence.MEDIUM) if said else None
    if verdict is None:
        return None
    machines = machines_of(said)
    what = f"GPUDirect RDMA is off on {place(machines, 'machines that the input does not name')}"
    return _finding(estimator, verdict, what, machines, evidence_of(said))


def _finding(
    estimator: Estimator, verdict: _Verdict, what: str, machines: tuple[str, ...], evidence: tuple[Evidence, ...]
) -> Finding:
    return RULE.finding(
        verdict.severity,
        verdict.confidence,
        f"{what}: {verdict.cause}",
        verdict.fix,
        {"hosts": machines},
        tuple(dict.fromkeys(evidence)),
        **(
            compared(estimator, {"gdr": True}, {"gdr": False})
            if verdict.priced
            else no_number("nothing is lost that this hardware could have")
        ),
    )


def _why_lines(facts: Facts) -> tuple[Evidence, ...]:
    return evidence_of([*facts.notes("net_ofi_gdr_off"), *facts.gdr_refusals], 2)


def _on_record(facts: Facts, estimator: Estimator, confidence: Confidence) -> _Verdict | None:
    """The cause where the input names it."""
    if cards := cards_without_gdr(facts):
        cause = f"{listed(cards)} has no GPUDirect RDMA"
        return _Verdict(Severity.INFO, confidence, cause, "a data-centre or workstation card has it", priced=False)
    if facts.notes("net_ofi_gdr_off"):
        return _plugin_says_off(facts, estimator, confidence)
    refused = [one for one in facts.gdr_refusals if one.kind == "hca"]
    if refused:
        reason = next((one.reason for one in refused if one.reason), "neither peer memory nor dma-buf works")
        cause = f"NCCL disables it for {listed([one.hca for one in refused])} ({reason})"
        return _Verdict(Severity.ERROR, confidence, cause, f"{_MODULE}; {_old_release(facts)}")
    return None


def _old_release(facts: Facts) -> str:
    """Releases to 2.22.3 look for the path of nv_peer_mem only, not for that of the module in the driver."""
    newer = facts.release is not None and facts.release > 22203
    return "then this line must be gone" if newer else "NCCL up to 2.22.3 may not notice nvidia-peermem: upgrade"


def _plugin_says_off(facts: Facts, estimator: Estimator, confidence: Confidence) -> _Verdict:
    cause = "the OFI plugin disables it because the provider cannot work without CUDA calls"
    fix = "on an instance type with GPUDirect (p4d and newer): update the EFA installer and aws-ofi-nccl"
    if nvswitch_class(facts, estimator) or facts.nvlink is Answer.YES:
        return _Verdict(Severity.ERROR, confidence, cause, fix)
    if facts.gpu_names:
        cause = f"{cause}, as is usual on instance types with {listed(facts.gpu_names)}"
        return _Verdict(Severity.INFO, confidence, cause, f"none on this instance type; {fix}", priced=False)
    cause = f"{cause}; whether the hardware could is not in the input"
    return _Verdict(Severity.WARNING, Confidence.MEDIUM, cause, fix)


def _receiving(facts: Facts, received: list[EdgeGroup], edges: list[EdgeGroup]) -> _Verdict:
    direct = {machine for edge in edges if edge.gdr and edge.direction != "send" for machine in edge.machines}
    partly = {*machines_of(received)} <= direct
    cause, fix = _likely_cause(facts)
    if partly:
        return _Verdict(Severity.WARNING, Confidence.HIGH, f"some of the edges there lack it; {cause}", fix)
    staged = f"all data is staged through host memory; {cause}"
    if _perhaps_geforce(facts):
        return _Verdict(Severity.WARNING, Confidence.MEDIUM, f"{staged} (GeForce cards have no GPUDirect RDMA)", fix)
    severity = Severity.WARNING if omni_path(facts) else Severity.ERROR  # no fault of the machine
    return _Verdict(severity, Confidence.HIGH, staged, fix)


def _perhaps_geforce(facts: Facts) -> bool:
    """No line names the cards, and inside a machine they do not reach each other directly."""
    inside = {edge.transport for edge in facts.edges if edge.scope == "inside"}
    return not facts.gpu_names and facts.nvlink is not Answer.YES and inside == {"SHM"}


def _likely_cause(facts: Facts) -> tuple[str, str]:
    level = [seen.value for seen in facts.settings("NCCL_NET_GDR_LEVEL")]
    far = [one for one in facts.gdr_refusals if one.kind == "distance"]
    if any(value in ("LOC", "0") for value in level):
        return f"NCCL_NET_GDR_LEVEL={level[0]} forbids it", "unset NCCL_NET_GDR_LEVEL"
    if far:
        cause = f"GPU and NIC are too far apart (distance {far[0].distance} > {far[0].limit})"
        fix = "use the NIC beside the GPU (nvidia-smi topo -m, NCCL_IB_HCA), or try NCCL_NET_GDR_LEVEL=PHB (SYS between"
        return cause, f"{fix} sockets) and measure"
    if omni_path(facts):
        return (
            "Omni-Path over verbs (hfi1) does not read GPU memory",
            "use the PSM2 or OPX plugin of the fabric, which does",
        )
    if facts.release is not None and facts.release >= _DISTANCE_LINES_GONE:
        return "module or distance: this release does not say at INFO", f"{_MODULE}; {_RERUN}"
    return "the reason (module, dma-buf or distance) is not in the input", f"{_MODULE}; {_RERUN}"


def _sending(facts: Facts, estimator: Estimator) -> _Verdict:
    """Receiving is direct, sending is not: NCCL reads GPU memory for sending only where it pays."""
    if any(seen.value == "0" for seen in facts.settings("NCCL_NET_GDR_READ")):
        cause = "NCCL_NET_GDR_READ=0 asks for it, receiving is direct"
        return _Verdict(Severity.INFO, Confidence.HIGH, cause, "unset NCCL_NET_GDR_READ to compare", priced=False)
    old = [name for name in facts.gpu_names if _BELOW_SM80.search(name)]
    linked = facts.nvlink is Answer.YES or any("SXM" in name for name in facts.gpu_names)
    alone = estimator.shape.gpus_per_node == 1
    if old and not linked and not alone:
        cause = f"by design on {listed(old)} (below compute capability 8.0, no NVLink), receiving is direct"
        return _Verdict(Severity.INFO, Confidence.HIGH, cause, "NCCL_NET_GDR_READ=1 to compare", priced=False)
    cause = "receiving is direct, and NCCL reads directly by default on Ampere and newer and wherever NVLink is"
    known = linked or alone or (facts.gpu_names and not old)
    confidence = Confidence.HIGH if known else Confidence.MEDIUM
    return _Verdict(Severity.WARNING, confidence, cause, f"NCCL_NET_GDR_READ=1 to compare; {_RERUN}")


RULE = Rule(
    code="GDR001",
    name="gdr-off",
    severity=Severity.ERROR,
    summary="RDMA traffic is staged through host memory because GPUDirect RDMA is off",
    check=check,
    since="0.1.0",
    caused_by=("GDR002", "GDR003"),
)
