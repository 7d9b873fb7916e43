"""The plugin that this platform's network needs is missing, too old, or fails.

## What it finds

NCCL knows InfiniBand and sockets; EFA, GPUDirect-TCPX, TCPXO (FasTrak), FastSocket and others come as a plugin,
`libnccl-net*.so`. The rule fires where one is wanted and does not work:
- the OFI plugin finds no RDMA provider: `NET/OFI Only EFA provider is supported`, `Couldn't find any optimal
  provider`, `No eligible providers were found`, `fi_getinfo() call failed: No data available`;
- it fails later: `aws-ofi-nccl initialization failed`, `Couldn't open a fabric access domain`, `Unable to register
  memory`; or NCCL says `Failed to initialize NET plugin ...`;
- the library is there and cannot be loaded: `libfabric.so.1: cannot open shared object file`, `undefined symbol`;
- its interface is too old for this NCCL: `ncclNetPlugin symbols v4 and lower are not supported` and nothing loaded,
  `External network plugin ... is unsupported`;
- `NCCL_NET_PLUGIN` or `NCCL_NET` names one that is not found: `Error: network FasTrak not found.`;
- settings that only the plugin reads (`NCCL_FASTRAK_*`, `NCCL_GPUDIRECTTCPX_*`, `FI_EFA_*`) are there, and sockets
  carry the traffic;
- TCPX reports control timeouts again and again: its receive daemon does not answer.

## Why it costs

NCCL goes on with sockets: about 3 GB/s for a node of eight GPUs, where EFA on p5 carries hundreds and TCPX on
a3-highgpu 80. A network that is named and not found, and a plugin that fails after it was chosen, stop the job.

## Example

    ip-10-0-7-31:302:386 [0] NCCL INFO NET/OFI No eligible providers were found
    ip-10-0-7-31:302:386 [0] NCCL INFO Failed to initialize NET plugin Libfabric
    ip-10-0-7-31:302:386 [0] NCCL INFO Using network Socket

## How to fix

1. EFA: `fi_info -p efa -t FI_EP_RDM` on the host and in the container must list a domain per adapter. Empty on the
   host: the instance was started without EFA interfaces, or the driver is missing (`modinfo efa`). Empty in the
   container only: `--device=/dev/infiniband` (Kubernetes: `vpc.amazonaws.com/efa: <n>`), and libfabric of the EFA
   installer first in `LD_LIBRARY_PATH` (`/opt/amazon/efa/lib`).
2. `ldd $(ldconfig -p | grep -o '/.*libnccl-net.*' | head -1)`: nothing may be "not found".
3. Too old: install the plugin's release that fits (aws-ofi-nccl, HPC-X, Google's image), or keep the NCCL it was
   built for. NCCL 2.19 and newer no longer take interface v4, 2.26 and newer no longer v5.
4. GCP: mount the plugin's directory (`/home/kubernetes/bin/nvidia/lib64`), put it first in `LD_LIBRARY_PATH`, source
   the `nccl-env-profile.sh` that comes with it, and see that the receive daemon (`tcpgpudmarxd`) runs in the pod.
5. `Using network ...` must then name the plugin.

## When it is not a problem

`No plugin found` on a plain InfiniBand or Ethernet cluster. `Failed to find ncclNetPlugin_v8 symbol` followed by
`Loaded net plugin`: NCCL asks for the newest interface first. `ncclCollNetPlugin` symbols (SHARP). Tuner and profiler
plugins that are not found. One machine.

## References

- aws/aws-ofi-nccl issues 24, 44, 67, 715, 801, 803, 889, 1020; aws/deep-learning-containers issue 2675; NVIDIA/nccl
  issues 162, 229, 259; google/nccl-plugin-gpudirecttcpx issue 1
- NCCL sources: `src/plugin/net.cc`, `src/plugin/plugin_open.cc`
- NCCL user guide, Environment Variables: NCCL_NET, NCCL_NET_PLUGIN
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.plugins import control_timeouts, without_provider
from ncclcheck.facts.seen import Failure, Seen
from ncclcheck.rules.common import Numbers, compared, no_number, place, rides_on_tcp, stopped
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts

_Item = TypeVar("_Item", Seen, Failure)

_INTERNAL = frozenset({"IB", "Socket"})
_OFI_INIT = re.compile(r"initialization failed|Failing initialization|Failed to initialize|Initializing plugin failed")
_OFI_FAILS = re.compile(
    r"Couldn't (?:open|enable|bind|create|register)|[Cc]reating new endpoint .*failed|Disabling shared memory failed"
    r"|Unable to register memory"
)
# The loader does not find the plugin itself. Anything else that it says is of a plugin that is there.
# A name alone, or with the beginning of the reason, is a line that was cut.
_NOT_THERE = re.compile(r"^(?:\S*/)?(?:lib)?nccl\S*(?:: cannot open.*)?$|cannot open .* : when loading")
# Settings that only a plugin reads.
_MEANT = (
    ("NCCL_FASTRAK_", "FasTrak"), ("NCCL_GPUDIRECTTCPX_", "GPUDirect-TCPX"), ("FI_EFA_", "EFA"), ("OFI_NCCL_", "EFA"),
)  # fmt: skip
# The estimate's name for what the plugin would carry: part of a name, kind of network.
_CARRIES = (("fastrak", "tcpxo"), ("tcpx", "tcpx"), ("efa", "efa"), ("ofi", "efa"), ("fabric", "efa"))
_FIX_EFA = (
    "fi_info -p efa -t FI_EP_RDM must list a domain per adapter, on the host and in the container: EFA interfaces on"
    " the instance, the efa driver, --device=/dev/infiniband (Kubernetes: vpc.amazonaws.com/efa), its libfabric"
)
_FIX_PLUGIN = (
    "the plugin's directory first in LD_LIBRARY_PATH of all ranks (ldconfig -p | grep libnccl-net; ldd on it may not"
    " say 'not found'); 'Using network' must then name it"
)
_FIX_OLD = "install the release of the plugin that fits this NCCL, or the NCCL that the plugin was built for"
_FIX_DAEMON = (
    "see that the plugin's receive daemon runs on every machine and that its socket directory is mounted; update plugin"
    " and daemon together"
)
_NEEDS_LINES = "the line 'Using network ...' (NCCL_DEBUG=INFO)"
_NEEDS_SIZE = (
    "{}; the line 'comm ... nRanks N nNodes M' (NCCL 2.20.3+) or channel lines would tell whether there are several"
    " machines, between which it matters"
)


class _Fault(NamedTuple):
    """what: clause whose place of machines is to be filled in. plugin: what should have carried the traffic.
    stops: the job cannot go on. certain: it is a fault even where the number of machines is not known. doubtful: it may
    pass by itself.
    """

    what: str
    fix: str
    proof: Sequence[Seen | Failure]
    plugin: str
    stops: bool = False
    certain: bool = True
    doubtful: bool = False


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    fault = next((found for search in _SEARCHES if (found := search(facts))), None)
    if fault is None:
        if not (facts.networks or facts.net_edges()):
            yield NotEvaluated(_NEEDS_LINES)
    elif facts.crossing.answer is Answer.UNKNOWN and not fault.certain:
        yield NotEvaluated(_NEEDS_SIZE.format(_sentence(fault)))
    else:
        yield _finding(facts, estimator, fault)


# ------------------------------------------------------------------------------------------------ what may be wrong


def _no_provider(facts: Facts) -> _Fault | None:
    messages = without_provider(facts)
    found = _unserved(facts, [*messages, *facts.notes("efa_list_empty")] if messages else [])
    if not found:
        return None
    return _Fault("the OFI plugin finds no EFA provider on {}", _FIX_EFA, found, "EFA")


def _ofi_fails(facts: Facts) -> _Fault | None:
    """The plugin fails at init, and NCCL goes on without it; or at work, and the job stops."""
    warnings = [one for one in facts.failures("net_ofi_message") if one.level == "WARN"]
    at_work = [one for one in warnings if _OFI_FAILS.search(one.fields.get("text", ""))]
    if at_work:
        what = f"the OFI plugin fails on {{}} ({_short(at_work[0].fields['text'])})"
        return _Fault(what, _FIX_EFA, at_work, "EFA", stops=bool(_served(facts)))
    at_init = _unserved(facts, [one for one in warnings if _OFI_INIT.search(one.fields.get("text", ""))])
    if at_init:
        return _Fault("the OFI plugin does not initialize on {}", _FIX_EFA, at_init, "EFA")
    return None


def _init_failed(facts: Facts) -> _Fault | None:
    plugins = [seen for seen in facts.notes("net_plugin_init_failed") if seen.value not in _INTERNAL]
    found = _unserved(facts, plugins)
    if not found:
        return None
    return _Fault(f"the plugin {found[0].value} does not initialize on {{}}", _FIX_PLUGIN, found, found[0].value)


def _cannot_load(facts: Facts) -> _Fault | None:
    errors = [seen for seen in facts.notes("net_plugin_load_failed") if not _NOT_THERE.search(seen.value)]
    found = _unserved(facts, errors)
    if not found:
        return None
    return _Fault(
        f"a network plugin is there and cannot be loaded on {{}} ({_short(found[0].value)})",
        _FIX_PLUGIN,
        found,
        found[0].value,
    )


def _too_old(facts: Facts) -> _Fault | None:
    """NCCL has opened a library and found none of the interfaces that it knows."""
    probes = [
        seen
        for seen in facts.notes("net_plugin_symbol_missing")
        # the last probe has no version in most releases; the others tell once the network is chosen
        if seen.value == "ncclNetPlugin" or (seen.value.startswith("ncclNetPlugin_") and facts.networks)
    ]
    loaded = [*facts.notes("net_plugin_loaded"), *facts.notes("net_plugin_p2p")]
    refused = _on_others([*facts.notes("net_plugin_unsupported"), *probes], frozenset(machines_of(loaded)))
    found = _unserved(facts, refused)
    if not found or (loaded and not machines_of(loaded)):
        return None
    elsewhere = _on_others(loaded, frozenset(machines_of(found)))
    name = elsewhere[0].value if elsewhere else ""
    what = f"{name}, which {place(elsewhere[0].machines, 'others')} loads," if name else "the network plugin"
    return _Fault(f"{what} offers no interface that NCCL on {{}} takes", _FIX_OLD, found, name, certain=bool(name))


def _named_and_missing(facts: Facts) -> _Fault | None:
    named = [seen for seen in facts.settings("NCCL_NET") if seen.value not in _INTERNAL]
    errors = [one for one in facts.failures("network_not_found") if one.fields.get("text", "") not in _INTERNAL]
    absent = [one for one in errors if "text" in one.fields or named]
    if absent:
        name = absent[0].fields.get("text") or named[0].value
        what = f"NCCL_NET={name} names a network that no plugin offers on {{}}"
        return _Fault(what, _FIX_PLUGIN, [*absent, *named], name, stops=True)
    asked = [seen for seen in (*facts.settings("NCCL_NET_PLUGIN"), *facts.notes("net_plugin_env")) if _names(seen)]
    missing = _unserved(facts, [seen for seen in facts.notes("net_plugin_not_found") if asked])
    if missing:
        what = f"NCCL_NET_PLUGIN={asked[0].value} is not found on {{}}"
        return _Fault(what, _FIX_PLUGIN, [*missing, *asked], asked[0].value, certain=False)
    return None


def _names(seen: Seen) -> bool:
    return seen.value.lower() not in ("none", "libnccl-net.so", "")


def _meant_and_unused(facts: Facts) -> _Fault | None:
    for prefix, plugin in _MEANT:
        meant = [seen for _, seen in facts.settings_like(prefix)]
        sockets = [seen for seen in facts.networks if seen.value == "Socket"]
        if meant and sockets and not _served(facts):
            name = facts.settings_like(prefix)[0][0]
            what = f"{name} asks for {plugin}, which is not in use on {{}}"
            return _Fault(what, _FIX_PLUGIN, [*sockets, *meant], plugin, certain=False)
    return None


def _timeouts(facts: Facts) -> _Fault | None:
    found = control_timeouts(facts)
    if not found:
        return None
    what = f"GPUDirect-TCPX waits in vain for control messages on {{}} ({found[0].count} timeouts of 10 s)"
    return _Fault(what, _FIX_DAEMON, found, "GPUDirect-TCPX", stops=True, doubtful=True)


_SEARCHES = (
    _no_provider, _ofi_fails, _named_and_missing, _cannot_load, _init_failed, _too_old, _timeouts, _meant_and_unused,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the finding


def _served(facts: Facts) -> frozenset[str]:
    """Machines with a network that is not NCCL's sockets; "" for records without a host."""
    carrying = [seen for seen in facts.networks if "FastSocket" in seen.value or not rides_on_tcp(facts, seen.value)]
    return frozenset(machines_of(carrying)) | ({""} if any(not seen.machines for seen in carrying) else set())


