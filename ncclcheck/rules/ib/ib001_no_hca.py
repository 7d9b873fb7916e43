"""NCCL found no InfiniBand or RoCE device where one is needed.

## What it finds

`NET/IB : No device found.`, or verbs that cannot be loaded (`Failed to open libibverbs.so[.1]`, a WARN until 2.10.3
and INFO from 2.11.4 on), in a job that spans several machines, or on one host while its peers list devices. It is an
error, and a warning where nothing says that the machines have RDMA (see NET001). With the number of machines unknown
it is a warning if RDMA was meant (`NCCL_IB_HCA`, `NCCL_IB_GID_INDEX` and the like set, a verbs failure) and information
otherwise: a plugin in the image, or a cloud's setting for its adapters, is there on single machines as well.

The line means that after NCCL_IB_HCA was applied no port was left that is active, with link layer InfiniBand or
Ethernet. It does not say why: no device in the container, driver or provider library missing, all ports down, or a
filter that matches nothing. With NCCL_IB_DISABLE=1 the search does not run and the line does not appear (IB003).

## Why it costs

Without a device NCCL uses sockets, in silence, on that process. If all hosts lack the device the job runs at TCP speed
(2 to 5 GB/s per node against 46 to 48.5 per 400 Gb/s rail, see NET001). If one host lacks it, networks differ within
one communicator and the job hangs or aborts at the first connection: every GPU of the job waits until somebody
looks, or until the watchdog fires (PyTorch: 600 s by default; 256 GPUs x 600 s are 43 GPU-hours).

## Example

    h200-01:71004:71066 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB bond0:10.71.0.1<0>
    h200-02:23310:23375 [0] NCCL INFO NET/IB : No device found.
    h200-02:23310:23375 [0] NCCL INFO Using network Socket

Only `h200-02` is named: its peer lists two devices.

## How to fix

On the host, then inside the container, as the user of the job:

    ibv_devices                       # empty: no driver, or /dev/infiniband not in the container
    ibv_devinfo | grep -E 'hca_id|state|link_layer'      # PORT_ACTIVE expected
    ls -l /dev/infiniband             # uverbsN readable and writable
    ldconfig -p | grep -E 'libibverbs|libmlx5'
    env | grep NCCL_IB_HCA            # ^ excludes, = is exact, otherwise each entry is a prefix

- Container: `--device=/dev/infiniband --ulimit memlock=-1`, Kubernetes `rdma/<resource>` of a device plugin, SR-IOV
  with the RDMA CNI when the pod has a network name space of its own.
- Image: `apt-get install libibverbs1 ibverbs-providers`; the provider must know the NIC (`libmlx5` of a release as
  new as the firmware).
- Ports down: `ibstat`; Polling is a cable or the peer, Initializing a missing subnet manager.
- Filter: remove NCCL_IB_HCA or correct it; a name that exists on the old cluster only matches nothing.
- Driver: `lsmod | grep mlx5_ib`, `modprobe mlx5_ib` after a kernel update without its OFED rebuild.

## When it is not a problem

One machine (`nNodes 1`) and one MNNVL rack need no HCA. Hosts with EFA, TCPX or an HPC-X plugin may print the line
for the internal transport while the plugin carries the traffic: `Using network` and the edges decide. Ranks that pin
one HCA each have one device in each list; lists are joined per host before they are compared.

## References

- NVIDIA/nccl issues 941, 952, 259, 1925, 799: causes in containers; 2428: mismatched HCAs become a silent hang;
  229: libibverbs missing
- NCCL sources: `src/transport/net_ib` (device search), `src/misc/ibvsymbols.cc`
- NCCL user guide, Environment Variables: NCCL_IB_HCA, NCCL_IB_DISABLE; Troubleshooting: networking issues
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.facts import evidence_of
from ncclcheck.facts.seen import Seen
from ncclcheck.rules.common import carried, compared, ib_disabled, listed, no_number, place, rdma_expected
from ncclcheck.rules.model import Confidence, Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts
    from ncclcheck.facts.seen import Failure

_FIX = (
    "on the host, then in the container: ibv_devinfo | grep -E 'hca_id|state'; env | grep NCCL_IB_HCA;"
    " docker run --device=/dev/infiniband --ulimit memlock=-1 (Kubernetes: rdma/<resource> of a device plugin)"
)
_FIX_LIBRARY = "in the image: apt-get install libibverbs1 ibverbs-providers; then ibv_devinfo must list the devices"
# Images bring these to single machines as well: a plugin beside NCCL, the settings of a cloud.
_COMES_WITH_AN_IMAGE = ("plugin ", "NCCL_IB_PCI_RELAXED_ORDERING=")
_NEEDS = "the lines 'NET/IB : Using ...' or 'NET/IB : No device found.' (NCCL_DEBUG=INFO with INIT and NET)"


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    if facts.crossing.answer is Answer.NO:
        return
    saying = _saying(facts)
    if saying:
        machines = _without_network(facts, saying)
        if machines is not None:
            yield _finding(facts, estimator, saying, machines)
    elif not (facts.nic_lists or ib_disabled(facts) or carried(facts)):
        yield NotEvaluated(_NEEDS)


def _saying(facts: Facts) -> list[Seen | Failure]:
    """The lines that say so: the search found nothing, or the library for the search could not be loaded."""
    return [*facts.notes("net_ib_no_device"), *facts.failures("ib_library_missing")]


def _without_network(facts: Facts, saying: list[Seen | Failure]) -> tuple[str, ...] | None:
    """Machines that say so and are left without a fast network; None: there are none.

    Lists are joined per machine first: a rank that pins its own device says nothing about its neighbours.
    """
    served = {*facts.nic_lists, *(machine for seen in carried(facts) for machine in seen.machines)}
    across = {m for one in facts.communicators if one.crossing.answer is not Answer.NO for m in one.machines}
    lacking = {machine for one in saying for machine in one.machines if machine not in served}
    if not any(one.machines for one in saying):  # records without a host
        return None if served or carried(facts) else ()
    return tuple(sorted(lacking & across if facts.communicators else lacking)) or None


def _finding(facts: Facts, estimator: Estimator, saying: list[Seen | Failure], machines: tuple[str, ...]) -> Finding:
    proof = [one for one in saying if not machines or {*one.machines} & {*machines}]
    library = not any(isinstance(one, Seen) for one in proof)
    what = "NCCL could not load libibverbs" if library else "NCCL found no InfiniBand or RoCE device"
    severity, confidence, why = _weight(facts, estimator, machines)
    crosses = facts.crossing.answer is Answer.YES
    return RULE.finding(
        severity,
        confidence,
        f"{what} on {place(machines, 'machines that the input does not name')}: {why}",
        _FIX_LIBRARY if library else _FIX,
        {"hosts": machines},
        evidence_of(proof),
        **(
            compared(estimator, {"network": "rdma"}, {"network": "socket"})
            if crosses
            else no_number("the number of machines is not in the input: there may be no traffic between machines")
        ),
    )


def _weight(facts: Facts, estimator: Estimator, machines: tuple[str, ...]) -> tuple[Severity, Confidence, str]:
    """Severity, confidence and the reason for them."""
    peers = [machine for machine in facts.nic_lists if machine not in machines]
    sign = rdma_expected(facts, estimator)
    if facts.crossing.answer is Answer.UNKNOWN:
        meant = [sign.value for sign in facts.rdma_signs if not sign.value.startswith(_COMES_WITH_AN_IMAGE)]
        if meant and not ib_disabled(facts):
            why = f"RDMA was meant ({meant[0]}), but the number of machines is not in the input"
            return Severity.WARNING, Confidence.MEDIUM, why
        return Severity.INFO, Confidence.LOW, "harmless unless data crosses machines, and the input does not tell"
    confidence = Confidence.HIGH if facts.crossing.confidence == "high" else Confidence.MEDIUM
    if peers:
        has = listed([nic.name for nic in facts.nic_lists[peers[0]]])
        return Severity.ERROR, confidence, f"its peers list devices ({peers[0]}: {has}), and networks must not be mixed"
    if sign:
        return Severity.ERROR, confidence, f"NCCL falls back to TCP between machines (RDMA is expected: {sign})"
    why = "NCCL uses TCP between machines, and nothing says that they have RDMA"
    return Severity.WARNING, Confidence.MEDIUM, why


RULE = Rule(
    code="IB001",
    name="no-hca",
    severity=Severity.ERROR,
    summary="NCCL found no InfiniBand or RoCE device where one is needed",
    check=check,
    since="0.1.0",
    caused_by=("IB002", "HST003", "NET004"),
)
