"""A GPU has fewer NVLinks than its siblings or than its model is built with.

## What it finds

The number of NVLinks per GPU, compared inside a machine and with the GPU model. Whatever counts them is used:

- a topology dump (`NCCL_TOPO_DUMP_FILE`): the `count` of the `<nvlink>` elements of a GPU, **summed**. The shares of
  the single switches differ by design (5+5+4+4 on H100);
- the topology in a log (subsystem GRAPH): `NVL[329.6] - NVS/0` under one GPU where the others show `NVL[370.8]`.
  The number is links times what NCCL counts for one: 20 on V100 and A100, 20.6 on Hopper, 40.1 on Blackwell (GB/s);
- `nvidia-smi topo -m`: `NV16` in one row where all others bond with `NV18`; a GPU whose row is PIX, NODE or SYS while
  all others are joined by NVLink has lost all of them, and the tool prints no error for it;
- `nvidia-smi nvlink -s`: links that are active, against siblings, and where some links of a GPU are active and others
  print `<inactive>`, against the model; a GPU whose links are all inactive; `nvidia-smi nvlink -e`: recoveries that
  failed (NVLink 5), and replays and recoveries that rise between two outputs;
- NCCL's warning `P2P is disabled between NVLINK connected GPUs`, with which it gives up.

An error. Against siblings the confidence is high; against the model alone it is medium, because boards and partitions
with fewer links are sold.

## Why it costs

A ring passes through every GPU, so L-k of L links on one GPU leave (L-k)/L for all: 2 of 18 links lost on an H100 is
329 instead of 371 GB/s counted by NCCL, 11 percent. A GPU without any takes the ring to PCIe or host memory: 370 to
20 to 45 GB/s. NVLS needs all GPUs on the fabric and is switched off for the whole communicator. A link that goes down
mostly means more to come: cable, connector or baseboard.

## Example

    hgx-7:4001:4101 [0] NCCL INFO               + PCI[48.0] - GPU/0-2a000 (1)
    hgx-7:4001:4101 [0] NCCL INFO                             + NVL[329.6] - NVS/0-0

## How to fix

    nvidia-smi nvlink -s -i 1                 # a link that prints <inactive>
    nvidia-smi nvlink -e -i 1                 # replay, recovery and CRC counters: do they grow
    dmesg -T | grep -i xid                    # 74: NVLink error; 144 to 150 on Blackwell
    systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager | tail

Drain the machine; reset all GPUs of the baseboard together (`nvidia-smi -r`) or reboot, and count again. Links that
stay away are hardware: GPU, bridge or baseboard. On a guest ask the host: the partition decides.

## When it is not a problem

Models with fewer links by design: 8 on A800 and H800, 12 on A100. V100 boards, whose pairs have one, two or no links
each. Bridged PCIe cards: NVLink inside a pair and PCIe outside is PCI001; gaps in the numbers of their links are
normal, and so is a card without a bridge, whose links are all inactive. A GPU alone in a virtual machine has no partner
to link with. Error counters of one output alone: they count since the driver was loaded.

## References

- NCCL sources: `src/graph/topo.h` (bandwidth per link), `src/graph/xml.cc` (links per peer), `src/graph/paths.cc` (P2P)
- nvidia-smi documentation: nvlink, topo -m; NVIDIA GPU debug guidelines; Xid errors
- NCCL user guide, Environment Variables: NCCL_TOPO_DUMP_FILE, NCCL_DEBUG_SUBSYS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machine_names, machines_of
from ncclcheck.facts.nvlinks import (
    DarkGpus,
    GpuLinks,
    LinkedMachine,
    LinkErrors,
    dark_gpus,
    link_errors,
    linked_machines,
)
from ncclcheck.rules import gpus
from ncclcheck.rules.common import Numbers, compared, counted, listed, no_number, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts

# Boards without switches have fewer.
_NVSWITCH_LINKS = 8
_FIX = (
    "nvidia-smi nvlink -s and -e on that GPU, dmesg | grep Xid, systemctl status nvidia-fabricmanager; drain the"
    " machine and reset all its GPUs together: links that stay away are hardware"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    broken = facts.failures("p2p_nvlink_disabled")
    if broken:
        yield _finding(
            "The driver reports peer access as disabled between GPUs that NVLink joins: NVLink or the fabric manager is"
            " not in order, and NCCL gives up",
            machines_of(broken),
            (),
            evidence_of(broken),
            Confidence.HIGH,
            stopped(estimator),
        )
    machines = [
        machine for machine in linked_machines(facts) if not machine.model or _on_a_board(machine.model, estimator)
    ]
    for unit in ("GB/s", "links"):
        mine = [machine for machine in machines if machine.unit == unit]
        yield from _short_of_siblings([machine for machine in mine if machine.short], estimator)
        yield from _short_of_model([machine for machine in mine if not machine.short], facts, estimator)
    yield from _down_on_all([machine for machine in machines if machine.model and not machine.short], estimator)
    errors, dark = link_errors(facts), [gpus for gpus in dark_gpus(facts) if _on_a_board(gpus.model, estimator)]
    yield from _losing(errors)
    yield from _dark(dark, estimator)
    if not (machines or broken or errors or dark) and facts.nvlink is not Answer.NO:
        yield NotEvaluated(
            "the NVLinks of each GPU: a topology dump (NCCL_TOPO_DUMP_FILE), the log's topology"
            " (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH), `nvidia-smi nvlink -s`, or `nvidia-smi topo -m` of a"
            " board that joins all GPUs alike"
        )


def _on_a_board(model: str, estimator: Estimator) -> bool:
    """Are GPUs of this model sold on boards that give each the same links? Bridged cards and V100 cubes are not."""
    table = estimator.hardware
    known = [table.gpus[name] for name in table.classes_of_name(model)]
    return bool(known) and all(gpu.nvlink and not gpu.bridged and gpu.nvlinks >= _NVSWITCH_LINKS for gpu in known)


def _dark(dark: Sequence[DarkGpus], estimator: Estimator) -> Iterator[Finding]:
    """Boards, or what is shown of them, on which no link is up."""
    if not dark:
        return
    names = tuple(name for one in dark for name in one.names)
    where = f" of {dark[0].machine}" if dark[0].machine else ""
    who = f"GPU{'s' if len(dark[0].names) > 1 else ''} {listed([name.removeprefix('gpu') for name in dark[0].names])}"
    yield _finding(
        f"All NVLinks of {who}{where} are inactive, though {dark[0].model} is sold on boards that join several"
        + (f"; {counted(len(dark) - 1, 'other machine')} like that" if dark[1:] else ""),
        machine_names(dark),
        names[:8],
        tuple(line for one in dark for line in one.evidence)[:4],
        Confidence.MEDIUM,
        compared(estimator, {"intra": "nvlink"}, {"intra": ("pcie-cpu", "shm"), "nvls": False}),
    )


def _losing(errors: Sequence[LinkErrors]) -> Iterator[Finding]:
    """Links that lose data: one finding for each kind of error."""
    for what in dict.fromkeys(one.what for one in errors):
        mine = [one for one in errors if one.what == what]
        first = mine[0]
        others = f", and so {'has' if len(mine) == 2 else 'have'} {counted(len(mine) - 1, 'other GPU')}"
        where = f" of {first.gpu.machine}" if first.gpu.machine else ""
        yield _finding(
            f"NVLink {listed(first.links)} of {first.gpu.label}{where} counts {what}{others if mine[1:] else ''}",
            machine_names(one.gpu for one in mine),
            tuple(one.gpu.name for one in mine[:8]),
            tuple(line for one in mine for line in one.evidence)[:4],
            Confidence.MEDIUM,
            no_number("how long links stand still while they are trained anew is not counted"),
        )


def _short_of_siblings(machines: Sequence[LinkedMachine], estimator: Estimator) -> Iterator[Finding]:
    if not machines:
        return
    short = [(machine, gpu) for machine in machines for gpu in machine.short]
    worst, odd = min(short, key=lambda pair: pair[1].amount / pair[0].most)
    rest = len(worst.gpus) - len(worst.short)
    who = _label(odd)
    where = f" of {worst.machine}" if worst.machine else ""
    has = _amount(odd.amount, worst.unit) if odd.amount else "no NVLink"
    others = f"the other {rest} have" if rest > 1 else "its sibling has"
    message = f"{who}{where} has {has}, {others} {_amount(worst.most, worst.unit)}"
    if len(short) > 1:
        several = f" on {len(machines)} machines" if len(machines) > 1 else ""
        message += f"; {len(short)} GPUs in all{several} have fewer"
    yield _finding(
        message,
        machine_names(machines),
        tuple(gpu.name for _, gpu in short[:8]),
        tuple(dict.fromkeys(line for machine, gpu in short for line in (gpu.evidence, _sibling(machine))))[:4],
        Confidence.HIGH,
        _numbers(worst, odd.amount, worst.most, estimator),
    )


def _short_of_model(machines: Sequence[LinkedMachine], facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    """All GPUs of a machine alike, and below what their model has: only behind switches, where no link is left open."""
    classes = gpus.classes(facts, estimator)
    if not classes or any(gpu.nvlink is None or gpu.bridged for gpu in classes):
        return
    for machine in machines:
        known = [links for gpu in classes for links in _design(machine, gpu.name, gpu.nvlinks, estimator)]
        if not machine.switched or not known or machine.most > min(known) - 1:
            continue
        names = listed(sorted({gpu.name for gpu in classes}))
        yield _finding(
            f"All {len(machine.gpus)} GPUs{f' of {machine.machine}' if machine.machine else ''} have"
            f" {_amount(machine.most, machine.unit)}, {names} is built with {min(known):g}",
            (machine.machine,) if machine.machine else (),
            tuple(gpu.name for gpu in machine.gpus[:8]),
            tuple(gpu.evidence for gpu in machine.gpus[:3]),
            Confidence.MEDIUM,
            _numbers(machine, machine.most, min(known), estimator),
        )
        return  # one finding: others of the same model tell the same


def _down_on_all(machines: Sequence[LinkedMachine], estimator: Estimator) -> Iterator[Finding]:
    """GPUs of a machine that are alike, with links that are down: fewer are left than their model is built with."""
    table = estimator.hardware
    built = {one.model: min(table.gpus[name].nvlinks for name in table.classes_of_name(one.model)) for one in machines}
    short = [one for one in machines if _lack(one, built[one.model])]
    if not short:
        return
    worst = min(short, key=lambda one: one.most)
    who = f"All {len(worst.gpus)} GPUs" if worst.gpus[1:] else _label(worst.gpus[0])
    where = f" of {worst.machine}" if worst.machine else ""
    message = (
        f"{who}{where} {'have' if worst.gpus[1:] else 'has'} {worst.most:g} active NVLinks, the others are inactive;"
    )
    message += f" {worst.model} is built with {built[worst.model]}"
    if short[1:]:
        message += f"; {counted(len(short) - 1, 'other machine')} like that"
    yield _finding(
        message,
        machine_names(short),
        tuple(gpu.name for one in short for gpu in one.gpus)[:8],
        tuple(gpu.evidence for one in short for gpu in one.gpus)[:4],
        Confidence.MEDIUM,
        _numbers(worst, worst.most, built[worst.model], estimator),
    )


def _lack(machine: LinkedMachine, built: int) -> bool:
    """All links that the model is built with are shown of each GPU, and some of them are down: a list may be cut."""
    return machine.most < built and all(gpu.amount + gpu.down >= built for gpu in machine.gpus)


def _label(gpu: GpuLinks) -> str:
    return gpu.name if gpu.name.startswith("GPU") else f"GPU {gpu.name}"


def _design(machine: LinkedMachine, name: str, links: int, estimator: Estimator) -> Iterator[float]:
    """What a GPU of this class has, in the unit of the machine's numbers."""
    if machine.unit == "links":
        yield float(links)
        return
    release = _release(machine)
    for row in estimator.hardware.nvlink_totals:
        fits = release is None or (row.since <= release and (not row.before or release < row.before))
        if name in row.gpus and fits:
            yield from row.totals_gbps