def _unserved(facts: Facts, items: Sequence[_Item]) -> list[_Item]:
    return _on_others(items, _served(facts))


def _on_others(items: Sequence[_Item], machines: frozenset[str]) -> list[_Item]:
    """Those that are seen on other machines as well."""
    return [item for item in items if _is_elsewhere(item, machines)]


def _is_elsewhere(item: Seen | Failure, machines: frozenset[str]) -> bool:
    return not machines.issuperset(item.machines or ("",))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _sentence(fault: _Fault) -> str:
    sentence = fault.what.format(place(machines_of(fault.proof), "a machine"))
    return sentence[0].upper() + sentence[1:]


def _finding(facts: Facts, estimator: Estimator, fault: _Fault) -> Finding:
    crosses = facts.crossing.answer is Answer.YES
    sure = crosses and facts.crossing.confidence == "high" and not fault.doubtful
    takes = "TCP sockets carry" if facts.networks else "NCCL takes TCP sockets for"
    effect = f": {takes} the traffic between machines" if crosses and not fault.stops else ""
    return RULE.finding(
        Severity.ERROR if crosses or fault.stops else Severity.WARNING,
        Confidence.HIGH if sure else Confidence.MEDIUM,
        _sentence(fault) + effect,
        fault.fix,
        {"hosts": machines_of(fault.proof)},
        evidence_of(fault.proof),
        **_numbers(estimator, fault, crosses),
    )


def _numbers(estimator: Estimator, fault: _Fault, crosses: bool) -> Numbers:
    if fault.stops:
        return stopped(estimator)
    if not crosses:
        return no_number("the number of machines is not in the input: there may be no traffic between machines")
    name = fault.plugin.lower()
    if "fastsocket" in name:
        return compared(estimator, {"network": "socket", "tcp_tuned": True}, {"network": "socket"})
    carried = next((kind for part, kind in _CARRIES if part in name), "rdma")
    return compared(estimator, {"network": carried}, {"network": "socket"})


RULE = Rule(
    code="NET004",
    name="plugin-missing",
    severity=Severity.ERROR,
    summary="The plugin that this platform's network needs is missing, too old, or fails",
    check=check,
    since="0.1.0",
    caused_by=("HST002",),
)
