"""The job runs in virtual machines, and what that hides from NCCL.

## What it finds

Signs of a hypervisor: emulated PCI bridges in the GRAPH dump (`PCI/0-65000 (104c823200000000)`, TI 104c:8232 at 2.5
GT/s x1), sysfs paths through VMBUS or ACPI buses, a topology file that a cloud image ships
(`/opt/microsoft/ndv4-topo.xml`, `/var/run/nvidia-topologyd/virtualTopology.xml`, the one of the EFA plugin), a matrix
whose GPU-NIC cells are all PHB on one NUMA node. In a topology file or dump: emulated bridges, a GPU at an address
where no PCIe port puts one (`0001:00:00.0`), switches that are made up (`ffff:ff:01.0`). Tools: a hypervisor that
`lscpu`, `lspci` or the kernel's log names, and GPUs whose virtualization mode is Pass-Through (`nvidia-smi -q`).

A hypervisor alone is information. It becomes a warning when a symptom stands beside it: no GPUDirect RDMA on edges,
or a flat topology or emulated bridges without a topology file. Default INFO output shows none of this, so a plain log
is not evaluated.

## Why it costs

Not a flat tax. Passed-through GPUs and SR-IOV NICs that are set up right measure 0.97 to 1.0 of bare metal: 474 to 480
against 473 to 484 GB/s inside a node, 477 for two H200 guests over eight rails. The loss is all in peer traffic, when
the guest's path between GPU and NIC does not work:

| | healthy | measured | |
| --- | --- | --- | --- |
| two H200 guests, 4 rails, ACS direct-translate and ATS | 320 | 184 | 0.58 |
| two H100 guests, 8 rails, no GDR peer path | 474 | 155 | 0.33 |
| two A100 guests, 2 HDR rails before the ACS/ATS fix | 48 | 27 | 0.56 |

The common cap is about 109 GB/s per node (70 to 140) through the root complex; with one or two HCAs it hardly shows.
A flat topology costs in another way: NCCL cannot see which NIC is near, pairs GPUs and NICs by chance, and refuses
GDR beyond the limit. An emulated bridge at x1 is worth 0.2 GB/s to NCCL's search although data never crosses it.

## Example

    vsi-h100-0:30911:30975 [0] NCCL INFO + PCI[0.2] - PCI/0-65000 (104c823200000000)
    vsi-h100-0:30911:30975 [0] NCCL INFO              + PCI[48.0] - GPU/0-67000 (0)
    vsi-h100-0:30911:31110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0

## How to fix

- Give NCCL the topology: `NCCL_TOPO_FILE=<instance type>.xml`, or place it at
  `/var/run/nvidia-topologyd/virtualTopology.xml`, which NCCL reads by itself; in containers mount it. Check with
  NCCL_DEBUG_SUBSYS=GRAPH that GPUs and NICs hang under common switches. Write one by hand as issue 1843 shows; bus
  ids must be those of the guest (`lspci`), and a file of another size or shape is worse than none.
- GDR: `lsmod | grep nvidia_peermem` or open kernel modules with dma-buf in the guest; expose ATS on the NIC
  (`mlxconfig -d <dev> set ATS_ENABLED=1` on the host) and ACS direct-translated on the switches.
- Hypervisor: huge pages, vNUMA that matches the hardware, vCPUs pinned, PCIe root ports or switches emulated at real
  speed (QEMU `pcie-root-port,x-speed=32,x-width=16`), GPU and NIC under one emulated switch.
- Compare `ib_write_bw --use_cuda` with `all_reduce_perf`: 99 % in the first does not exclude 25 % in the second.

## When it is not a problem

A guest with a loaded topology file (also `/proc/self/fd/N`, which the OFI plugin passes) and `/GDRDMA` on its edges is
healthy. One GPU or one NIC needs no file. Small cpuset masks of a job are not vNUMA. Pass-Through alone is reported by
some rented machines that are bare metal: information at medium confidence.

## References

- NVIDIA/nccl issues 1843 (writing a topology file), 2171 (a quarter of bare metal), 949, 660, 1464, 1674;
  nccl-tests issues 256 (emulated bridges), 380 (ATS)
- Azure/azhpc-images, topology/: files for ND and NC series; aws/aws-ofi-nccl, topology/
- NCCL user guide, Environment Variables: NCCL_TOPO_FILE; Troubleshooting: PCI Access Control Services
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.gpu_parts import gpu_parts
from ncclcheck.facts.host_parts import host_states
from ncclcheck.facts.matrix import NEAR, Matrix
from ncclcheck.facts.seen import Seen
from ncclcheck.facts.topo_file import path_tables, topo_files
from ncclcheck.facts.topology_sources import file_loaded
from ncclcheck.rules.common import SEVERAL_NODES, Numbers, compared, counted, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


_NO_GDR = "no GPUDirect RDMA on edges between machines"
_NOTHING = "nothing to do: keep the topology file with the image, and GPUDirect RDMA on"

# A matrix or a dump is of one machine; what a guest hides costs between several.

_FIX = (
    "give NCCL the instance type's topology file (NCCL_TOPO_FILE, or /var/run/nvidia-topologyd/virtualTopology.xml),"
    " mount it into containers, and check GPUDirect RDMA in the guest (nvidia_peermem or dma-buf, ATS on the NIC)"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    signs = facts.guest_signs
    if signs:
        yield _from_log(facts, signs, estimator)
        return
    flat = [matrix for matrix in facts.matrices if matrix.kind == "topo" and _is_flat(matrix)]
    for matrix in flat:
        yield _finding(
            f"All paths of {len(matrix.gpus)} GPUs and {len(matrix.nics)} NICs are PHB on one NUMA node: the flat"
            " topology of a virtual machine, which hides what is near",
            Severity.WARNING,
            Confidence.MEDIUM,
            (),
            tuple(matrix.lines.values())[:2],
            compared(estimator, SEVERAL_NODES, {**SEVERAL_NODES, "redirect": ("", "vm")}),
        )
    told = () if flat else tuple(_from_tools(facts, estimator))
    yield from told
    judged = any(len(matrix.gpus) > 1 and matrix.nics for matrix in path_tables(facts))
    if not flat and not told and not judged and not facts.visibility.graph:
        yield NotEvaluated(
            "the PCI tree (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH) or `nvidia-smi topo -m`, or `lscpu`:"
            " plain INFO looks the same on bare metal and in a guest"
        )


def _from_tools(facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """A hypervisor by name, else GPUs that were passed through."""
    named = host_states(facts, "hypervisor")
    passed = [(gpu, value) for gpu in gpu_parts(facts) if (value := gpu.first("virtualization", "pass-through"))]
    if not (named or passed):
        return
    hosts = machine_names([*named, *(gpu for gpu, _ in passed)])
    where = place(hosts, "the machine")
    if named:
        message = f"{listed(sorted({one.text for one in named}))} runs {where} as a virtual machine"
    else:
        are = "is" if len(passed) == 1 else "are"
        message = f"{counted(len(passed), 'GPU')} of {where} {are} passed through, as to a virtual machine"
    lines = [one.evidence for one in named] or [value.evidence for _, value in passed]
    without_gdr = facts.shape().gdr is Answer.NO
    healthy = no_number("a guest that is set up right costs 0 to 3 percent")
    yield _finding(
        f"{message}, and {_NO_GDR}" if without_gdr else f"{message}; nothing that NCCL needs seems to be missing",
        Severity.WARNING if without_gdr else Severity.INFO,
        Confidence.HIGH if named else Confidence.MEDIUM,
        hosts,
        tuple(lines)[:4],
        compared(estimator, {"gdr": True}, {"gdr": False}) if without_gdr else healthy,
    )


def _from_log(facts: Facts, signs: tuple[Seen, ...], estimator: Estimator) -> Finding:
    shape = facts.shape()
    symptoms = []
    if shape.gdr is Answer.NO:
        symptoms.append(_NO_GDR)
    if facts.emulated_bridges and not file_loaded(facts):
        emulated = signs[0].value.startswith("emulated")
        symptoms.append("no topology file" if emulated else "emulated PCI bridges and no topology file")
    dumps = [file for file in topo_files(facts) if file.guest_signs]
    if any(file.slow_bridges for file in dumps):
        symptoms.append("the topology that NCCL dumped has emulated PCI bridges")
    if any(file.is_flat for file in dumps):
        symptoms.append("the topology that NCCL dumped is flat: no PCI switch tells which NIC is near")
    where = "The job runs in virtual machines" if facts.visibility.log else "This is the topology of a virtual machine"
    message = f"{where} ({signs[0].value})"
    message += f", and {' and '.join(symptoms)}" if symptoms else "; nothing that NCCL needs seems to be missing"
    # a topology file or an instance name speaks of a guest; emulated bridges and VMBUS are one
    sure = bool(facts.emulated_bridges or any(file.emulated_bridges for file in dumps)) or any(
        "VMBUS" in sign.value.upper() for sign in signs
    )
    numbers = no_number("a guest that is set up right costs 0 to 3 percent")
    if shape.gdr is Answer.NO:
        numbers = compared(estimator, {"gdr": True}, {"gdr": False})
    elif symptoms:
        alone = SEVERAL_NODES if dumps and not facts.visibility.log else {}
        numbers = compared(estimator, alone, {**alone, "redirect": "vm"})
    return _finding(
        message,
        Severity.WARNING if symptoms else Severity.INFO,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        machines_of(signs),
        evidence_of(signs),
        numbers,
    )


def _is_flat(matrix: Matrix) -> bool:
    """Several GPUs and NICs, every path between a GPU and a NIC PHB, and no switch anywhere. GPUs may have NVLink."""
    if len(matrix.gpus) < 2 or len(matrix.nics) < 2 or not matrix.complete:
        return False
    paths = {matrix.between(gpu, nic) for gpu in matrix.gpus for nic in matrix.nics}
    between = {path for _, _, path in matrix.gpu_pairs()}
    return paths == {"PHB"} and not between & NEAR and not between & {"NODE", "SYS"}


def _finding(
    message: str,
    severity: Severity,
    confidence: Confidence,
    hosts: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    numbers: Numbers,
) -> Finding:
    return RULE.finding(
        severity=severity,
        confidence=confidence,
        message=message,
        fix=_NOTHING if severity is Severity.INFO else _FIX,
        subject={"hosts": hosts},
        evidence=evidence,
        **numbers,
    )


RULE = Rule(
    code="VRT001",
    name="virtualized",
    severity=Severity.INFO,
    summary="The job runs in virtual machines, and what that hides from NCCL",
    check=check,
    since="0.1.0",
    caused_by=("GDR001", "TOP004"),
)
