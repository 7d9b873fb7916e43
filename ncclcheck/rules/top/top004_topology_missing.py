"""NCCL does not know what is near what: a guest without a topology file, or a file that does not fit.

## What it finds

NCCL places rings, NICs and GPUDirect RDMA by the PCI tree that /sys shows, or by a topology file. Found here:

- a file that is named and not there: `Could not open XML topology file ...` (a WARN until 2.26, INFO since);
- a topology or graph file that NCCL refuses: `XML Import Channel : dev 3 not found`, `XML Mismatch`,
  `too many XML nodes`. The usual cause is a file made for another size of machine;
- a topology file beside the log whose GPUs are at other PCI addresses than the job's;
- /sys that cannot be read: `Could not find real path of /sys/class/pci_bus/...` as a WARN;
- a virtual machine whose tree is flat or made of emulated bridges (in a log with GRAPH lines, or in a topology dump),
  or whose RDMA devices hang on VMBUS, and no topology file loaded.

A warning. A graph file in the input is information: it pins the channels for one machine type.

## Why it costs

In a flat tree all NICs are equally far. NCCL then pairs GPUs and NICs by chance, data of one GPU crosses to the NIC
of another over the root complex, and beyond the limit GPUDirect RDMA is refused: nodes with eight rails measured 155
to 184 GB/s of 320 to 477. An emulated bridge at 2.5 GT/s x1 counts 0.2 GB/s in NCCL's search, and channels become few
and slow. A graph file that does not fit, and before 2.8 an unreadable /sys, stop the job in init.

## Example

    nc-vm-3:1733:1801 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/topo/nd-96.xml
    nc-vm-3:1733:1801 [0] NCCL INFO Could not open XML topology file /opt/topo/nd-96.xml : No such file or directory

## How to fix

- Name the file of this very instance type: `NCCL_TOPO_FILE=/opt/.../<type>.xml`, or put it at
  `/var/run/nvidia-topologyd/virtualTopology.xml`, where NCCL looks by itself. In containers mount it (docker
  `-v /opt/topo:/opt/topo:ro`) and look for a stale name in /etc/nccl.conf.
- No file for a smaller size: unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE there. One GPU or one NIC needs none.
- Check with `NCCL_DEBUG_SUBSYS=INIT,GRAPH` that it prints `Loading topology file`, and with
  `NCCL_TOPO_DUMP_FILE=/tmp/topo.xml` what came of it: each GPU and its NIC below one switch.
- /sys: mount it into the container or chroot (`-v /sys:/sys:ro`), and update NCCL, which goes on without it from 2.8.
- Hypervisor: emulate the PCIe switches (QEMU `pcie-root-port` with x-speed and x-width) with GPU and NIC together.

## When it is not a problem

Bare metal shows its tree. A guest whose file is loaded, also as `/proc/self/fd/N` (the EFA plugin). One GPU or one NIC.
Socket interfaces that are no PCI devices, as in every container.

## References

- NVIDIA/nccl issues 1843 (writing a topology file), 949, 660; nccl-tests issue 256 (emulated bridges)
- NCCL sources: `src/graph/xml.cc`, `src/graph/topo.cc`
- NCCL user guide, Environment Variables: NCCL_TOPO_FILE, NCCL_GRAPH_FILE, NCCL_TOPO_DUMP_FILE
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.seen import Failure, Seen
from ncclcheck.facts.topo_file import graph_files, rccl_files, topo_files
from ncclcheck.facts.topology_sources import file_loaded, mismatches
from ncclcheck.rules.common import SEVERAL_NODES, Numbers, compared, counted, felt, listed, no_number, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# A dump is of one machine; what it hides costs between several.
_UNFELT = "with these NICs the model sees no loss: the root complex carries as much as they do"
_GIVE = (
    "give NCCL the topology file of this instance type (NCCL_TOPO_FILE, or"
    " /var/run/nvidia-topologyd/virtualTopology.xml), mounted into containers, and look for `Loading topology file`"
    " with NCCL_DEBUG_SUBSYS=INIT,GRAPH"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    found = [
        *_missing_files(facts, estimator),
        *_refused_files(facts, estimator),
        *_other_machine(facts),
        *_unreadable_sys(facts, estimator),
        *_guest_without_file(facts, estimator),
        *_graph_files(facts),
    ]
    yield from found
    if rccl_files(facts):
        yield NotEvaluated("a topology file of NCCL: the one of the input is of RCCL, whose elements mean other things")
    if found or file_loaded(facts) or _few(facts):
        return
    if not (facts.visibility.graph or any(not file.skeleton and file.complete for file in topo_files(facts))):
        yield NotEvaluated(
            "the PCI tree: NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH, or a topology dump (NCCL_TOPO_DUMP_FILE)"
        )


def _few(facts: Facts) -> bool:
    """One GPU or one NIC: nothing to choose between."""
    lists = facts.nic_lists.values()
    return facts.shape().gpus_per_node == 1 or (bool(lists) and all(len(nics) == 1 for nics in lists))


def _missing_files(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    failures = facts.failures("topo_file_missing")
    for kind in ("topology", "graph"):
        mine = [failure for failure in failures if failure.fields.get("call") == kind]
        if not mine:
            continue
        path, why = mine[0].fields.get("path", ""), mine[0].fields.get("errno_text", "no reason given")
        lost = no_number("NCCL goes on with what /sys shows, which on bare metal is all it needs")
        if kind == "graph":
            message = f"The graph file {path} cannot be opened ({why}): NCCL stops"
            fix = "unset NCCL_GRAPH_FILE (also in /etc/nccl.conf): NCCL searches its channels itself"
            lost = stopped(estimator)
        else:
            message = f"The topology file {path} cannot be opened ({why}): NCCL does without it"
            fix = f"correct or unset NCCL_TOPO_FILE (job script, /etc/nccl.conf); in a guest {_GIVE}"
            if facts.guest_signs:
                lost = felt(compared(estimator, {}, {"redirect": ("", "vm")}), _UNFELT)
        yield _finding(message, fix, machines_of(mine), evidence_of(mine), lost)


def _refused_files(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    bad = [failure for failure in facts.failures("topo_file_bad") if failure.level == "WARN"]
    if not bad:
        return
    text = bad[0].fields.get("text", "").strip(" .")
    named = [f"{name}={seen.value}" for name in ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE") for seen in facts.settings(name)]
    which = f" ({', '.join(named)})" if named else ""
    yield _finding(
        f"NCCL refuses its topology or graph file{which}: {text}. It is damaged, or made for another size of machine",
        "unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, also in /etc/nccl.conf, or name the files of this instance type",
        machines_of(bad),
        evidence_of(bad),
        stopped(estimator),
    )


def _other_machine(facts: Facts) -> Iterator[Finding]:
    found = mismatches(facts)
    if not found:
        return
    first = found[0]
    yield _finding(
        f"The topology file {first.file.path} does not hold {len(first.absent)} of the {first.gpus} GPUs that the job"
        f" uses on {first.machine} ({listed(first.absent)}): it is of another machine type",
        "name the file of this instance type, or unset NCCL_TOPO_FILE; PCI addresses must be those of `lspci`",
        machine_names(found),
        first.evidence,
        no_number("what NCCL makes of a file of another machine cannot be foreseen"),
        Confidence.MEDIUM,
    )


def _unreadable_sys(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    lost = [failure for failure in facts.failures("path_not_found") if _is_pci_tree(failure)]
    if not lost:
        return
    stops = facts.release is not None and facts.release < 20800
    yield _finding(
        f"The PCI tree below /sys is not visible ({lost[0].fields.get('path', '')} does not exist)"
        + (": this release stops in init" if stops else ": NCCL knows no distances"),
        "mount /sys into the container or chroot, or give NCCL a topology file (NCCL_TOPO_FILE); from 2.8 on NCCL goes"
        " on without",
        machines_of(lost),
        evidence_of(lost),
        stopped(estimator) if stops else no_number("what NCCL makes of an invisible tree cannot be foreseen"),
    )


def _is_pci_tree(failure: Failure) -> bool:
    path = failure.fields.get("path", "")
    return failure.level == "WARN" and path.startswith("/sys/") and "pci" in path


def _guest_without_file(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    dumps = [file for file in topo_files(facts) if file.guest_signs and (file.slow_bridges or file.is_flat)]
    if dumps:
        first = dumps[0]
        if first.slow_bridges:
            bridge = first.slow_bridges[0]
            many = counted(len(first.slow_bridges), "emulated bridge")
            what = f"NCCL's search sees {many} of {bridge.gbps:.2g} GB/s ({bridge.speed} x{bridge.width})"
            lines: tuple[Evidence, ...] = tuple(one.line for one in first.slow_bridges[:3])
        else:
            what = f"{len(first.gpus)} GPUs and {len(first.matrix.nics)} NICs hang on no switch"
            lines = tuple(gpu.pci.line for gpu in first.gpus[:3])
        yield _finding(
            f"The topology of a virtual machine in {first.path} does not tell which NIC is near which GPU: {what}",
            _GIVE,
            (),
            lines,
            felt(compared(estimator, SEVERAL_NODES, {**SEVERAL_NODES, "redirect": "vm"}), _UNFELT),
            Confidence.HIGH if first.slow_bridges else Confidence.MEDIUM,
        )
    if file_loaded(facts) or _few(facts):
        return
    if facts.emulated_bridges:
        signs = facts.emulated_bridges
        what, sure = "emulated PCI bridges stand between GPUs and NICs", True
    elif not (signs := _on_vmbus(facts)):
        return
    else:
        what, sure = "RDMA devices hang on VMBUS, not on a PCI switch", False
    yield _finding(
        f"Virtual machines without a topology file: {what}, so that NCCL cannot tell which NIC is near which GPU",
        _GIVE,
        machines_of(signs),
        evidence_of(signs),
        felt(compared(estimator, {}, {"redirect": "vm"}), _UNFELT),
        Confidence.HIGH if sure else Confidence.MEDIUM,
    )


def _on_vmbus(facts: Facts) -> tuple[Seen, ...]:
    """RDMA devices whose path runs over Hyper-V's bus, where RDMA carries the traffic."""
    if not {networks.kind(seen.value) for seen in facts.networks} & set(networks.RDMA):
        return ()
    return tuple(sign for sign in facts.guest_signs if "VMBUS" in sign.value.upper() and "/net/" not in sign.value)


