"""What a synthetic log looks like: one frozen `Shape`, checked and completed by `resolve`."""

from __future__ import annotations

from dataclasses import dataclass, replace

Release = tuple[int, int, int]

FABRICS = ("ib", "roce", "efa", "fastrak", "tcpx", "socket", "mnnvl")
GOOGLE = ("fastrak", "tcpx")
GPU_KINDS = ("nvlink", "pcie", "shm")
LAUNCHERS = ("none", "mpirun", "srun", "torchrun", "pdsh", "kubectl")
FAULTS = (
    "socket_fallback",
    "ib_disabled",
    "gdr_off",
    "non_rail",
    "p2p_disabled",
    "p2p_pair",
    "shm_small",
    "connect",
    "duplicate_gpu",
    "cuda",
    "missing_ranks",
)
STOPPING_FAULTS = frozenset({"shm_small", "connect", "duplicate_gpu", "missing_ranks", "cuda"})
NETWORK_FAULTS = frozenset({"socket_fallback", "ib_disabled", "gdr_off", "non_rail"})
RELEASES = ("2.7.8", "2.10.3", "2.14.3", "2.18.3", "2.20.5", "2.22.3", "2.26.2", "2.28.9", "2.30.7")
OLDEST: Release = (2, 7, 3)
NEWEST: Release = (2, 30, 7)
MAX_CHANNELS = 32


class ShapeError(ValueError):
    """The parts of a shape do not fit together."""


@dataclass(frozen=True)
class Shape:
    """Everything that decides a log. `None` means "what such a machine would have", filled in by `resolve`.

    machines   machines in the job
    gpus       GPUs (ranks) per machine
    nics       network devices per machine; default: one per GPU on NVLink machines, else one per four GPUs
    channels   channels of the world communicator; default: two per NIC, 24 / 4 / 2 on one machine
    release    NCCL release, any from 2.7.3 to 2.30.7
    fabric     ib, roce, efa (AWS Libfabric), fastrak (Google's TCPXO), tcpx (GPUDirect-TCPX), socket,
               mnnvl (one NVL72 rack)
    gpu        nvlink, pcie (peer access over PCIe) or shm (no peer access by design)
    nvls       NVLink multicast; default: NVLink machines from 2.18.1 on
    vm         a virtual machine with a topology file
    verbose    with the lines of the subsystems NET and GRAPH (NVLink machines that are no rack)
    alternate  rings that swap channels c and c^1 on odd machines (2.20.3 and newer, even numbers)
    launcher   what the launcher puts in front of each line
    other      share of training output among all lines, 0 to 0.9
    lines      wanted number of lines: padded with further communicators; None: the world communicator alone
    fault      one of FAULTS or None
    fault_machine  the machine that has the fault, where only one has it; default: the last one
    seed       everything random comes from it
    """

    machines: int = 2
    gpus: int = 8
    nics: int | None = None
    channels: int | None = None
    release: str = "2.26.2"
    fabric: str = "ib"
    gpu: str = "nvlink"
    nvls: bool | None = None
    vm: bool = False
    alternate: bool = False
    verbose: bool = False
    launcher: str = "none"
    other: float = 0.0
    lines: int | None = None
    fault: str | None = None
    fault_machine: int | None = None
    seed: int = 1

    @property
    def version(self) -> Release:
        return parse_release(self.release)

    @property
    def ranks(self) -> int:
        return self.machines * self.gpus

    @property
    def nic_count(self) -> int:
        return self.nics or 1

    @property
    def channel_count(self) -> int:
        return self.channels or 1

    @property
    def sockets(self) -> bool:
        """All traffic between machines goes over TCP."""
        return self.fabric == "socket" or self.fault in ("socket_fallback", "ib_disabled")

    @property
    def gdr(self) -> bool:
        """Network edges carry /GDRDMA."""
        return self.fabric not in GOOGLE and not self.sockets and self.fault != "gdr_off"

    @property
    def nvls_used(self) -> bool:
        """NVLink multicast is there and not switched off by the vendor's settings."""
        return bool(self.nvls) and self.fabric not in GOOGLE

    @property
    def pxn(self) -> bool:
        """A ring may leave a node through the NIC of another GPU."""
        return (
            self.version >= (2, 12, 7)
            and self.gpu == "nvlink"
            and self.fabric in ("ib", "roce", "efa")
            and self.gdr
            and self.fault not in ("p2p_disabled", "non_rail")
        )

    @property
    def network(self) -> str:
        """The name in `Using network NAME` and on the edges."""
        if self.sockets:
            return "Socket"
        if self.fabric == "efa":
            return "AWS Libfabric" if self.version < (2, 27, 0) else "Libfabric"
        return {"fastrak": "FasTrak", "tcpx": "GPUDirectTCPX_v7"}.get(self.fabric, "IB")