def _numbers(machine: LinkedMachine, amount: float, most: float, estimator: Estimator) -> Numbers:
    if machine.unit == "links":
        whole = round(most)
    else:
        table = estimator.hardware
        known = {table.gpus[name].nvlinks for name in table.classes_of_total(most, _release(machine))}
        if len(known) != 1:
            return no_number("the number of links behind NCCL's GB/s is not known for this GPU")
        whole = known.pop()
    left = round(whole * amount / most)
    healthy: dict[str, object] = {"intra": "nvlink", "nvls": False, "nvlinks": whole}
    actual = {**healthy, "nvlinks": left} if left else {"intra": ("pcie-cpu", "shm"), "nvls": False}
    return compared(estimator, healthy, actual)


def _release(machine: LinkedMachine) -> tuple[int, int, int] | None:
    code = machine.release
    return (code // 10000, code // 100 % 100, code % 100) if code else None


def _amount(amount: float, unit: str) -> str:
    return f"{amount:g} NVLinks" if unit == "links" else f"{amount:g} GB/s of NVLink"


def _sibling(machine: LinkedMachine) -> Evidence:
    """The line of a GPU that has all its links."""
    return next(gpu.evidence for gpu in machine.gpus if gpu not in machine.short)


def _finding(
    message: str,
    hosts: tuple[str, ...],
    devices: tuple[str, ...],
    evidence: tuple[Evidence, ...],
    confidence: Confidence,
    numbers: Numbers,
) -> Finding:
    return RULE.finding(
        severity=Severity.ERROR,
        confidence=confidence,
        message=message,
        fix=_FIX,
        subject={"hosts": hosts, **({"devices": devices} if devices else {})},
        evidence=evidence,
        **numbers,
    )


RULE = Rule(
    code="NVL002",
    name="nvlink-degraded",
    severity=Severity.ERROR,
    summary="A GPU has fewer NVLinks than its siblings or than its model is built with",
    check=check,
    since="0.1.0",
)
