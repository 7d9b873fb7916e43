"""PCIe links that are slower than both their ends could be: as lspci and NVML show them, as the kernel found them.

What all cards of a machine have alike may be the board's design; what idles saves power. Links of guests are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.facts import Facts
from ncclcheck.facts.outputs import Place
from ncclcheck.facts.parts import Part, Reading, of_kind
from ncclcheck.facts.pci_tree import Device, Link, PciTree, guest_places, pci_trees
from ncclcheck.facts.question import question

# GT/s per lane by generation of PCIe.
_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
# GPUs whose way to the CPU is NVLink-C2C: what they show as a PCIe link carries nothing.
_SUPERCHIP = re.compile(r"\b(?:GH200|GB200|GB300|GB10)\b")
# A corrected error now and then is no matter; a link that makes so many of them is marginal.
_MANY_ERRORS = 20
# What only accelerators and NICs are capable of (Gb/s of a x16 link of generation 5), whatever the device is called.
_ACCELERATOR_GBIT = 500.0


class SlowLink(NamedTuple):
    """device: whose way to the CPU it is on, kind gpu or nic. where: the link's lower end, of sign boot the upper.
    sign: width, speed, boot (as the kernel found it) or errors. now, best: in words; now_gbps, best_gbps: GB/s as NCCL
    counts, of a link under load. sure: both ends are known, or siblings do better. alike: all such devices of the
    machine have it, which may be a design. errors: how many are logged."""

    machine: str
    device: str
    kind: str
    where: str
    sign: str
    now: str
    best: str
    now_gbps: float | None
    best_gbps: float | None
    sure: bool
    evidence: tuple[Evidence, ...]
    alike: bool = False
    errors: int = 0


@question
def slow_links(facts: Facts) -> tuple[SlowLink, ...]:
    """The slow links of all machines, one for each device and sign."""
    found: list[SlowLink] = []
    for tree in pci_trees(facts):
        if not tree.guest:
            found += _by_lspci(tree)
            found += _at_boot(tree, {link.device for link in found})
            found += _with_errors(tree)
    shown = {(link.machine, link.device) for link in found}
    found += (link for link in _by_nvml(facts) if (link.machine, link.device) not in shown)
    return tuple(found)


@question
def links_told(facts: Facts) -> bool:
    """Is the state of any GPU's or compute NIC's link told, on bare metal or in a guest?"""
    trees = any(device.now.lanes is not None for tree in pci_trees(facts) for device in tree.computing)
    return trees or any(part.values("pcie_lanes") for part in of_kind(facts, "gpu"))


# ------------------------------------------------------------------------------------------------- lspci


def _by_lspci(tree: PciTree) -> Iterator[SlowLink]:
    told: set[str] = set()
    for device in tree.computing:
        chain = [device, *tree.above(device.name)]
        # a port that looks down is the upper end of its link; between it and the port above is no link but the switch
        for lower, upper in zip_longest(chain[::2], chain[1::2]):
            sign = _sign(lower, upper)
            if not sign or lower.name in told or _SUPERCHIP.search(device.model):
                continue  # a link that many devices share is one
            told.add(lower.name)
            siblings = [one for one in tree.computing if (one.kind, one.model) == (device.kind, device.model)]
            alike = lower is device and len(siblings) > 1
            alike = alike and all(_sign(one, next(iter(tree.above(one.name)), None)) == sign for one in siblings)
            both = upper is not None and upper.best.lanes is not None
            better = sign == "width" and any(_less(lower.now.lanes, one.now.lanes) for one in siblings)
            key = "lanes" if sign == "width" else "gts"
            lines = lower.evidence(key, f"{key}_max") + (upper.evidence(f"{key}_max") if upper else ())
            link = _slow(tree.place.machine, device, lower.name, sign, lower.now, _best(lower, upper), lines)
            yield link._replace(sure=both or better, alike=alike)


def _sign(lower: Device, upper: Device | None) -> str:
    """What is wrong with the link between two devices, "" for nothing that shows. An idle GPU saves power by its speed,
    and so does what is above it alone."""
    best = _best(lower, upper)
    if _less(lower.now.lanes, best.lanes):
        return "width"
    return "speed" if lower.kind == "nic" and _less(lower.now.gts, best.gts) else ""


def _slow(
    machine: str, device: Device, where: str, sign: str, now: Link, best: Link, lines: tuple[Evidence, ...]
) -> SlowLink:
    """Lanes are compared at the best speed: the speed of now may be that of a device that sleeps."""
    if sign == "width":
        texts = (f"x{now.lanes:g}", f"x{best.lanes:g}")
        now = Link(best.gts, now.lanes)
    else:
        texts = (f"{now.gts:g} GT/s", f"{best.gts:g} GT/s")
        now = Link(now.gts, best.lanes)
    return SlowLink(machine, device.name, device.kind, where, sign, *texts, _gbps(now), _gbps(best), False, lines)


def _gbps(link: Link) -> float | None:
    """NCCL counts 0.09375 GB/s per lane and GT/s: 48 for x16 of generation 5."""
    return None if link.gts is None or link.lanes is None else link.gts * link.lanes * 48 / (32 * 16)


def _best(lower: Device, upper: Device | None) -> Link:
    """What both ends can; one end alone where the other is not told."""
    if upper is None:
        return lower.best
    return Link(_smaller(lower.best.gts, upper.best.gts), _smaller(lower.best.lanes, upper.best.lanes))


def _smaller(a: float | None, b: float | None) -> float | None:
    return min((one for one in (a, b) if one is not None), default=None)


def _less(now: float | None, best: float | None) -> bool:
    return now is not None and best is not None and now < best


# ------------------------------------------------------------------------------------------------- the kernel's log


def _at_boot(tree: PciTree, known: set[str]) -> Iterator[SlowLink]:
    limited = [device for device in tree.devices.values() if _is_limited(device)]
    shares: dict[str, Counter[float | None]] = {}  # by kind of device; None: not limited
    for one in tree.devices.values():
        shares.setdefault(one.kind, Counter())[_share(one.part) if _is_limited(one) else None] += 1
    for device in limited:
        if device.name in known or _runs_well(tree, device):
            continue
        share = _share(device.part)
        kind = device.kind or "gpu"
        like = shares.get(kind, Counter())
        alike = like.keys() == {share} and like[share] > (device.kind == kind)
        now, best = (device.part.number(key) or 0 for key in ("boot_gbit", "capable_gbit"))
        yield SlowLink(
            tree.place.machine, device.name, kind, device.part.text("limited_by"), "boot",
            f"{now:g} Gb/s", f"{best:g} Gb/s", _as_nccl(now), _as_nccl(best),
            sure=False, evidence=device.evidence("limited_by"), alike=alike,
        )  # fmt: skip


def _is_limited(device: Device) -> bool:
    """A GPU or NIC, by its class or by what it is capable of."""
    capable = device.part.number("capable_gbit")
    if not device.part.text("limited_by") or capable is None:
        return False
    return device.kind in ("gpu", "nic") or (not device.kind and capable > _ACCELERATOR_GBIT)


def _as_nccl(gbit: float) -> float:
    """The kernel's Gb/s (504.112 for x16 of generation 5) as NCCL counts GB/s."""
    return round(gbit / 504.112 * 48, 2)


