"""CollNet (SHARP) is asked for and not used.

## What it finds

`NCCL_COLLNET_ENABLE=1`, or an `NCCL_ALGO` that leaves nothing but CollNet algorithms, together with one of: `0
collnet channels` on the channel line of a communicator, NCCL's own words that CollNet cannot be initialized or has
too many GPUs per node, or that the communicator has fewer nodes than the threshold (`NCCL_COLLNET_NODE_THRESHOLD`,
2).

## Why it costs

With SHARP the switches add up what the nodes send, so data crosses the network once each way; the ring sends twice
2(n-1)/n. All_reduce then has up to about twice the bandwidth of the network, and less latency at many nodes. Without
it the job runs as if nothing had been asked: ring, tree or NVLSTree. On two nodes the tree already does as well.

## Example

    gpu-s1:4100:4166 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.
    gpu-s1:4100:4166 [0] NCCL INFO 16 coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels, ...

## How to fix

1. The plugin: `NET/Plugin: Loaded collnet plugin SHARP` must appear. It comes with HPC-X or nccl-rdma-sharp-plugins;
   its directory has to be in `LD_LIBRARY_PATH`, and NCCL_NET_PLUGIN must not be `none`.
2. The fabric: the aggregation manager runs beside the subnet manager (`sharp_hello`, `ibnetdiscover` shows aggregation
   nodes), and `sharpd` is there or built in. `SHARP_COLL_LOG_LEVEL=3` says why a tree is refused.
3. Limits: one communicator per GPU uses SHARP by default (`NCCL_SHARP_MAX_COMMS`), at most 8 GPUs per node up to 2.22,
   all_reduce of supported types only.

## When it is not a problem

Small communicators (splits, one node) have 0 collnet channels beside a world that has some. With NVLS on, NVLS and
SHARP together need a plugin that offers both.

## References

- NCCL user guide, Environment Variables: NCCL_COLLNET_ENABLE, NCCL_COLLNET_NODE_THRESHOLD
- NCCL sources: `src/transport/coll_net.cc`, `src/init.cc`
- NVIDIA SHARP documentation; nccl-rdma-sharp-plugins
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.collnet import collnet_channels
from ncclcheck.facts.facts import evidence_of, machines_of
from ncclcheck.facts.settings import Setting, set_to
from ncclcheck.facts.variables import choice
from ncclcheck.rules.common import compared, felt, is_on, listed, no_number
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity
from ncclcheck.rules.settings import hosts_and_names, proof, written

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.evidence import Evidence
    from ncclcheck.facts.facts import Facts
    from ncclcheck.rules.common import Numbers

_NEEDS_ENV = "the settings: NCCL_DEBUG=INFO with ENV in NCCL_DEBUG_SUBSYS prints them"
_NEEDS = "the line 'N coll channels, M collnet channels' (NCCL 2.20.3+) of a communicator on several nodes"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    asked = _asked(facts)
    if not asked:
        if not facts.visibility.env:
            yield NotEvaluated(_NEEDS_ENV)
        return
    channels = collnet_channels(facts)
    refused = [
        failure for failure in facts.failures("warn")
        if failure.fields.get("text", "").startswith(("Cannot initialize CollNet", "CollNet "))
    ]  # fmt: skip
    few = facts.notes("collnet_few_nodes")
    if any(channels.counts) or (facts.crossing.answer is Answer.NO and not refused and not few):
        return
    if refused:
        text = refused[0].fields["text"]
        yield _finding(asked, f"NCCL refuses: {text}", machines_of(refused), evidence_of(refused, 2), estimator)
    elif few:
        said = f"communicators have fewer nodes than the threshold of {few[0].value}"
        yield _finding(asked, said, machines_of(few), evidence_of(few, 2), estimator)
    elif channels.counts and facts.crossing.answer is Answer.YES:
        loaded = [seen.value for seen in facts.notes("collnet_plugin_loaded")]
        why = f"although the plugin {listed(loaded)} is loaded" if loaded else "and no collnet plugin is seen to load"
        yield _finding(asked, f"all communicators have 0 collnet channels, {why}", (), channels.none, estimator)
    else:
        yield NotEvaluated(_NEEDS)


def _asked(facts: Facts) -> list[Setting]:
    enabled = [one for one in set_to(facts, "NCCL_COLLNET_ENABLE") if is_on(one.value)]
    only = [one for one in set_to(facts, "NCCL_ALGO") if _nothing_but_collnet(facts, one)]
    return [one for one in (*enabled, *only) if one.in_force]


def _nothing_but_collnet(facts: Facts, setting: Setting) -> bool:
    taken = choice(setting.name, setting.value, facts.release).taken
    return bool(taken) and all(name.startswith("CollNet") for name in taken)


def _finding(
    asked: list[Setting], why: str, machines: tuple[str, ...], evidence: tuple[Evidence, ...], estimator: Estimator
) -> Finding:
    subject = hosts_and_names(asked)
    return RULE.finding(
        Severity.INFO,
        Confidence.HIGH,
        f"{listed([written(one) for one in asked])} asks for CollNet (SHARP) and it is not used: {why}",
        "load the plugin (NET/Plugin: Loaded collnet plugin SHARP must appear: HPC-X or nccl-rdma-sharp-plugins in"
        " LD_LIBRARY_PATH), check the aggregation manager with sharp_hello; or unset it",
        {**subject, "hosts": tuple(sorted({*subject["hosts"], *machines}))},
        (*proof(asked)[:2], *evidence[:2]),
        **_numbers(estimator),
    )


def _numbers(estimator: Estimator) -> Numbers:
    network = estimator.shape.network
    if network not in ("", "ib"):
        return no_number(f"SHARP is InfiniBand's, and this job's network is {network}")
    numbers = compared(estimator, {"network": "ib", "sharp": True}, {"network": "ib", "sharp": False})
    return felt(numbers, "on this job the model has SHARP no faster than what NCCL takes without it")


RULE = Rule(
    code="NET006",
    name="collnet-unavailable",
    severity=Severity.INFO,
    summary="CollNet (SHARP) is asked for and not used",
    check=check,
    since="0.1.0",
)
