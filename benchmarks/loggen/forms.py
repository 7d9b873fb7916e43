"""The text of NCCL's lines, release by release, without prefix."""

from __future__ import annotations

from .graph import Edge, Graph, Tree
from .shape import Release, Shape

CUDA = (
    ((2, 7, 3), "10.2", 10020),
    ((2, 10, 3), "11.4", 11040),
    ((2, 14, 3), "11.7", 11070),
    ((2, 18, 1), "12.2", 12020),
    ((2, 20, 3), "12.4", 12040),
    ((2, 22, 3), "12.5", 12050),
    ((2, 24, 3), "12.8", 12080),
    ((2, 27, 3), "12.9", 12090),
    ((2, 28, 3), "13.0", 13000),
)
Where = tuple[str, int, str, str]  # of a WARN: file, line, function, text
LINE_LIMIT = 1023  # prefix and text together until 2.28.9; ring order and Trees in all releases


def bus_id(shape: Shape, device: int) -> int:
    return (0x11 + 0xE0 // shape.gpus * device) << 12


class Forms:
    """Messages of one release and fabric."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.version: Release = shape.version
        _, self.cuda, self.driver = next(row for row in reversed(CUDA) if shape.version >= row[0])

    # -- start

    def version_line(self) -> str:
        return f"NCCL version {self.shape.release}+cuda{self.cuda}"

    def git_version(self) -> str:
        return f"NCCL git version v{self.version[0]}.{self.version[1]} 5c0ffee12"

    def bootstrap(self, address: str) -> str:
        if self.version < (2, 8, 3):
            return f"Bootstrap : Using [0]eth0:{address}<0>"
        space = " " if self.version < (2, 24, 3) else ""
        return f"Bootstrap{space}: Using eth0:{address}<0>"

    def plugin_missing(self) -> list[str]:
        """What is said where libnccl-net.so does not exist."""
        library = "libnccl-net.so"
        error = f"{library}: cannot open shared object file: No such file or directory"
        v = self.version
        if v < (2, 17, 1):
            return [f"NET/Plugin : No plugin found ({library}), using internal implementation"]
        if v < (2, 19, 1):
            return [
                f"NET/Plugin : Plugin load ({library}) returned 2 : {error}",
                "NET/Plugin : No plugin found, using internal implementation",
            ]
        if v < (2, 21, 5):
            return [f"NET/Plugin : dlerror={error} No plugin found ({library}), using internal implementation"]
        if v < (2, 22, 3):
            return [f"NET/Plugin: No plugin found ({library})", "NET/Plugin: Using internal network plugin."]
        if v < (2, 26, 2):
            return [f"NET/Plugin: Could not find: {library}. Using internal network plugin."]
        if v < (2, 28, 3):
            return [f"NET/Plugin: Could not find: {library}. Using internal net plugin."]
        return [f"NET/Plugin: Could not find: {library}"]

    def plugin_loaded(self, address: str) -> list[str]:
        """What is said where a plugin is there, by NCCL and by the plugin."""
        shape, v = self.shape, self.version
        lines: list[str] = []
        if v >= (2, 13, 4):
            api = 6 if v < (2, 20, 3) else 8 if v < (2, 24, 3) else 9 if v < (2, 26, 2) else 10
            if v < (2, 19, 1):
                api = 5
            name = shape.network
            lines.append(f"NET/Plugin: Loaded net plugin {name} (v{api})")
        if v >= (2, 27, 3):
            lines.append("Successfully loaded external network plugin libnccl-net.so")
        return lines + (self.libfabric() if shape.fabric == "efa" else self.google(address))

    def libfabric(self) -> list[str]:
        """What aws-ofi-nccl says: four NICs per GPU on newer instances, one for two GPUs on older ones."""
        count = self.shape.nic_count
        grouped = self.version >= (2, 18, 1)
        instance = "p5.48xlarge" if grouped else "p4d.24xlarge"
        topology = f"/opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/{instance.replace('.', '-')}-topo.xml"
        lines = [
            f"NET/OFI Initializing aws-ofi-nccl {'1.13.2-aws' if grouped else '1.4.0-aws'}",
            f"NET/OFI Running on {instance} platform, Setting NCCL_TOPO_FILE environment variable to {topology}",
            "NET/OFI Setting FI_EFA_FORK_SAFE environment variable to 1",
        ]
        if not grouped:
            return [*lines, f"NET/OFI Selected Provider is efa (found {count} nics)"]
        lines.append(f"NET/OFI Selected Provider is efa (found {4 * count} nics)")
        for group in range(count):
            slot = 0x20 + 8 * group
            lines += [f"NET/OFI NIC group {group} device #{i} 0000:{slot:02x}:{0x19 + i:02x}.0" for i in range(4)]
        return lines

    def google(self, address: str) -> list[str]:
        """Google's plugins with the settings that their recipes ask for."""
        interfaces = [f"eth{i + 1}" for i in range(self.shape.nic_count)]
        if self.shape.fabric == "fastrak":
            settings = (
                ("FASTRAK_CTRL_DEV", "eth0"),
                ("FASTRAK_IFNAME", ",".join(interfaces)),
                ("FASTRAK_NUM_FLOWS", "2."),
            )
            return [f"NCCL_{name} set by environment to {value}" for name, value in settings]
        last = address.rpartition(".")[2]
        listed = "".join(f" [{i}]{name}:10.{80 + i}.0.{last}<0>" for i, name in enumerate(interfaces))
        return [
            f"NCCL_GPUDIRECTTCPX_SOCKET_IFNAME set by environment to {','.join(interfaces)}",
            f"NET/GPUDirectTCPX : Using{listed}",
        ]

    def google_settings(self) -> list[str]:
        """What NCCL itself reads of a recipe."""
        common = ["NCCL_CROSS_NIC set by environment to 0.", "NCCL_NVLS_ENABLE set by environment to 0."]
        common += ["NCCL_NET_GDR_LEVEL set by environment to PIX", "NCCL_PROTO set by environment to Simple"]
        if self.shape.fabric == "tcpx":
            algorithm, size, more = "Ring", 4194304, ["NCCL_P2P_PXN_LEVEL set by environment to 0."]
        else:
            algorithm, size, more = "Ring,Tree", 8388608, ["NCCL_MIN_NCHANNELS set by environment to 4."]
        common += [f"NCCL_ALGO set by environment to {algorithm}", f"NCCL_BUFFSIZE set by environment to {size}."]
        return common + more

    def network(self, address: str) -> list[str]:
        """The internal transports' lists."""
        shape, v = self.shape, self.version
        sockets = [f"NET/Socket : Using [0]eth0:{address}<0>"]
        if shape.fault == "ib_disabled":
            return ["NCCL_IB_DISABLE set by environment to 1.", *sockets]
        if shape.fault == "socket_fallback":
            return ["NCCL_IB_HCA set to mlx5", "NET/IB : No device found.", *sockets]
        if shape.fabric == "socket":
            return ["NET/IB : No device found.", *sockets]
        kind = "RoCE" if shape.fabric == "roce" else "IB"
        devices = "".join(f" [{i}]mlx5_{i}:1/{kind}" for i in range(shape.nic_count))
        ordering = "" if v < (2, 12, 7) else "" if shape.vm else "[RO]"
        gap = " " if v < (2, 12, 7) else f" {ordering}"
        return [f"NET/IB : Using{devices}{gap}; OOB eth0:{address}<0>"]

    def network_chosen(self) -> list[str]:
        lines: list[str] = []
        name = self.shape.network
        if (2, 19, 1) <= self.version < (2, 22, 3):
            device = "NCCL_NET_DEVICE_UNPACK net plugin version 1"
            lines.append(f"Using {device if self.shape.fabric == 'tcpx' else 'non-device net plugin version 0'}")
        if self.version >= (2, 27, 3):
            lines.append(f"Assigned NET plugin {name} to comm")
        lines.append(f"Using network {name}")
        return lines

    def hca_gdr(self) -> list[str]:
        """Per device, printed with the NET subsystem only."""
        state = "Enabled" if self.shape.gdr else "Disabled"
        if self.version < (2, 13, 4):
            if self.shape.gdr:
                return []
            return [
                f"NET/IB : GPU Direct RDMA Disabled for HCA {i} 'mlx5_{i}' (no module)"
                for i in range(self.shape.nic_count)
            ]
        return [f"NET/IB : GPU Direct RDMA {state} for HCA {i} 'mlx5_{i}'" for i in range(self.shape.nic_count)]

    def p2p_setting(self) -> str:
        if self.version < (2, 23, 4):
            return "NCCL_P2P_LEVEL set by environment to LOC"
        return "NCCL_P2P_DISABLE set by environment to 1"

    def bus(self, device: int) -> str:
        return f"{bus_id(self.shape, device):x}"

    def pair_without_p2p(self, local: int) -> str:
        """Said by GPU 0 and by GPU 1 of a machine."""
        if self.version >= (2, 12, 7) and self.shape.gpu == "pcie":
            return (
                "P2P is disabled between connected GPUs 0 and 1. "
                "You can repress this message with NCCL_IGNORE_DISABLED_P2P=1."
            )
        other = 1 - local
        return f"Could not enable P2P between dev {local}(={self.bus(local)}) and dev {other}(={self.bus(other)})"

    def bootstrap_timings(self) -> str:
        parts = "create 0.000031, send 0.000402, recv 0.083112, ring 0.041977, delay 0.000000"
        return f"Bootstrap timings total 0.214310 ({parts})"

    # -- a communicator's life

    def init(self, end: str, function: str, rank: int, ranks: int, device: int, bus: int, tail: str) -> str:
        """START and COMPLETE; `tail` is commId or parent, counter, color and key."""
        v = self.version
        head = f"rank {rank} nranks {ranks} cudaDev {device} "
        if v >= (2, 18, 3):
            head += f"nvmlDev {device} "
        name = f"{function} " if v >= (2, 21, 5) else ""
        mark = f"[Rank {rank}] " if v >= (2, 29, 2) and end == "START" and "parent" not in tail else ""
        identity = f" {tail}" if v >= (2, 16, 2) else ""
        glue = "- " if end == "START" and "key" in tail and "commId" not in tail else " - "
        return f"{mark}{name}comm @ {head}busId {bus:x}{identity}{glue}Init {end}"

    def comm_nodes(self, rank: int, ranks: int, nodes: int, width: int, mnnvl: int) -> str:
        inside = f"localRanks {width} localRank {rank % width}"
        return f"comm @ rank {rank} nRanks {ranks} nNodes {nodes} {inside} MNNVL {mnnvl}"

    def mnnvl(self, rank: int, ranks: int) -> str:
        text = f"MNNVL 1 cliqueId 7ffe cliqueSize {ranks} cliqueRank {rank}"
        if self.version < (2, 25, 1):
            return text + " "
        return text if self.version < (2, 30, 3) else f"{text} nvlDomainSize {ranks}"

    def affinity(self, device: int, gpus: int) -> str:
        first, last = (0, 31) if device * 2 < gpus else (32, 63)
        if self.version >= (2, 28, 3):
            cpus = f"{first}-{last}"
            tail = f"(GPU affinity = {cpus} ; CPU affinity = 0-63)."
            return f"ncclTopoGetCpuAffinity: Affinity for GPU {device} is {cpus}. {tail}"
        return f"Setting affinity for GPU {device} to {'ffffffff' if first == 0 else 'ffffffff,00000000'}"

    def multicast(self, device: int) -> str:
        tail = " (NVLS_NCHANNELS 24)" if (2, 27, 3) <= self.version < (2, 30, 3) else ""
        return f"NVLS multicast support is {'' if self.shape.nvls else 'not '}available on dev {device}{tail}"

    def ring_order(self, channel: int, channels: int, order: list[int]) -> str:
        if self.version < (2, 23, 4):
            text = f"Channel {channel:02d}/{channels:02d} : " + "".join(f" {rank:3d}" for rank in order)
            return text[:LINE_LIMIT]
        width = len(str(len(order) - 1))
        text = f"Channel {channel:02d}/{channels:02d} :" + "".join(f" {rank:{width}d}" for rank in order)
        return text if len(text) <= LINE_LIMIT else f"{text[: LINE_LIMIT - 4]} ..."

    def trees(self, rank: int, trees: list[Tree]) -> str:
        parts = []
        for channel, tree in enumerate(trees):
            down = "/".join(str(peer) for peer in [*tree.down, -1, -1, -1][:3])
            if self.version < (2, 8, 3):
                parts.append(f" [{channel}] {down}->{rank}->{tree.up}|{tree.up}->{rank}->{down}")
            else:
                parts.append(f" [{channel}] {down}->{rank}->{tree.up}")
        return ("Trees" + "".join(parts))[:LINE_LIMIT]

    def thresholds(self, ranks: int) -> str:
        tail = "8/8/64" if self.version < (2, 14, 3) else "512 | 512"
        return f"threadThresholds 8/8/64 | {8 * ranks}/8/64 | {tail}"

    def channel_counts(self, channels: int, ranks: int, nodes: int) -> str:
        p2p = 1 << (channels - 1).bit_length()
        per_peer = 2 if nodes > 1 else max(1, p2p // 2)
        nvls = 16 if self.shape.nvls_used and ranks > nodes else 0
        v = self.version
        middle = "" if v < (2, 17, 1) else f"{nvls} nvls channels, "
        if v >= (2, 20, 3):
            middle = f"0 collnet channels, {middle}"
        return f"{channels} coll channels, {middle}{p2p} p2p channels, {per_peer} p2p channels per peer"

    def nvls_buffers(self, head: int, heads: int) -> str:
        v = self.version
        ranks = f"nvlsRanks {heads} " if v >= (2, 27, 3) else ""
        memory = "memSize 2097152 " if v < (2, 22, 3) else ""
        total = 201326592 * heads
        return (
            f"NVLS comm @ headRank {head} nHeads {heads} {ranks}buffSize 1048576 {memory}"
            f"nvlsPerRankSize 201326592 nvlsTotalSize {total}"
        )

    def confidential(self) -> str:
        middle = "Multi-GPU CC Off, " if self.version < (2, 24, 3) else ""
        return f"CC Off, {middle}workFifoBytes 1048576"

    def p2p_check(self, direct: int) -> str:
        v = self.version
        if v < (2, 27, 3):
            return f"Check P2P Type intraNodeP2pSupport {direct} directMode 0"
        tail = f" isAllCudaP2p {direct}" if v >= (2, 28, 7) else ""
        return f"Check P2P Type isAllDirectP2p {direct} directMode 0{tail}"

    def init_timings(self, function: str, rank: int, ranks: int) -> str:
        parts = "bootstrap 0.31, allgathers 0.02, topo 0.15, graphs 0.05, connections 0.29, rest 0.02"
        if self.version < (2, 23, 4):
            return f"Init timings: rank {rank} nranks {ranks} total 1.09 (kernels 0.25, {parts})"
        return f"Init timings - {function}: rank {rank} nranks {ranks} total 1.42 (kernels 0.25, alloc 0.33, {parts})"

    def rings_connected(self, graph: Graph) -> str:
        if self.version < (2, 24, 3):
            return "Connected all rings"
        gdr = 1 if graph.layout.nodes == 1 or self.shape.gdr else 0
        return f"Connected all rings, use ring PXN {int(graph.uses_pxn)} GDR {gdr}"

    # -- edges

    def ends(self, edge: Edge, devices: tuple[str, str], index: bool = True) -> str:
        since = (2, 12, 7) if edge.net else (2, 14, 3)
        mark = "/0" if index and self.version >= since else ""
        return f"Channel {edge.channel:02d}{mark} : {edge.source}[{devices[0]}] -> {edge.target}[{devices[1]}]"

    def net_edge(self, edge: Edge, devices: tuple[str, str], send: bool) -> str:
        nic = edge.send_nic if send else edge.receive_nic
        proxy = f"({edge.proxy})" if send and edge.proxy >= 0 else ""
        gdr = "/GDRDMA" if self.shape.gdr else ""
        way = "send" if send else "receive"
        return f"{self.ends(edge, devices)} [{way}] via NET/{self.shape.network}/{nic}{proxy}{gdr}"

    def p2p_edge(self, edge: Edge, devices: tuple[str, str], mnnvl: bool) -> str:
        shape, v = self.shape, self.version
        if mnnvl:
            return f"{self.ends(edge, devices)} via P2P/MNNVL"
        way = "P2P/IPC" if v < (2, 19, 1) else "P2P/CUMEM"
        ampere = shape.gpu == "nvlink" and not shape.nvls and v >= (2, 8, 3)
        return f"{self.ends(edge, devices)} via {way}{'/read' if ampere else ''}"

    def shm_edge(self, edge: Edge, devices: tuple[str, str]) -> str:
        v = self.version
        way = "direct shared memory" if v < (2, 13, 4) else "SHM/direct/direct" if v < (2, 30, 7) else "SHM/direct"
        return f"{self.ends(edge, devices, index=False)} via {way}"

    # -- faults: file, line, function and text of a WARN

    def shm_too_small(self, name: str) -> Where:
        v, size = self.version, 9637888
        if v < (2, 12, 7):
            return "include/shm.h", 47, "shmSetup", "Call to posix_fallocate failed : No space left on device"
        text = f"Error: failed to extend /dev/shm/nccl-{name} to {size} bytes"
        if v >= (2, 22, 3):
            text += ", error: No space left on device (28)"
        return "misc/shmutils.cc", 81, "ncclShmOpen", text

    def connect_failed(self, address: str) -> Where:
        v, reason = self.version, "No route to host"
        if v < (2, 10, 3):
            return "include/socket.h", 412, "connectAddress", f"Connect to {address} failed : {reason}"
        if v < (2, 16, 2):
            return "misc/socket.cc", 412, "", f"Net : Connect to {address} failed : {reason}"
        if v < (2, 24, 3):
            return "misc/socket.cc", 482, "", f"socketStartConnect: Connect to {address} failed : {reason}"
        if v < (2, 27, 3):
            return "misc/socket.cc", 563, "", f"socketStartConnect: Connect to {address} failed : {reason}"
        function = "ncclOsSocketStartConnect" if v >= (2, 29, 2) else "socketStartConnect"
        file = "os/linux.cc" if v >= (2, 29, 2) else "misc/socket.cc"
        return file, 410, function, f"{function}: connect to {address} failed : {reason}"

    def duplicate_gpu(self, rank: int, other: int, bus: int) -> Where:
        v = self.version
        if v < (2, 30, 3):
            text = f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {bus:x}"
            return "init.cc", 871, "", text
        advice = "Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration."
        if v < (2, 30, 7):
            return "graph/topo.cc", 219, "", f"Multiple ranks detected using the same GPU on this node. {advice}"
        return "init.cc", 1034, "fillInfo", f"Multiple Ranks are using the same GPU/Partition. {advice}"