def parse_release(text: str) -> Release:
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ShapeError(f"a release has three numbers, not {text!r}")
    return int(parts[0]), int(parts[1]), int(parts[2])


def resolve(shape: Shape) -> Shape:
    """Fill in what was left open and refuse what cannot be."""
    for value, allowed, what in (
        (shape.fabric, FABRICS, "fabric"),
        (shape.gpu, GPU_KINDS, "gpu"),
        (shape.launcher, LAUNCHERS, "launcher"),
        (shape.fault, (None, *FAULTS), "fault"),
    ):
        if value not in allowed:
            raise ShapeError(f"unknown {what}: {value!r}")
    version = shape.version
    if not OLDEST <= version <= NEWEST:
        raise ShapeError(f"release {shape.release} is not between 2.7.3 and 2.30.7")
    if shape.verbose and (shape.gpu != "nvlink" or shape.fabric == "mnnvl" or version < (2, 12, 7)):
        raise ShapeError("NET and GRAPH lines are made for NVLink machines from 2.12.7 on, not for racks")
    if shape.machines < 1 or not 1 <= shape.gpus <= 16:
        raise ShapeError("a job has at least one machine, a machine 1 to 16 GPUs")
    if not 0.0 <= shape.other <= 0.9:
        raise ShapeError("the share of other lines is between 0 and 0.9")
    if shape.fabric == "mnnvl" and (version < (2, 21, 5) or shape.gpu != "nvlink" or shape.ranks > 72):
        raise ShapeError("an MNNVL rack needs 2.21.5 or newer, NVLink and at most 72 GPUs")

    default_nics = shape.gpus if shape.gpu == "nvlink" else max(1, shape.gpus // 4)
    if (shape.fabric == "efa" and version < (2, 18, 1)) or shape.fabric == "tcpx":
        default_nics = max(1, shape.gpus // 2)
    nics = 1 if shape.fabric == "socket" else shape.nics or default_nics
    if nics > shape.gpus and shape.gpus > 1 and nics % shape.gpus:
        raise ShapeError("more NICs than GPUs must be a multiple of them")
    if nics < shape.gpus and shape.gpus % nics:
        raise ShapeError("GPUs must be a multiple of the NICs")
    if shape.machines > 1 and shape.fabric != "mnnvl":
        default_channels = min(MAX_CHANNELS, max(2, 2 * nics))
    else:
        default_channels = {"nvlink": 24, "pcie": 4, "shm": 2}[shape.gpu]
    channels = shape.channels or default_channels
    if not 1 <= channels <= MAX_CHANNELS:
        raise ShapeError(f"channels are 1 to {MAX_CHANNELS}")
    nvls = shape.gpu == "nvlink" and version >= (2, 18, 1) if shape.nvls is None else shape.nvls
    if shape.alternate and (
        version < (2, 20, 3) or shape.machines % 2 or nics % 2 or nics > shape.gpus or channels % 2
    ):
        raise ShapeError("alternating rings need 2.20.3, an even number of machines, NICs and channels")
    _check_fault(shape, nics)
    fault_machine = shape.machines - 1 if shape.fault_machine is None else shape.fault_machine
    if not 0 <= fault_machine < shape.machines:
        raise ShapeError(f"there is no machine {fault_machine}")
    return replace(shape, nics=nics, channels=channels, nvls=nvls, fault_machine=fault_machine)


def _check_fault(shape: Shape, nics: int) -> None:
    fault = shape.fault
    if fault in NETWORK_FAULTS and (shape.machines < 2 or shape.fabric == "mnnvl"):
        raise ShapeError(f"{fault} needs several machines joined by a network")
    if fault in ("socket_fallback", "ib_disabled", "gdr_off") and shape.fabric not in ("ib", "roce"):
        raise ShapeError(f"{fault} needs the fabric ib or roce")
    if fault == "non_rail" and (nics < 2 or shape.gpus < 2 or shape.fabric not in ("ib", "roce") or shape.alternate):
        raise ShapeError("non_rail needs two NICs and GPUs per machine on ib or roce, without alternate")
    if fault in ("p2p_disabled", "p2p_pair") and (shape.gpu == "shm" or shape.gpus < 2 or shape.fabric == "mnnvl"):
        raise ShapeError(f"{fault} needs machines whose GPUs have peer access")
    if fault == "duplicate_gpu" and shape.gpus < 2:
        raise ShapeError("duplicate_gpu needs two GPUs per machine")
    if fault in ("connect", "missing_ranks") and shape.ranks < 2:
        raise ShapeError(f"{fault} needs two ranks")


def machines_for(lines: int) -> int:
    """A number of machines that suits a log of that many lines."""
    for limit, machines in ((2_000, 1), (20_000, 2), (200_000, 8), (2_000_000, 32)):
        if lines <= limit:
            return machines
    return 128
