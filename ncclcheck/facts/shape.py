"""The job's shape: what the facts prove about the hardware that the estimate needs."""

from __future__ import annotations

from dataclasses import dataclass

from ncclcheck.facts.answer import Answer
from ncclcheck.facts.measured import Measured


@dataclass(frozen=True, slots=True)
class JobShape:
    """Inputs of the estimate, each as far as the input proves it.

    nodes: NCCL nodes of the largest communicator (a node is a P2P/SHM or NVLink domain); None: unknown.
    gpus_per_node, nranks: of that communicator; None: unknown.
    gpu_names: device names printed in the input ("NVIDIA H100 80GB HBM3"); empty: none.
    nvlink_total_gbps: NVLink total per GPU as NCCL's graph dump prints it (links x constant of the release), or None.
    nvlinks: links that a GPU's matrix row adds up to, and the largest bond in it (equal in a pair), or empty.
    nvlink: do GPUs of one node talk over NVLink. nvls: is NVLS in use or available. c2c: Grace-class CPU.
    intra: transports seen between GPUs of one node: subset of {"P2P", "SHM", "NET"}.
    intra_path: worst path class between GPUs of one node if known ("NVL", "PIX", "PXB", "PHB", "NODE", "SYS"), else "".
    nics_per_node: net devices in use per node (listed, where use is not shown); None: unknown.
    nic_gbit: rates of those devices in Gb/s that the input proves; empty: unknown.
    network: "ib", "roce", "efa", "slingshot", "tcpx", "tcpxo", "socket", "other" or "" (unknown / none).
    rdma_seen: any sign of RDMA hardware or settings in the job, even where sockets carry the traffic.
    gdr: is GPUDirect RDMA in use on edges between machines.
    nchannels: collective channels; None: unknown.
    release: (major, minor, patch) or None. cuda: lowest (major, minor) that NCCL was built with, or None.
    virtual: does the job run in virtual machines.
    measured: what nccl-tests measured in this job's situation.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    nranks: int | None = None
    gpu_names: tuple[str, ...] = ()
    nvlink_total_gbps: float | None = None
    nvlinks: tuple[int, ...] = ()
    nvlink: Answer = Answer.UNKNOWN
    nvls: Answer = Answer.UNKNOWN
    c2c: Answer = Answer.UNKNOWN
    intra: frozenset[str] = frozenset()
    intra_path: str = ""
    nics_per_node: int | None = None
    nic_gbit: tuple[float, ...] = ()
    network: str = ""
    rdma_seen: bool = False
    gdr: Answer = Answer.UNKNOWN
    nchannels: int | None = None
    release: tuple[int, int, int] | None = None
    cuda: tuple[int, int] | None = None
    virtual: Answer = Answer.UNKNOWN
    measured: Measured | None = None