def _share(part: Part) -> float:
    return round((part.number("boot_gbit") or 0) / (part.number("capable_gbit") or 1), 2)


def _runs_well(tree: PciTree, device: Device) -> bool:
    """lspci shows now what the kernel missed at boot: the link itself at its best, and nothing above."""
    return device.now.gts is not None and device.now == device.best and not tree.above(device.name)


def _with_errors(tree: PciTree) -> Iterator[SlowLink]:
    paths = {bridge.name for device in tree.computing for bridge in tree.above(device.name)}
    for device in tree.devices.values():
        errors = Counter(value.text for value in device.part.values("errors"))
        if errors["corrected"] >= _MANY_ERRORS and (device.kind in ("gpu", "nic") or device.name in paths):
            lines = device.evidence("errors")
            yield SlowLink(tree.place.machine, device.name, device.kind, device.name, "errors", "", "", None, None,
                           sure=False, evidence=lines, errors=errors["corrected"])  # fmt: skip


# ------------------------------------------------------------------------------------------------- NVML


def _by_nvml(facts: Facts) -> Iterator[SlowLink]:
    guests = guest_places(facts)
    machines: dict[Place, list[Part]] = {}
    for part in of_kind(facts, "gpu"):
        if part.place not in guests:
            machines.setdefault(part.place, []).append(part)
    for gpus in machines.values():
        found = [link for gpu in gpus if (link := _of_gpu(gpu)) is not None]
        for link in found:
            alike = len(gpus) > 1 and sum(other.sign == link.sign for other in found) == len(gpus)
            alone = len(gpus) == 1 and gpus[0].text("virtualization") != "none"
            # the driver knows what the slot can, but calls a slot of a guest or a board as it pleases
            yield link._replace(alike=alike, sure=link.sign == "speed" if alike else not alone)


def _of_gpu(gpu: Part) -> SlowLink | None:
    if any(_SUPERCHIP.search(value.text) for value in gpu.values("model")):
        return None
    for reading in gpu.readings:
        lanes, most = _number(reading, "pcie_lanes"), _number(reading, "pcie_lanes_max")
        now, best = _number(reading, "pcie_gen"), _number(reading, "pcie_gen_max")
        narrow = _less(lanes, most)
        if not narrow and not (_less(now, best) and _works(reading)):
            continue
        key = "pcie_lanes" if narrow else "pcie_gen"
        lines = tuple(dict.fromkeys(value.evidence for one in (key, f"{key}_max") for value in reading[one][:1]))
        texts = (f"x{lanes:g}", f"x{most:g}") if narrow else (f"generation {now:g}", f"generation {best:g}")
        full, lower = _GTS.get(int(best or 0)), _GTS.get(int(now or 0))
        loaded = Link(full, lanes) if narrow else Link(lower, most or lanes)
        return SlowLink(gpu.machine, gpu.name, "gpu", gpu.name, "width" if narrow else "speed", *texts,
                        _gbps(loaded), _gbps(Link(full, most or lanes)), sure=False, evidence=lines)  # fmt: skip
    return None


def _works(reading: Reading) -> bool:
    """Under load at that moment: an idle GPU lowers the speed of its link."""
    used, state = _number(reading, "utilization_pct"), _number(reading, "performance_state")
    idle = reading.get("idle", ())
    return (used is not None and used > 0 and state == 0) or bool(idle and idle[0].text == "no")


def _number(reading: Reading, key: str) -> float | None:
    values = reading.get(key, ())
    return values[0].number if values else None
