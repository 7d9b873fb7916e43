"""NCCL found no InfiniBand or RoCE device where one is needed.

## What it finds

`NET/IB : No device found.`, or verbs that cannot be loaded (`Failed to open libibverbs.so[.1]`, a WARN until 2.10.3
and INFO from 2.11.4 on), in a job that spans several machines, or on one host while its peers list devices. With the
number of machines unknown the finding is a warning if RDMA was meant (`NCCL_IB_HCA`, `NCCL_IB_GID_INDEX` and the
like set, a plugin configured, a verbs failure) and information otherwise.

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

from ncclcheck.rules.model import Finding, NotEvaluated, Rule, Severity

if TYPE_CHECKING:
    from ncclcheck.estimate.estimator import Estimator
    from ncclcheck.facts.facts import Facts


def check(facts: Facts, estimator: Estimator) -> Iterator[Finding | NotEvaluated]:
    raise NotImplementedError


RULE = Rule(
    code="IB001",
    name="no-hca",
    severity=Severity.ERROR,
    summary="NCCL found no InfiniBand or RoCE device where one is needed",
    check=check,
    since="0.1.0",
)
