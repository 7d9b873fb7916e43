"""A communicator has fewer channels than net devices, or its ranks differ in the number of channels.

## What it finds

`2 coll channels, 0 collnet channels, ...` (2.7.3 and newer; before that `Channel 00/02 :` of rank 0) is the number of
rings and trees that collectives use. Each channel leaves a machine through one net device, so with fewer channels than
devices some of them idle. The rule looks at communicators that use RDMA between machines and fires when the channels
are at most half of the devices, or of the GPUs on a machine where these are fewer: a GPU uses the device beside it. A
smaller gap is left open, because some devices may be for storage. Merged devices (`mlx5_0+mlx5_1`), the ports of one
card and a group of EFA ports count once; of cards of several link layers or rates only the most common kind counts.

It also fires when ranks of one communicator print different numbers.

## Why it costs

At most nChannels devices carry data: B_node = nChannels x rate. Two channels on four 100 Gb/s HCAs move 25 of 50 GB/s.

## Example

    opa-21:7711:7790 [0] NCCL INFO NET/IB : Using [0]hfi1_0:1/IB [1]hfi1_1:1/IB [2]hfi1_2:1/IB [3]hfi1_3:1/IB
    opa-21:7711:7790 [0] NCCL INFO 2 coll channels, 2 p2p channels, 1 p2p channels per peer

## How to fix

- Look for a limit first: NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS, `maxCTAs` in the communicator's config (PyTorch:
  `pg_options.config.max_ctas`), NCCL_GRAPH_FILE; unset it.
- NCCL's graph search saw something slow: print it (NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH) and look for a GPU
  or NIC behind a slow link, a virtual machine without topology file, or NICs far from the GPUs.
- `NCCL_MIN_NCHANNELS=<number of devices>` forces the number; compare busbw before and after. A newer NCCL may find more
  channels on the same machine.
- Ranks that differ: the same environment, NCCL release and topology file on all hosts.

## When it is not a problem

One GPU per machine in the communicator: it uses the NIC beside its GPU. Fewer GPUs than devices. PCIe machines whose
GPUs exchange data through host memory: the ring inside is the limit (information). Sockets (NET005). NVL72 racks, where
NCCL's own maximum of channels is below the number of NICs.

## References

- NCCL sources: `src/graph/search.cc` (ncclTopoCompute), `src/graph/connect.cc` (copies of channels, limits)
- NCCL user guide, Environment Variables: NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_MIN_CTAS, NCCL_MAX_CTAS
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts import networks
from ncclcheck.facts.answer import Answer
from ncclcheck.facts.channels import Channels, channel_counts
from ncclcheck.rules.common import compared, counted, listed, no_number, place
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Communicator
    from ncclcheck.rules.common import Numbers

_FIX = (
    "look for a limit (NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS, maxCTAs in the communicator's config, NCCL_GRAPH_FILE), then"
    " at NCCL's graph (NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH); NCCL_MIN_NCHANNELS={} shows what the devices can do"
)
# Settings that bind the number of channels.
_LIMITS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_GRAPH_FILE")
_FIX_DIFFER = "the same environment, NCCL release and topology file on all hosts: compare NCCL_*CHANNELS and NCCL_*CTAS"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    if facts.crossing.answer is not Answer.YES:
        yield NotEvaluated("'comm ... nNodes' or channel lines: whether the job sends data between machines")
        return
    communicators = {c.id: c for c in facts.communicators}
    counts = [one for one in channel_counts(facts) if _crosses(communicators[one.cid])]
    differ = [one for one in counts if len(one.counts) > 1]
    few = [one for one in counts if one.counts[0] < needed(one) and _over_rdma(communicators[one.cid], facts)]
    clear = [one for one in few if 2 * one.counts[0] <= needed(one)]
    if differ:
        yield _differing(differ[0])
    if clear:
        yield _too_few(clear[0], len(clear), facts, estimator)
    elif few:
        yield NotEvaluated(
            f"`nvidia-smi topo -m`: {few[0].counts[0]} channels for {few[0].devices} net devices, of which some may be"
            " storage or front-end"
        )
    elif not counts:
        yield NotEvaluated("'n coll channels' lines (INFO with INIT), or rank 0's 'Channel 00/n :' lines")
    elif not any(one.devices for one in counts) and not _on_tcp(facts):
        yield NotEvaluated("the list of net devices (`NET/IB : Using` or `NIC group` lines)")


def needed(one: Channels) -> int:
    """Channels that it takes to use every device: a GPU alone uses the one beside it."""
    return min(one.devices, one.gpus) if one.gpus > 1 else 0


def _crosses(communicator: Communicator) -> bool:
    return communicator.crossing.answer is Answer.YES and not communicator.mnnvl


def _over_rdma(communicator: Communicator, facts: Facts) -> bool:
    names = communicator.networks or tuple(seen.value for seen in facts.networks)
    return bool(names) and all(networks.kind(name) in networks.RDMA for name in names)


def _on_tcp(facts: Facts) -> bool:
    return {networks.kind(seen.value) for seen in facts.networks} == {"socket"}


def _too_few(one: Channels, alike: int, facts: Facts, estimator: Estimator) -> Finding:
    channels = one.counts[0]
    through_memory = any(group.scope == "inside" and group.transport == "SHM" for group in facts.edges)
    limited = through_memory or facts.nvlink is Answer.NO
    others = f" ({counted(alike, 'communicator')} like it)" if alike > 1 else ""
    where = f"each of {len(one.machines)} machines" if len(one.machines) > 1 else place(one.machines, "each machine")
    message = (
        f"{counted(channels, 'channel')} for {one.devices} net devices on {where}{others}: at most {channels} of them"
        " carry traffic"
    )
    return _finding(
        message + ("; the GPUs' way over PCIe may be the limit" if limited else ""),
        one,
        _FIX.format(one.devices),
        compared(estimator, {"nics": one.devices}, {"nics": one.devices, "channels": channels}),
        Severity.INFO if limited else Severity.WARNING,
        ("ENV005",) if any(facts.settings(name) for name in _LIMITS) else (),
    )


def _differing(one: Channels) -> Finding:
    return _finding(
        f"Ranks of one communicator have different numbers of channels: {listed([str(n) for n in one.counts], 6)}",
        one,
        _FIX_DIFFER,
        no_number("the model takes one number of channels for all ranks"),
        Severity.WARNING,
    )


def _finding(
    message: str, one: Channels, fix: str, numbers: Numbers, severity: Severity, causes: tuple[str, ...] = ()
) -> Finding:
    return RULE.finding(
        severity,
        Confidence.MEDIUM,
        message,
        fix,
        {"hosts": one.machines},
        one.evidence,
        causes=causes,
        **numbers,
    )


RULE = Rule(
    code="TOP005",
    name="few-channels",
    severity=Severity.WARNING,
    summary="A communicator has fewer channels than net devices, or its ranks differ in the number of channels",
    check=check,
    since="0.1.0",
)
