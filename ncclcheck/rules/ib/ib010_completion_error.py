"""RDMA gave up on a request: a work completion with an error.

## What it finds

`NET/IB : Got completion from peer ... with error 12` (2.4 to 2.19.4), `with status=12` (2.20.3 and newer),
`status=IBV_WC_RETRY_EXC_ERR(12)` (2.28.7 and newer), and libfabric's `NET/OFI Request ... completed with error`, by
status:

| status | meaning | usual cause |
| --- | --- | --- |
| 12 | retries exceeded, no answer | path broken (RoCE GID, MTU, VLAN, cable, port, switch), or the peer is gone |
| 13 | receiver not ready, retries exceeded | the peer hangs or died and posts no receives |
| 4, 8 to 11 | access to memory refused, on either side | ACS or IOMMU between GPU and NIC, registration, driver |
| 1 | length | ranks disagree on sizes |
| 5 | flushed | the queue pair was already in error: follows one of the others, or the end of a process |
| 19, 20, 21 | fatal, response timeout, general | NIC, firmware or driver |

Vendor errors of Mellanox and NVIDIA NICs: 129 goes with 12, 249 with 5, 136 to 138 with 9 to 11, 81 with 4: the NIC was
refused the GPU's memory.

## Why it costs

The queue pair is dead, the collective cannot complete, all ranks stop or wait for the watchdog: GPUs x time until
noticed. Status 12 comes late: 4.096 us x 2^NCCL_IB_TIMEOUT (14 until 2.13.4, 18 until 2.22.3, 20 since), times
NCCL_IB_RETRY_CNT (7), which is half a second, 8 s and 30 s at least; adapters may take a multiple.

## Example

    rail-07:2248:2287 [7] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.40.1.6<41233> with
    error 12, opcode 0, len 0, vendor err 129 (Send)

## How to fix

Which one is first? Status 5 follows; 12 and 13 follow when the peer's process failed before. Look at the peer's log.

- 12 at the first traffic: the NICs cannot talk. RoCE: `show_gids`, `NCCL_IB_GID_INDEX` before 2.21.5 (the routable RoCE
  v2 entry), same MTU and VLAN, routes between subnets; InfiniBand: `ibstat`, `ibv_devinfo`, subnet manager, partition.
  Test the pair: `ib_write_bw -d mlx5_3 [-x <gid index>] <peer>` in both directions.
- 12 after hours: a port that flaps or a cable (`rdma statistic`, `ibdiagnet`, `dmesg | grep mlx5`), congestion with
  packet loss (PFC, ECN). `NCCL_IB_TIMEOUT=22` bridges flaps of some seconds and hides the cause.
- 13: what does the peer do? CPU starved, in a debugger, hanging or dead.
- 4, 9, 10, 11: `NCCL_NET_GDR_LEVEL=LOC` as a test: without GPUDirect the error goes, and so does speed. Then
  `lspci -vvv | grep ACSCtl` (ReqRedir and CmpltRedir must be off on bridges between GPU and NIC), `iommu=pt` or off; in
  virtual machines ATS and a hypervisor set up for peer-to-peer; `nvidia-peermem` or dma-buf of this driver; firmware of
  BIOS and NIC.
- libfabric: the peer's log, the security group (EFA), same versions of libfabric and plugin on all hosts.

## When it is not a problem

Status 5 by itself is never the cause; alone in an input it is worth knowing. `RC: 125` of libfabric (operation
cancelled) is printed with libfabric before 1.22 when an endpoint closes, and is harmless. With
NCCL_IB_RESILIENCY_PORT_FAILOVER (2.29.7 and newer) a completion with an error is INFO and traffic moves to another
port. At NCCL_DEBUG=VERSION warnings are not printed, and the rule is not evaluated.

## References

- NVIDIA/nccl issues 426 (RoCE GID), 214, 523, 928, 1052 (status 4: ACS, IOMMU), 1353 (status 5), 905 (flapping link)
- aws/aws-ofi-nccl issues 156, 161: requests completed with error
- NCCL sources: `src/transport/net_ib.cc`, `src/transport/net_ib/p2p.cc` (2.29 and newer)
- libibverbs: ibv_poll_cq(3), enum ibv_wc_status; libfabric: fi_cq(3)
- NCCL user guide, Environment Variables: NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT, NCCL_IB_GID_INDEX, NCCL_NET_GDR_LEVEL;
  Troubleshooting: PCI Access Control Services (ACS)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclcheck.facts.deaths import first_death
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import counted, listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.completions import Completions
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure

_NEEDS = "WARN lines of NCCL: NCCL_DEBUG=WARN or INFO (at VERSION they are not printed)"

_FLUSHED = 5
_PROTECTION = 4
# Vendor error of mlx5 with status 4: the NIC could not reach the memory.
_REFUSED = 81
_OFI = re.compile(r"completed with error\b|Unable to (?:retrieve completion queue|read from fi_cq_readerr)", re.I)
_OFI_RC = re.compile(r"\bRC: (-?\d+)")
_OFI_ERROR = re.compile(r"Error: (\d+ \([^()]*(?:\([^()]*\)[^()]*)?\)|[^.,]+)", re.I)
# ECANCELED: receives of an endpoint that is being closed.
_CANCELLED = "125"
_NO_WORDS = frozenset(("unknown error", "unknown", "success"))


@dataclass(frozen=True, slots=True)
class _Kind:
    """Statuses that mean the same. end: the fault is at the other end, or between."""

    statuses: tuple[int, ...]
    what: str
    meaning: str
    fix: str
    end: bool = False


_FIX_ROCE = (
    "read the peer's log first; ib_write_bw -d <hca> -x <gid index> <peer> both ways; show_gids on both hosts, and"
    " NCCL_IB_GID_INDEX to the routable RoCE v2 entry where NCCL is older than 2.21.5; MTU, VLAN and PFC along the path"
)
_FIX_IB = (
    "read the peer's log first; ib_write_bw -d <hca> <peer> both ways; ibstat and dmesg | grep mlx5 on both hosts,"
    " cable and switch port (ibdiagnet); NCCL_IB_TIMEOUT=22 only bridges a link that flaps"
)
_FIX_PATH = (
    "read the peer's log first; ib_write_bw -d <hca> <peer> both ways; RoCE: show_gids, NCCL_IB_GID_INDEX before"
    " 2.21.5, MTU, PFC; InfiniBand: ibstat, cable, switch port; dmesg | grep mlx5 on both hosts"
)
_FIX_MEMORY = (
    "test with NCCL_NET_GDR_LEVEL=LOC: if the error goes, it is GPUDirect RDMA; then lspci -vvv | grep ACSCtl"
    " (ReqRedir and CmpltRedir off on bridges between GPU and NIC), iommu=pt, nvidia-peermem or dma-buf of this driver,"
    " firmware of BIOS and NIC"
)
_FIX_FIRST = "look for what failed first: {} has it in its log"

_KINDS = (
    _Kind((12,), "got no answer", "the path is broken or the peer is gone", _FIX_PATH, end=True),
    _Kind((13,), "met a receiver that was not ready", "the peer hangs or is gone",
          "look at what the peer does (py-spy dump, its log, CPU limits), then at the path", end=True),
    _Kind((4, 8, 9, 10, 11), "were refused access to memory",
          "ACS or IOMMU between GPU and NIC, memory registration, driver or firmware", _FIX_MEMORY),
    _Kind((1,), "did not fit the buffer of the receiver", "ranks disagree on sizes",
          "compare the collectives and the NCCL_* variables of both ranks (NCCL_BUFFSIZE, NCCL_PROTO, NCCL release)"),
)  # fmt: skip
_OTHER = _Kind((), "failed", "NIC, firmware or driver",
               "dmesg | grep mlx5, NIC firmware and driver (ethtool -i), ibv_devinfo")  # fmt: skip


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    failed = [one for one in facts.failed_completions if one.status != _FLUSHED]
    flushed = next((one for one in facts.failed_completions if one.status == _FLUSHED), None)
    by_kind: dict[_Kind, list[Completions]] = {}
    for one in failed:
        kind = next((kind for kind in _KINDS if one.status in kind.statuses), _OTHER)
        by_kind.setdefault(kind, []).append(one)
    for number, (kind, completions) in enumerate(by_kind.items()):
        yield _finding(facts, estimator, kind, completions, None if number else flushed)
    if flushed and not failed:
        yield _only_flushed(flushed)
    by_error: dict[str, list[Failure]] = {}
    for failure in facts.failures("net_ofi_message"):
        if failure.level == "WARN" and _is_ofi_completion(failure):
            by_error.setdefault(_ofi_error(failure), []).append(failure)
    for error, failures in by_error.items():
        yield _libfabric(estimator, error, failures)
    if not facts.failed_completions and not by_error and not facts.visibility.info and not facts.failures():
        yield NotEvaluated(_NEEDS)


def _finding(
    facts: Facts, estimator: Estimator, kind: _Kind, completions: Sequence[Completions], flushed: Completions | None
) -> Finding:
    machines = sorted({machine for one in completions for machine in one.machines})
    devices = sorted({device for one in completions for device in one.devices})
    peers = sorted({peer for one in completions for peer in one.peers})
    at_peers = {machine for one in completions for machine in one.peer_machines} if kind.end else set()
    died = bool(at_peers) and _died_before(facts, completions, at_peers)
    follows = died or (kind.end and all(one.after_failure == one.count for one in completions))
    towards = "" if not peers else f" to {peers[0] if len(peers) == 1 else counted(len(peers), 'peer')}"
    over = f" over {listed(devices)}" if devices else ""
    behind = f", {counted(flushed.count, 'more request was', 'more requests were')} flushed behind" if flushed else ""
    meaning = "the peer had failed before" if follows else _meaning(facts, kind, completions)
    return RULE.finding(
        Severity.INFO if follows else Severity.ERROR,
        Confidence.HIGH,
        f"RDMA requests of {place(machines, 'a rank')}{towards}{over} {kind.what} ({_status(completions)}):"
        f" {meaning}{behind}",
        _FIX_FIRST.format(listed(sorted(at_peers))) if follows else _fix(facts, kind),
        {"hosts": tuple(sorted({*machines, *at_peers}))},
        _in_turn(completions),
        causes=("RUN010",) if died else ("IB006", "IB007") if kind.end else (),
        **(no_number("a consequence: the peer had failed before") if follows else stopped(estimator)),
    )


def _died_before(facts: Facts, completions: Sequence[Completions], peers: Set[str]) -> bool:
    """Is the death of a process on a peer's machine on record before the first of these completions?"""
    begin: dict[str, int] = {}
    for line in (line for one in completions for line in one.evidence):
        begin[line.path] = min(line.line, begin.get(line.path, line.line))
    first = first_death(facts)
    return first is not None and any(
        death.machine in peers and death.evidence.line < begin.get(death.evidence.path, 0) for death in first.deaths
    )