def _graph_files(facts: Facts) -> Iterator[Finding]:
    files = [file for file in graph_files(facts) if file.channels]
    if not files:
        return
    first, here = files[0], facts.shape().gpus_per_node
    pinned = f"{first.path} holds {counted(first.channels or 0, 'ring channel')} over {counted(first.gpus or 0, 'GPU')}"
    if facts.settings("NCCL_GRAPH_FILE") and here and first.gpus and here != first.gpus:
        yield _finding(
            f"The graph file does not fit: {pinned}, the job has {here} per node",
            "unset NCCL_GRAPH_FILE: NCCL searches its channels itself",
            facts.machines,
            (first.line,),
            no_number("what NCCL makes of a graph of another machine cannot be foreseen"),
            Confidence.MEDIUM,
        )
        return
    yield _finding(
        f"A graph file: {pinned}; as NCCL_GRAPH_FILE it pins the channels, and it fits this machine type only",
        "keep NCCL_GRAPH_FILE out of production: NCCL searches its channels itself; as a dump (NCCL_GRAPH_DUMP_FILE) it"
        " is a record and harmless",
        (),
        (first.line,),
        no_number("a dump costs nothing, and what a file costs depends on the machine it meets"),
        Confidence.LOW,
        Severity.INFO,
    )


def _finding(
    message: str,
    fix: str,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
    confidence: Confidence = Confidence.HIGH,
    severity: Severity = Severity.WARNING,
) -> Finding:
    return RULE.finding(
        severity=severity,
        confidence=confidence,
        message=message,
        fix=fix,
        subject={"hosts": hosts},
        evidence=evidence,
        **numbers,
    )


RULE = Rule(
    code="TOP004",
    name="topology-missing",
    severity=Severity.WARNING,
    summary="NCCL does not know what is near what: a guest without a topology file, or a file that does not fit",
    check=check,
    since="0.1.0",
    caused_by=("HST003",),
)
