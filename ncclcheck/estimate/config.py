"""One fully specified job, as the model needs it."""

from __future__ import annotations

from dataclasses import dataclass

INTRA = ("nvlink", "pcie-switch", "pcie-cpu", "shm", "mixed")
NETWORKS = ("", "ib", "roce", "efa", "slingshot", "tcpx", "tcpxo", "other", "socket")
ALGORITHMS = ("", "ring", "tree", "nvls", "collnet", "pat")
PROTOCOLS = ("", "simple", "ll", "ll128")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv", "all_to_all")
REDIRECTS = ("", "acs", "vm")


class NotModelledError(ValueError):
    """The model has no number for this configuration; the text says why."""


@dataclass(frozen=True, slots=True)
class Config:
    """A candidate configuration. Rates *_gbit in Gb/s as sold.

    nodes, gpus_per_node: NCCL nodes (an NVL72 rack is one node) and GPUs of the communicator on each.
    gpu: class name of hardware.toml.
    intra: how GPUs of a node reach each other, by the slowest edge of the ring ("mixed": NVLink pairs joined through
        host memory).
    cpu: a kind of CPU of hardware.toml, which tells of traffic through host memory; "": unknown.
    network: what carries traffic between nodes; "" only with one node.
    nics, nic_gbit: NICs in use per node and the rate of the slowest. gdr: GPUDirect RDMA in use.
    nvls: is in-switch reduction available (it counts only over NVLink, where the GPU class has it).
    tcp_gbit: line rate of the socket interface, None: faster than one flow. tcp_tuned: several sockets and threads.
    redirect: peer traffic goes up to the root complex: "acs" (ACS redirect or translating IOMMU) or "vm" (a guest
        without a peer path).
    crossing_share: part of the traffic between nodes that changes rails and climbs to the spine (0 to 1);
        oversubscription: leaf to spine, 1 is none.
    sharp: in-network reduction is in use (CollNet, NVLS with SHARP).
    effect: factors of hardware.toml's [effects], names joined by "+"; "" none. "cpu" is one of cpu-staged and cpu-gdr.
    nvlinks, pcie_gen, pcie_width: None: as the GPU class has them. channels: None: no limit.
    algorithm, protocol: "" lets the model choose as NCCL does. collective: as nccl-tests names it.
    sharing: so many communicators of this shape, each with other GPUs of the nodes, use the network at the same time.
    """

    nodes: int
    gpus_per_node: int
    gpu: str
    intra: str = "nvlink"
    cpu: str = ""
    network: str = ""
    nics: int = 0
    nic_gbit: float = 0.0
    gdr: bool = True
    nvls: bool = True
    tcp_gbit: float | None = None
    tcp_tuned: bool = False
    redirect: str = ""
    crossing_share: float = 0.0
    oversubscription: float = 1.0
    sharp: bool = False
    effect: str = ""
    nvlinks: int | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    channels: int | None = None
    algorithm: str = ""
    protocol: str = ""
    collective: str = "all_reduce"
    sharing: int = 1

    def __post_init__(self) -> None:
        for value, known in (
            (self.intra, INTRA),
            (self.network, NETWORKS),
            (self.algorithm, ALGORITHMS),
            (self.protocol, PROTOCOLS),
            (self.collective, COLLECTIVES),
            (self.redirect, REDIRECTS),
        ):
            if value not in known:
                raise ValueError(f"{value!r} is not one of {known}")
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise ValueError("a job has at least one node and one GPU on it")
        if self.sharing < 1:
            raise ValueError("a communicator shares the network with itself at least")
        if not 0 <= self.crossing_share <= 1:
            raise ValueError("crossing_share is a share between 0 and 1")
        if not self.oversubscription >= 1:
            raise ValueError("oversubscription is at least 1")

    @property
    def effects(self) -> tuple[str, ...]:
        """The names in `effect`, and the factor of a protocol that is known only as one.

        "cpu" (NCCL's threads are far away or short of time) costs by what those threads have to do.
        """
        copies = self.network == "socket" or not self.gdr
        far = "cpu-staged" if copies else "cpu-gdr"
        named = tuple(far if name == "cpu" else name for name in filter(None, self.effect.split("+")))
        return (*named, "proto-ll128") if self.protocol == "ll128" else named

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus_per_node
