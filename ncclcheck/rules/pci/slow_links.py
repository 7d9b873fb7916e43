"""Findings of PCI003 by what lspci, nvidia-smi and the kernel say of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machine_names
from ncclcheck.facts.slow_links import SlowLink, slow_links
from ncclcheck.rules.common import OTHER_LIMIT, Numbers, compared, counted, felt, listed, no_number, of_a_job, place
from ncclcheck.rules.model import Confidence, Finding, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

# What NCCL counts for a link (GB/s) -> generation and lanes that carry as much.
AS_LINK = {96.0: (6, 16), 48.0: (5, 16), 24.0: (4, 16), 12.0: (3, 16), 6.0: (3, 8), 3.0: (3, 4), 1.5: (3, 2)}

_RESEAT = (
    "reseat the card, riser or cable and look for bifurcation in the firmware; `sudo lspci -vvs {where} | grep -E"
    " 'LnkCap|LnkSta'` on it and on the port above must show one width"
)
_FIXES = {
    "width": _RESEAT,
    "speed": _RESEAT,
    "boot": "`sudo lspci -vvv` tells what {where} can do and does now: a slot or switch of an older generation is a"
    " design, a link that trained down wants to be reseated",
    "errors": "reseat the card, riser or cable of {where}; `dmesg | grep -i aer` must stay silent under load",
}


def findings(rule: Rule, facts: Facts, estimator: Estimator) -> Iterator[Finding]:
    groups: dict[tuple[str, str, Severity, Confidence], list[SlowLink]] = {}
    for link in slow_links(facts):
        if (how := _judged(link)) is not None:
            groups.setdefault((link.sign, link.kind, *how), []).append(link)
    for (sign, _, severity, confidence), links in groups.items():
        first = links[0]
        machines = machine_names(links)
        devices = tuple(dict.fromkeys(link.device for link in links))
        yield rule.finding(
            severity,
            confidence,
            _message(links, devices, machines),
            _FIXES[sign].format(where=first.where),
            {"hosts": machines, "devices": devices[:16]},
            evidence_of(links),
            **_numbers(first, facts, estimator),
        )


def _judged(link: SlowLink) -> tuple[Severity, Confidence] | None:
    """None: what all cards have alike is the board's design."""
    if link.sign == "boot":
        return (Severity.INFO, Confidence.LOW) if link.alike else (Severity.WARNING, Confidence.LOW)
    if link.sign == "errors":
        return Severity.WARNING, Confidence.MEDIUM
    if link.alike and not link.sure:
        return None
    if link.alike:
        return (Severity.INFO, Confidence.LOW) if link.sign == "width" else (Severity.WARNING, Confidence.MEDIUM)
    return (Severity.ERROR, Confidence.HIGH) if link.sure else (Severity.WARNING, Confidence.MEDIUM)


def _message(links: Sequence[SlowLink], devices: Sequence[str], machines: Sequence[str]) -> str:
    first = links[0]
    what = {"gpu": "GPU", "nic": "NIC"}.get(first.kind, "bridge")
    who = f"{what} {listed(devices)} on {place(machines, 'a machine')}"
    if first.sign == "errors":
        many = counted(first.errors, "corrected error")
        return f"The PCIe link of {who} makes errors: {many} of {first.where} are logged"
    if first.sign == "boot":
        design = ", as on all of them" if first.alike else ""
        return (
            f"At boot the kernel found {first.now} of {first.best} on the way to {who}{design}: the link at"
            f" {first.where} is the slower one"
        )
    above = "" if first.where == first.device else f", at {first.where} above it"
    load = " under load" if first.sign == "speed" and first.kind == "gpu" else ""
    design = ", as on all of them: it may be the board's design" if first.alike else ""
    doubt = design if first.sure else "; the port above would tell whether the slot has more"
    return f"The PCIe link of {who} runs at {first.now} of {first.best}{load}{above}{doubt}"


def _numbers(link: SlowLink, facts: Facts, estimator: Estimator) -> Numbers:
    base = of_a_job(facts)
    if link.now_gbps is None or link.best_gbps is None:
        if link.sign == "errors":
            return no_number("nothing tells how much of the link the errors cost")
        return no_number("speed and lanes of the link are not both in the input (lspci -vv, nvidia-smi -q)")
    if link.kind == "nic":
        return no_number("nothing tells which port this NIC has, and at what rate")
    if link.now_gbps not in AS_LINK or link.best_gbps not in AS_LINK:
        return no_number("the model knows no link of this width")
    sides = [
        {**base, "pcie_gen": generation, "pcie_width": lanes}
        for generation, lanes in (AS_LINK[link.best_gbps], AS_LINK[link.now_gbps])
    ]
    return felt(compared(estimator, *sides), OTHER_LIMIT)