def _status(completions: Sequence[Completions]) -> str:
    """`status 12`, `status 4, vendor error 81`."""
    statuses = sorted({one.status for one in completions})
    vendor = sorted({error for one in completions for error in one.vendor_errs})
    errors = f", vendor error {listed([str(error) for error in vendor])}" if vendor else ""
    return f"status {listed([str(status) for status in statuses])}{errors}"


def _meaning(facts: Facts, kind: _Kind, completions: Sequence[Completions]) -> str:
    refused = any(_REFUSED in one.vendor_errs for one in completions if one.status == _PROTECTION)
    if not refused:
        return kind.meaning
    if facts.guest_signs:
        return "ACS, ATS or IOMMU of the virtual machine's host keeps the NIC from GPU memory"
    return "the NIC does not reach GPU memory: ACS or IOMMU, usual in virtual machines"


def _fix(facts: Facts, kind: _Kind) -> str:
    if kind.fix is not _FIX_PATH:
        return kind.fix
    links = {nic.link for nics in facts.nic_lists.values() for nic in nics if nic.link}
    return {"RoCE": _FIX_ROCE, "IB": _FIX_IB}.get("+".join(links), _FIX_PATH)


def _in_turn(completions: Sequence[Completions], most: int = 4) -> tuple[Evidence, ...]:
    rounds = max(len(one.evidence) for one in completions)
    return tuple(one.evidence[turn] for turn in range(rounds) for one in completions if turn < len(one.evidence))[:most]


