"""A setting from a test or a work-around is still in force and costs speed.

## What it finds

Variables that take a choice away from NCCL, with a value other than the default of the release, and what they do in
this job:

- `NCCL_ALGO` that leaves out the algorithm NCCL would take, `NCCL_PROTO` that leaves LL or LL128 only;
- `NCCL_MAX_NCHANNELS` (or CTAs, rings) equal to the channel count in use: it binds;
- `NCCL_PXN_DISABLE=1` with several GPUs per node and traffic between nodes; `NCCL_SHM_DISABLE=1` where pairs of one
  machine then talk over the network;
- `CUDA_LAUNCH_BLOCKING=1`, `TORCH_NCCL_BLOCKING_WAIT=1` (found in scripts and `env` dumps).

These are warnings where the traffic they change is there. As information come those whose effect the input does not
prove, or that cost little: minimum channel counts (each channel takes an SM), `NCCL_PROTO=Simple`,
`NCCL_CUMEM_ENABLE=0`, forced levels of P2P and GPUDirect, merged NICs, graph files, small buffers,
`NCCL_DEBUG=TRACE`.

`NCCL_IB_DISABLE`, `NCCL_P2P_DISABLE`, `NCCL_NET=Socket`, `NCCL_NVLS_ENABLE` and `NCCL_CROSS_NIC` have rules of their
own (IB003, PCI002, NET001, NVL003, TOP001).

## Why it costs

Ring only on two nodes gives up the tree, which reads 0.5 to 0.8 of its bus bandwidth; on one Hopper node it gives up
NVLS (0.76 to 0.82). Tree only on many nodes costs 0.8 (0.75 to 1.0) of the ring. LL carries 0.12 and LL128 at most
0.92 of Simple's bandwidth at large sizes. Too few channels cap the bandwidth at channels times what one carries.
Without PXN all_to_all crosses rails. A blocking launch or wait takes away the overlap of computation and
communication.

## Example

    gpu-c1:7120:7188 [0] NCCL INFO NCCL_ALGO set by environment to Ring
    gpu-c1:7120:7188 [0] NCCL INFO comm 0x55d1c0a3f2e0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0

## How to fix

Unset it where it is set, and measure with and without:

    xargs -0 -n1 < /proc/<pid>/environ | grep -E 'NCCL|CUDA_LAUNCH'
    cat /etc/nccl.conf ~/.nccl.conf 2>/dev/null
    all_reduce_perf -b 8 -e 8G -f 2 -g 8

If it works around a hang or an error, name that cause in a comment beside it and remove it with the upgrade that
mends it.

## When it is not a problem

A measurement of one algorithm, a test on a single node, a profile that the maker of the network gives (GPUDirect-TCPX
and TCPXO, EFA, Azure, Slingshot and Omni-Path, Google's gIB): information at most. A switch set to 0, or any value
that is the default, is not reported. A maximum above the channel count in use does not bind.

## References

- NCCL user guide, Environment Variables ("debugging" variables: not to be used in production)
- NCCL sources: `src/graph/tuning.cc`, `src/graph/connect.cc` (channel counts), `src/graph/paths.cc` (PXN)
- nccl-tests, doc/PERFORMANCE.md; CUDA programming guide: CUDA_LAUNCH_BLOCKING
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.channels import channel_counts, usable
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.settings import Setting, set_to, settings_of
from ncclcheck.facts.variables import choice, variables
from ncclcheck.rules.common import compared, is_on, listed, no_number, place, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import MOST_SHOWN, NEEDS_SETTINGS, hosts_and_names, proof, vendor_profile, written

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

# NCCL's own words for the reason, from 2.24.3 on.
_TOLD = re.compile(r"(?P<name>NCCL_(?:ALGO|PROTO)) was set to (?P<value>[^\s]+?)\.?(?:\s|$)")
# A slowdown below this is not worth a warning: the model's own ranges are wider.
_WORTH_A_WARNING = 1.05
_DEFAULT_BUFFER = 4 << 20


class _Leftover(NamedTuple):
    """What a setting does here. binds: the traffic that it changes is in the job."""

    setting: Setting
    does: str
    binds: bool
    numbers: Numbers


_Check = Callable[["Facts", "Estimator", Setting], "_Leftover | None"]


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    dead = _no_algorithm(facts, estimator)
    if dead is not None:
        yield dead
    elif not settings_of(facts):
        yield NotEvaluated(NEEDS_SETTINGS)
    profile = vendor_profile(facts)
    costly: list[_Leftover] = []
    others: list[_Leftover] = []
    for leftover in _leftovers(facts, estimator):
        if dead is not None and leftover.setting.name in dead.subject.get("variable", ()):
            continue
        of_profile = profile and leftover.setting.name not in _NEVER_PRINTED
        quiet = of_profile or not leftover.binds or not _proven(leftover.setting) or _single_node(facts, leftover)
        (others if quiet else costly).append(leftover)
    for leftover in costly:
        yield _warning(leftover)
    if others:
        yield _information(others, profile, _one_node(facts))


def _proven(setting: Setting) -> bool:
    """NCCL never prints what it does not read itself: a script is all that can show these."""
    return setting.in_force or setting.name in _NEVER_PRINTED


def _one_node(facts: Facts) -> bool:
    return facts.crossing.answer is Answer.NO


def _single_node(facts: Facts, leftover: _Leftover) -> bool:
    """A test on one node; there, what cuts a machine into several nodes is no test."""
    return _one_node(facts) and leftover.setting.name not in ("NCCL_SHM_DISABLE", *_NEVER_PRINTED)


def _leftovers(facts: Facts, estimator: Estimator) -> Iterator[_Leftover]:
    for name, judge in _CHECKS.items():
        for setting in set_to(facts, name):
            variable = variables().get(name)
            defaults = {variable.default(release) for release in facts.releases or (None,)} if variable else set()
            if setting.value in defaults or (variable is not None and not variable.allows(setting.value)):
                continue
            leftover = judge(facts, estimator, setting)
            if leftover is not None:
                yield leftover


# ------------------------------------------------------------------------------------------------------- what each does


def _algorithm(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    read = choice(setting.name, setting.value, facts.release)
    if not read.left_out or not read.taken:
        return None
    few = len(read.taken) < len(read.left_out)
    does = f"leaves {listed(read.taken, 4)} to choose from" if few else f"rules out {listed(read.left_out)}"
    model = {frozenset(("Ring",)): "ring", frozenset(("Tree",)): "tree", frozenset(("NVLS",)): "nvls"}
    algorithm = model.get(frozenset(read.taken))
    if algorithm is None:
        numbers = no_number("the algorithm that NCCL would take instead is not in the input")
        costs = False
    else:
        numbers = compared(estimator, {}, {"algorithm": algorithm})
        costs = _slower(numbers)
    return _Leftover(setting, does, costs and _several_ranks(facts), numbers)


def _protocol(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    read = choice(setting.name, setting.value, facts.release)
    if not read.left_out or not read.taken:
        return None
    if "Simple" in read.taken:
        why = "large messages take Simple anyway; small and middle ones lose latency, for which the model has no number"
        return _Leftover(
            setting, f"rules out {listed(read.left_out)} for small and middle messages", False, no_number(why)
        )
    protocol = "ll128" if "LL128" in read.taken else "ll"
    does = f"rules out Simple, so large messages go over {listed(read.taken)}"
    return _Leftover(setting, does, _several_ranks(facts), compared(estimator, {}, {"protocol": protocol}))


def _most_channels(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    counts, limit = _channels(facts), _number(setting.value)
    if limit is None or limit < 1 or (counts and max(counts) != limit):
        return None  # fewer for another reason, or it is not in force for these
    if not counts:
        reason = no_number("the channel count in use is not in the input")
        return _Leftover(setting, "caps the channels, if NCCL wants more", False, reason)
    does = f"caps the channels at {limit}, which is what is in use"
    nics = _net_devices(facts)
    numbers = (
        compared(estimator, {"nics": nics}, {"nics": nics, "channels": limit}) if nics > limit
        else no_number("no net device idles for it; inside a node the model has no number for fewer channels")
    )  # fmt: skip
    return _Leftover(setting, does, _slower(numbers) and _several_ranks(facts), numbers)


def _fewest_channels(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    counts, least = _channels(facts), _number(setting.value)
    if least is None or least < 2 or (counts and min(counts) != least):
        return None
    does = f"asks for at least {least} channels" + (" and that is what is in use" if counts else "")
    reason = no_number("each channel takes an SM from computation; how much that costs depends on the model")
    return _Leftover(setting, f"{does}: each takes an SM from computation", False, reason)


def _pxn(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    disabled = is_on(setting.value) if setting.name == "NCCL_PXN_DISABLE" else setting.value == "0"
    if not disabled or facts.nvlink is Answer.NO or _one_gpu_each(facts):
        return None
    crosses = facts.crossing.answer is Answer.YES and facts.nvlink is Answer.YES and not _one_nic(facts)
    return _Leftover(
        setting,
        "keeps GPUs from sending through the NIC beside another GPU: all_to_all and send/recv cross rails",
        crosses and setting.name == "NCCL_PXN_DISABLE",
        no_number("the loss is in all_to_all and send/recv over rails; no paired measurement is known"),
    )


def _shm(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if not is_on(setting.value) or _one_gpu_each(facts):
        return None
    inside = facts.net_edges("inside")
    if inside:
        does = "sends traffic inside a machine over the network"
        reason = no_number("the share of the traffic that leaves through a NIC and comes back is not known")
        return _Leftover(setting, does, True, reason)
    reason = no_number("nothing in the input goes another way because of it")
    return _Leftover(setting, "takes host memory away as a path between GPUs of one machine", False, reason)


def _cumem(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if setting.value != "0":
        return None
    does = "gives up what needs cuMem: NVLS, buffer registration, NVLink between machines (MNNVL)"
    return _Leftover(setting, does, False, no_number("what depends on it is not in the input"))


def _level(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if setting.name == "NCCL_P2P_LEVEL" and setting.value == "LOC":
        return None  # how NCCL_P2P_DISABLE=1 shows up to 2.22: PCI002 tells
    of = "peer access between GPUs" if setting.name == "NCCL_P2P_LEVEL" else "GPUDirect RDMA"
    if setting.name == "NCCL_NET_GDR_LEVEL" and _default_gdr_level(facts) == setting.value:
        return None
    does = f"sets the farthest path for {of} to {setting.value} in place of the default"
    return _Leftover(setting, does, False, no_number("how many pairs it changes is not in the input"))


def _default_gdr_level(facts: Facts) -> str:
    release = facts.release
    return "PXB" if release is not None and 20604 <= release < 22902 else ""


def _merge(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if setting.value == "PORT":
        return None
    does = "splits the ports of a card" if setting.value == "LOC" else "joins NICs of several cards into one device"
    return _Leftover(setting, does, False, no_number("no paired measurement of merged NICs is known"))


def _graph_file(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    does = "replaces NCCL's own search for rings and trees by a file, right only for the machine it was made for"
    return _Leftover(setting, does, False, no_number("whether the file fits the machines is not in the input"))


def _buffer(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    size = _number(setting.value)
    if size is None or not 0 < size < _DEFAULT_BUFFER:
        return None
    does = f"shrinks the buffers to {size / 2**20:g} MiB (default 4): less data is under way on each connection"
    return _Leftover(setting, does, False, no_number("what a smaller buffer costs depends on the round trip"))


def _threads(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    threads = _number(setting.value)
    if threads is None or threads < 1:
        return None
    return _Leftover(setting, f"sets {threads} threads per channel", False, no_number("no measurement of it is known"))


def _check_pointers(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if not is_on(setting.value):
        return None
    return _Leftover(setting, "checks the pointers of every call", False, no_number("microseconds on each call"))


def _blocking(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    if not is_on(setting.value):
        return None
    does = "makes the process wait for each " + ("kernel" if setting.name == "CUDA_LAUNCH_BLOCKING" else "collective")
    why = "what is lost is the overlap of computation and communication, which the input does not show"
    return _Leftover(setting, does, True, no_number(why))


def _log_level(facts: Facts, estimator: Estimator, setting: Setting) -> _Leftover | None:
    value = setting.value.upper()
    if value not in ("TRACE", "ALL"):
        return None
    does = "prints a line for each call: right for one run, not for production"
    return _Leftover(setting, does, False, no_number("the cost is in writing the log"))


_NEVER_PRINTED = ("CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
_CHECKS: Mapping[str, _Check] = {
    "NCCL_ALGO": _algorithm,
    "NCCL_PROTO": _protocol,
    "NCCL_MAX_NCHANNELS": _most_channels,
    "NCCL_MAX_CTAS": _most_channels,
    "NCCL_MAX_NRINGS": _most_channels,
    "NCCL_MIN_NCHANNELS": _fewest_channels,
    "NCCL_MIN_CTAS": _fewest_channels,
    "NCCL_MIN_NRINGS": _fewest_channels,
    "NCCL_PXN_DISABLE": _pxn,
    "NCCL_P2P_PXN_LEVEL": _pxn,
    "NCCL_SHM_DISABLE": _shm,
    "NCCL_CUMEM_ENABLE": _cumem,
    "NCCL_P2P_LEVEL": _level,
    "NCCL_NET_GDR_LEVEL": _level,
    "NCCL_NET_FORCE_MERGE": _merge,
    "NCCL_NET_MERGE_LEVEL": _merge,
    "NCCL_GRAPH_FILE": _graph_file,
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_NTHREADS": _threads,
    "NCCL_CHECK_POINTERS": _check_pointers,
    "NCCL_DEBUG": _log_level,
    "NCCL_DEBUG_SUBSYS": _log_level,
    **dict.fromkeys(_NEVER_PRINTED, _blocking),
}


def _slower(numbers: Numbers) -> bool:
    """Does the model see a loss at large sizes?"""
    return numbers["estimate"] is not None and numbers["estimate"].slowdown.expected >= _WORTH_A_WARNING


def _several_ranks(facts: Facts) -> bool:
    return facts.crossing.answer is Answer.YES or any((one.nranks or 0) > 1 for one in facts.communicators)


def _one_gpu_each(facts: Facts) -> bool:
    return bool(facts.communicators) and all(one.local_ranks == 1 for one in facts.communicators)


def _channels(facts: Facts) -> tuple[int, ...]:
    """Channel counts of all communicators."""
    return tuple(count for one in channel_counts(facts) for count in one.counts)


def _net_devices(facts: Facts) -> int:
    """The most net devices that a machine could use."""
    return max((len(usable(nics)) for nics in facts.nic_lists.values()), default=0)


def _one_nic(facts: Facts) -> bool:
    return bool(facts.nic_lists) and all(len(nics) == 1 for nics in facts.nic_lists.values())


def _number(value: str) -> int | None:
    try:
        return int(value.strip().rstrip("."), 0)
    except ValueError:
        return None


# --------------------------------------------------------------------------------------------------------- the findings


def _no_algorithm(facts: Facts, estimator: Estimator) -> Finding | None:
    """NCCL has nothing left for a collective; a list that was set is the reason."""
    failed = facts.failures("algo_unavailable")
    lists = [setting for name in ("NCCL_ALGO", "NCCL_PROTO") for setting in set_to(facts, name)]
    if not failed:
        return None
    if not lists:
        told = [found for failure in failed if (found := _TOLD.search(failure.fields.get("text", "")))]
        why = (
            f"NCCL itself names {told[0]['name']}={told[0]['value']}"
            if told
            else "a list in NCCL_ALGO or NCCL_PROTO would be the usual reason, and the input shows none"
        )
        return RULE.finding(
            Severity.ERROR,
            Confidence.HIGH if told else Confidence.LOW,
            f"NCCL found no algorithm and protocol for a collective, and the call failed; {why}",
            "env | grep -E 'NCCL_(ALGO|PROTO)' on every host, and /etc/nccl.conf, ~/.nccl.conf (NCCL_DEBUG=INFO with"
            " ENV prints what is set); if nothing is set, a newer NCCL",
            {"hosts": machines_of(failed)},
            evidence_of(failed),
            **stopped(estimator),
        )
    return RULE.finding(
        Severity.ERROR,
        Confidence.HIGH if all(setting.in_force for setting in lists) else Confidence.MEDIUM,
        f"{listed([written(setting) for setting in lists])} leaves NCCL no algorithm and protocol for a collective, and"
        " the call fails",
        f"unset {listed([setting.name for setting in lists])}, or leave a choice that has all collectives (Ring with"
        " Simple has); NCCL_ALGO=^NVLS rules one out and keeps the rest",
        hosts_and_names(lists),
        (*proof(lists)[:2], *evidence_of(failed, 2)),
        **stopped(estimator),
    )


def _warning(leftover: _Leftover) -> Finding:
    setting = leftover.setting
    where = place(setting.machines, "the ranks that print it") if setting.in_force else "a script in the input"
    return RULE.finding(
        Severity.WARNING,
        Confidence.HIGH if setting.in_force else Confidence.MEDIUM,
        f"{written(setting)} ({where}) {leftover.does}",
        f"unset {setting.name} (job script, /etc/nccl.conf, ~/.nccl.conf, image) and measure again; if it works around"
        " a fault, mend that",
        hosts_and_names([setting]),
        proof([setting]),
        **leftover.numbers,
    )


def _information(found: list[_Leftover], profile: str, one_node: bool) -> Finding:
    said = [f"{written(one.setting)} {one.does}" for one in found]
    why = (
        f" (usual in a profile for {profile})" if profile
        else " (one node: a test?)" if one_node
        else ""
    )  # fmt: skip
    numbers = (
        found[0].numbers if len(found) == 1 else no_number("several settings, of which none is shown to cost much")
    )
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH if all(one.setting.in_force for one in found) else Confidence.MEDIUM,
        f"Settings that overrule NCCL or cost time{why}: {'; '.join(said[:MOST_SHOWN])}"
        + (f"; and {len(said) - MOST_SHOWN} more" if len(said) > MOST_SHOWN else ""),
        f"keep {listed([one.setting.name for one in found], MOST_SHOWN)} only where a measurement shows the gain",
        hosts_and_names([one.setting for one in found]),
        proof([one.setting for one in found]),
        **numbers,
    )


RULE = Rule(
    code="ENV005",
    name="debug-leftover",
    severity=Severity.WARNING,
    summary="A setting from a test or a work-around is still in force and costs speed",
    check=check,
    since="0.1.0",
)
