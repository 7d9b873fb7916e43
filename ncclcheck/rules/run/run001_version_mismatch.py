"""Processes of one job load different releases of NCCL, of a network plugin, or of CUDA.

## What it finds

- NCCL's own complaint, `Mismatched NCCL version detected : rank a version x rank b version y` (2.23.4 and newer), and
  that of RAS, `NCCL version mismatch with remote peer` (2.24.3 and newer): error. Numbers are codes, 22304 is 2.23.4
- version lines that differ between ranks of one communicator (same commId): error. Machines of one input with different
  releases that no communicator ties together, and no communicator tells apart: error with medium confidence
- channel lines of P2P with a connection index (`Channel 00/0`, 2.14.3 and newer) on one machine and without (2.13.4 and
  older) on another, where no version line is in the input: error with medium confidence
- different versions of a network plugin in one communicator: warning
- different CUDA in the NCCL builds, or different drivers, in one communicator: info.

## Why it costs

What ranks send each other during init is laid out by release, and nothing translates. From 2.23.4 on init compares and
returns 5 (invalid usage). Before that the exchange breaks in words that hide the cause: an address of family 0, a
message truncated, a connection closed, a hang in bootstrap. Neighbouring releases can get through init and then
disagree on algorithms or buffers, which hangs or corrupts. The job stands: GPUs x time until somebody compares them.

A plugin of another version speaks another wire protocol or leaves out features, so that pairs of hosts hang or fall
back.

## Example

    v-1:7112:7160 [0] NCCL INFO NCCL version 2.23.4+cuda12.6
    v-2:6480:6527 [0] NCCL INFO NCCL version 2.22.3+cuda12.5
    v-1:7112:7160 [0] init.cc:903 NCCL WARN Mismatched NCCL version detected : rank 0 version 22304 rank 8 version 22203

## How to fix

    NCCL_DEBUG=VERSION                                       # in every process: which release
    python -c 'import torch; print(torch.cuda.nccl.version())'
    grep -h libnccl /proc/<pid>/maps | awk '{print $6}' | sort -u     # which file, while the job is up
    ldconfig -p | grep nccl; echo $LD_LIBRARY_PATH $LD_PRELOAD

- One image by digest (not by tag) or one environment on all hosts; a host that was added later, or a stale image cache,
  is the usual odd one.
- PyTorch wheels bring NCCL as `nvidia-nccl-cuXX`; a system `libnccl.so.2` first in `LD_LIBRARY_PATH` or preloaded
  replaces it on hosts that have one. A torch that was built from source may hold NCCL inside.
- Plugins: `libnccl-net.so`, `libnccl-net-ofi.so`, HPC-X: same package on all hosts.
- Drivers: nothing to do for NCCL, as long as each is new enough for the CUDA of the build.

## When it is not a problem

Logs of several jobs read together, restarts appended to one file, and two libraries in one process (a framework's and
another package's own) print several releases: the rule is silent where communicators show that they are apart or came
about, and not evaluated where nothing tells. Until 2.21.5 only rank 0 prints its release: silence of the other machines
proves nothing, a communicator that completes does. Different drivers are worth knowing and no fault.

## References

- NVIDIA/nccl issue 1267: one node with another release, "family 0" in bootstrap
- pytorch/pytorch issue 122571: image whose NCCL package and framework differ
- NCCL sources: `src/init.cc` (showVersion, initTransportsRank), `src/ras/ras.cc`, `src/transport/p2p.cc`
- NCCL user guide, Environment Variables: NCCL_DEBUG
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.rules.common import listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure, Seen
    from ncclcheck.facts.versions import Clash

# NCCL_VERSION_CODE until 2.8: 2.8.3 is 2803. From 2.9 on: 2.18.3 is 21803.
_NEW_CODES = 10000
_OFI_BUILD = re.compile(r"(?:Using|Initializing) (aws-ofi-nccl) (?:GitHub-|git-)?v?(\d\S*)")
_API = re.compile(r"^(.*) \((v\d+)\)$")

_FIX = (
    "one NCCL on all machines: the same image or environment; on each, python -c 'import torch;"
    " print(torch.cuda.nccl.version())', grep libnccl /proc/<pid>/maps while the job is up, and compare LD_LIBRARY_PATH"
    " and LD_PRELOAD"
)
_FIX_UNPROVEN = f"if these machines are of one job: {_FIX}"
_FIX_PLUGIN = "the same package of the network plugin on all machines (libnccl-net*.so, aws-ofi-nccl, HPC-X)"
_FIX_DRIVER = "nothing for NCCL; nvidia-smi --query-gpu=driver_version --format=csv on each machine"
_FIX_CUDA = "the same NCCL package on all machines, so that failures do not depend on the host"
_NEEDS = (
    "'NCCL version' of every machine (NCCL_DEBUG=VERSION or INFO in all processes), or the end of init: 'Init COMPLETE'"
)
_NEEDS_COMMUNICATORS = (
    "the input holds several releases of NCCL and no line that tells whether they meet in one job: 'Init START' lines"
    " with commId (2.18.3 and newer) of all machines"
)


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    complaints = facts.failures("version_mismatch") or facts.failures("ras_version_mismatch")
    clash = facts.versions.clash()
    if complaints:
        yield _printed(estimator, complaints)
    elif clash:
        yield _clash(estimator, clash)
    if complaints or clash:
        return
    yield from _plugins(facts)
    yield from _cuda(facts)
    told = facts.versions.told_apart if facts.versions.several else facts.versions.all_known
    if not told and not _came_about(facts):
        yield NotEvaluated(_NEEDS_COMMUNICATORS if facts.versions.several else _NEEDS)


def _came_about(facts: Facts) -> bool:
    """Have ranks of a communicator passed what they tell each other at the start?"""
    if facts.rings_connected or facts.edges:
        return True
    return any(one.completed and (one.nranks or 0) > 1 for one in facts.communicators)


def _printed(estimator: Estimator, complaints: Sequence[Failure]) -> Finding:
    ranks: dict[str, set[int]] = {}
    for failure in complaints:
        for side in ("a", "b"):
            if f"version_{side}" in failure.fields:
                where = ranks.setdefault(_release(int(failure.fields[f"version_{side}"])), set())
                where.update(int(failure.fields[name]) for name in (f"rank_{side}",) if name in failure.fields)
    newest_first = sorted(ranks, key=_parts, reverse=True)
    said = ", ".join(f"{release}{_ranks(sorted(ranks[release]))}" for release in newest_first)
    machines = machines_of(complaints)
    told = said or f"{place(machines, 'a process')} and {complaints[0].fields.get('peer', 'its peer')} differ"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH,
        f"Ranks of one job load different releases of NCCL: {told}",
        _FIX,
        {"hosts": machines},
        evidence_of(complaints),
        **stopped(estimator),
    )


def _release(code: int) -> str:
    major, minor = (10000, 100) if code >= _NEW_CODES else (1000, 100)
    return f"{code // major}.{code % major // minor}.{code % minor}"


def _parts(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def _ranks(ranks: Sequence[int]) -> str:
    return f" ({'rank' if len(ranks) == 1 else 'ranks'} {listed([str(rank) for rank in ranks])})" if ranks else ""


def _clash(estimator: Estimator, clash: Clash) -> Finding:
    said = ", ".join(f"{release} on {place(machines, 'one machine')}" for release, machines in clash.releases.items())
    if clash.proven:
        message = f"Ranks of one communicator load different releases of NCCL: {said}"
    elif clash.by_form:
        message = f"Channel lines are printed in the forms of two releases of NCCL: {said}"
    else:
        message = f"Machines load different releases of NCCL, and nothing shows that they are of different jobs: {said}"
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if clash.proven else Confidence.MEDIUM,
        message,
        _FIX if clash.proven else _FIX_UNPROVEN,
        {"hosts": clash.machines},
        clash.evidence,
        **(no_number("init went through: what differs afterwards is not known") if clash.works else stopped(estimator)),
    )


def _plugins(facts: Facts) -> Iterator[Finding]:
    """Versions of one plugin, by its interface or by its own count."""
    by_plugin: dict[str, dict[str, list[Seen]]] = {}
    for seen in facts.notes("net_plugin_api"):
        if named := _API.match(seen.value):
            by_plugin.setdefault(f"plugin {named[1]}", {}).setdefault(named[2], []).append(seen)
    for seen in facts.notes("net_ofi_message"):
        if named := _OFI_BUILD.search(seen.value):
            by_plugin.setdefault(f"plugin {named[1]}", {}).setdefault(named[2], []).append(seen)
    for plugin, versions in by_plugin.items():
        if apart := _apart(facts, versions):
            what = f"Versions of {plugin} differ in one communicator"
            yield _differ(what, apart, versions, Severity.WARNING, _FIX_PLUGIN)


def _cuda(facts: Facts) -> Iterator[Finding]:
    drivers: dict[str, list[Seen]] = {}
    for seen in facts.notes("cuda_driver_version"):
        if seen.value.isdigit():
            drivers.setdefault(f"{int(seen.value) // 1000}.{int(seen.value) % 1000 // 10}", []).append(seen)
    builds: dict[str, list[Seen]] = {}
    for seen in facts.cuda_builds:
        builds.setdefault(seen.value, []).append(seen)
    if apart := _apart(facts, builds):
        yield _differ("NCCL was built with different CUDA in one communicator", apart, builds, Severity.INFO, _FIX_CUDA)
    if apart := _apart(facts, drivers):
        what = "Drivers of one communicator differ in the CUDA they offer"
        yield _differ(what, apart, drivers, Severity.INFO, _FIX_DRIVER)


def _apart(facts: Facts, values: dict[str, list[Seen]]) -> dict[str, tuple[str, ...]]:
    """Value -> machines, where a communicator has machines with different ones; a machine that prints several
    (restarts, two libraries) says nothing."""
    machines = {value: set(machines_of(seen)) for value, seen in values.items()}
    for communicator in facts.communicators:
        if communicator.ambiguous:
            continue
        here = {value: names & {*communicator.machines} for value, names in machines.items()}
        once = {value: {name for name in names if sum(name in other for other in here.values()) == 1}
                for value, names in here.items()}  # fmt: skip
        found = {value: tuple(sorted(names)) for value, names in once.items() if names}
        if len(found) > 1:
            return found
    return {}


def _differ(
    what: str, apart: dict[str, tuple[str, ...]], values: dict[str, list[Seen]], severity: Severity, fix: str
) -> Finding:
    most_first = sorted(apart, key=lambda value: (-len(apart[value]), value))
    said = ", ".join(f"{value} on {place(apart[value], 'a machine')}" for value in most_first)
    return RULE.finding(
        severity,
        Confidence.HIGH,
        f"{what}: {said}",
        fix,
        {"hosts": tuple(sorted({machine for machines in apart.values() for machine in machines}))},
        evidence_of([seen for value in most_first for seen in values[value]]),
        **no_number("the model has no number for versions"),
    )


RULE = Rule(
    code="RUN001",
    name="version-mismatch",
    severity=Severity.ERROR,
    summary="Processes of one job load different releases of NCCL, of a network plugin, or of CUDA",
    check=check,
    since="0.1.0",
)
