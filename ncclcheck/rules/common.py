"""What several rules share: the numbers of a finding, words for lists and counts, signs of TCP and of RDMA."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from ncclcheck.facts import networks

if TYPE_CHECKING:
    from ncclcheck.estimate.estimates import Cost, Estimate
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Seen

STOPS = "the job stops: there is no bandwidth to compare"

_TCP_PROVIDER = re.compile(r"(?:tcp|sockets)\b", re.I)
_UCX_WITHOUT_RDMA = frozenset(
    ("tcp", "self", "sm", "shm", "mm", "posix", "sysv", "cma", "knem", "xpmem", "cuda", "cuda_copy", "cuda_ipc")
)
# V100 (6 links) is sold in cubes without switches as well; more links than that go to NVSwitches.
_NVSWITCH_LINKS = 8


class Numbers(TypedDict):
    """The fields of a `Finding` that hold its price: an estimate, or why there is none."""

    estimate: Estimate | None
    cost: Cost | None
    no_estimate_because: str | None


def compared(estimator: Estimator, healthy: Mapping[str, object], actual: Mapping[str, object]) -> Numbers:
    """The job with the change of a rule undone against the job as it is."""
    estimate = estimator.compare(healthy, actual)
    if estimate is None:
        return no_number(estimator.why_not or "the model has no number for this job")
    return Numbers(estimate=estimate, cost=estimator.cost_of(estimate), no_estimate_because=None)


def stopped(estimator: Estimator) -> Numbers:
    """A job that stands still costs GPU-hours until somebody looks."""
    return Numbers(estimate=None, cost=estimator.stops(), no_estimate_because=STOPS)


def stood(estimator: Estimator, seconds: float) -> Numbers:
    """A job that stood still for a known time."""
    return Numbers(estimate=None, cost=estimator.stood(seconds), no_estimate_because=STOPS)


def no_number(because: str) -> Numbers:
    return Numbers(estimate=None, cost=None, no_estimate_because=because)


# A job over several such machines, where the input tells of one.
SEVERAL_NODES: Mapping[str, object] = {"nodes": 2, "network": "rdma"}
OTHER_LIMIT = "by the model another limit binds first (NVLink or the network)"


def of_a_job(facts: Facts) -> dict[str, object]:
    """What to put on a job for the price of a part that serves the network: nothing, or a second node where the input
    tells of machines alone."""
    return {} if facts.communicators or facts.edges else dict(SEVERAL_NODES)


def felt(numbers: Numbers, because: str) -> Numbers:
    """The same, or `because` where the model sees another limit bind on both sides."""
    estimate = numbers["estimate"]
    return no_number(because) if estimate is not None and estimate.slowdown.expected < 1.01 else numbers


def counted(number: int, thing: str, things: str = "") -> str:
    """`1 machine`, `2 machines`; `things` where the plural is not made with an s."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b, c and 5 more`."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def place(machines: Sequence[str], unnamed: str) -> str:
    """`node3`, `4 machines`, or `unnamed` where the records have no host."""
    if not machines:
        return unnamed
    return machines[0] if len(machines) == 1 else counted(len(machines), "machine")


def rides_on_tcp(facts: Facts, network: str) -> bool:
    """Is this network TCP, by its own name or underneath: libfabric's provider `tcp`, UCX without an RDMA transport?"""
    kind = networks.kind(network)
    if kind == "efa":
        providers = [seen.value for seen in facts.notes("net_ofi_provider")]
        return bool(providers) and all(_TCP_PROVIDER.match(provider) for provider in providers)
    if network.upper().startswith("UCX"):
        choices = [set(seen.value.split(",")) for seen in facts.settings("UCX_TLS")]
        return bool(choices) and all("tcp" in choice and choice <= _UCX_WITHOUT_RDMA for choice in choices)
    return kind == "socket"


def tcp_networks(facts: Facts) -> tuple[Seen, ...]:
    """The networks in use that are TCP."""
    return tuple(seen for seen in facts.networks if rides_on_tcp(facts, seen.value))


def carried(facts: Facts) -> tuple[Seen, ...]:
    """Networks of plugins and of devices that were found: beside a plugin that works the search does not matter."""
    plugin = "FastSocket"  # TCP, but not for want of a device
    return tuple(seen for seen in facts.networks if plugin in seen.value or not rides_on_tcp(facts, seen.value))


def ib_disabled(facts: Facts) -> tuple[Seen, ...]:
    """NCCL_IB_DISABLE where it is in force: 0 is printed in the same words and disables nothing."""
    return tuple(seen for seen in facts.settings("NCCL_IB_DISABLE") if is_on(seen.value))


def goes_another_way(facts: Facts) -> bool:
    """Is the network between machines known, and neither InfiniBand, nor RoCE, nor TCP: that of a cloud?"""
    kinds = {networks.kind(seen.value) for seen in facts.networks}
    return bool(kinds) and not kinds & {"ib", "socket"}


def is_on(value: str) -> bool:
    """A numeric switch as NCCL reads it: any number but 0."""
    try:
        return int(value.strip().rstrip("."), 0) != 0
    except ValueError:
        return False  # NCCL falls back to the default


def nvswitch_class(facts: Facts, estimator: Estimator) -> bool:
    """Are the GPUs of a kind that is sold with a fast fabric: baseboards with NVSwitch, HGX and up?"""
    if any(seen.value == "true" for seen in facts.notes("nvls_support")):
        return True
    shape, table = estimator.shape, estimator.hardware
    classes = [name for printed in facts.gpu_names for name in table.classes_of_name(printed)]
    if not classes and shape.nvlink_total_gbps is not None:
        classes = list(table.classes_of_total(shape.nvlink_total_gbps, shape.release))
    gpus = [table.gpus[name] for name in classes]
    return bool(gpus) and all(gpu.nvlink and not gpu.bridged and gpu.nvlinks >= _NVSWITCH_LINKS for gpu in gpus)


def rdma_expected(facts: Facts, estimator: Estimator) -> str:
    """What says that RDMA was there to be used, in words; "" where nothing does."""
    if facts.rdma_signs:
        return facts.rdma_signs[0].value
    return "NVSwitch-class GPUs" if nvswitch_class(facts, estimator) else ""