def _only_flushed(flushed: Completions) -> Finding:
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH,
        f"RDMA requests of {place(flushed.machines, 'a rank')} were flushed ({_status([flushed])}): they follow another"
        " error, or the end of a process, that is not among the completions of this input",
        "look for what failed first, in the logs of the peers as well: death of a rank, CUDA failure, port error",
        {"hosts": flushed.machines},
        flushed.evidence,
        **no_number("a consequence of an error elsewhere"),
    )


def _is_ofi_completion(failure: Failure) -> bool:
    text = failure.fields.get("text", "")
    code = _OFI_RC.search(text)
    return bool(_OFI.search(text)) and not (code and code[1].lstrip("-") == _CANCELLED)


def _ofi_error(failure: Failure) -> str:
    """The error's own words; its number where there are none."""
    text = failure.fields.get("text", "")
    words, code = _OFI_ERROR.search(text), _OFI_RC.search(text)
    if words and words[1].strip().lower() not in _NO_WORDS:
        return words[1].strip()
    return f"RC {code[1]}" if code else "an unnamed error"


def _libfabric(estimator: Estimator, error: str, failures: Sequence[Failure]) -> Finding:
    machines = machines_of(failures)
    unreached = re.search(r"unreachable|unresponsive|RC 20\b", error, re.I)
    meaning = "the peer was not reached" if unreached else "the provider gave up on it"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"Requests of {place(machines, 'a rank')} over libfabric completed with an error ({error}): {meaning}",
        "read the peer's log first; EFA: the security group must allow all traffic to and from itself; the same"
        " libfabric and plugin on all hosts (fi_info --version); FI_LOG_LEVEL=warn names what the provider saw",
        {"hosts": machines},
        evidence_of(failures),
        **stopped(estimator),
    )


RULE = Rule(
    code="IB010",
    name="completion-error",
    severity=Severity.ERROR,
    summary="RDMA gave up on a request: a work completion with an error",
    check=check,
    since="0.1.0",
    caused_by=("HST001", "HST002", "HST004", "HST005", "IB006", "IB007", "IB009", "PCI004", "RUN007"),
)
