"""Kinds of outputs: by which lines they are told, and who reads them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import NamedTuple

from ncclcheck.readers.device_names import PRODUCT
from ncclcheck.readers.telemetry.reader import Reader


class Kind(NamedTuple):
    """name: as `ncclcheck parse` prints it. starts: what in a line begins such an output, for Python and Polars alike
    (no look-around, no group that captures); it must be rare in logs of jobs. reader: module in this package and class.
    brace: the output may begin some lines above, with a line that holds nothing but `{` or `[`.
    """

    name: str
    starts: str
    reader: tuple[str, str]
    brace: bool = False

    def open(self) -> Reader:
        module, name = self.reader
        reader: type[Reader] = getattr(import_module(f"ncclcheck.readers.telemetry.{module}"), name)
        return reader()


_BUS = r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]"
_PRODUCT = rf"{PRODUCT}[^,:()]{{0,60}}"
# Fields of `nvidia-smi --query-gpu` that people ask for.
_FIELD = (
    r"(?:index|name|uuid|serial|count|pstate|timestamp|driver_version|gpu_(?:name|uuid|bus_id|recovery_action)|compute_\w+"
    r"|persistence_mode|vbios_version|(?:pcie?|clocks|clocks_\w+|ecc|mig|memory|utilization|temperature|power"
    r"|retired_pages|remapped_rows|fabric|reset_status)\.[\w.]+)"
)

KINDS = (
    # nvidia-smi
    Kind("nvidia-smi-xml", r"<nvidia_smi_log>", ("nvidia_smi_xml", "NvidiaSmiXml")),
    Kind("nvidia-smi-q", rf"=+NVSMI LOG==|GPU {_BUS}\s*$", ("nvidia_smi_q", "NvidiaSmiQ")),
    Kind(
        "nvidia-smi-nvlink", rf"GPU [0-9]+: {_PRODUCT} \(UUID: GPU-|GPU [0-9]+: {_PRODUCT}\s*$",
        ("nvidia_smi_nvlink", "NvidiaSmiNvlink"),
    ),
    Kind(
        "nvidia-smi-csv",
        rf"{_FIELD}(?: \[[A-Za-z/%]+\])?, ?{_FIELD}|(?:^|, ?){_BUS}, |{_PRODUCT}, [0-9.]+ (?:MiB|W|%)",
        ("nvidia_smi_csv", "NvidiaSmiCsv"),
    ),
    Kind("nvidia-smi-pmon", r"#\s*(?:(?:Date|Time)\s+)*gpu\s+pid\s+type\s", ("nvidia_smi_mon", "Pmon")),
    Kind(
        "nvidia-smi-dmon",
        r"#\s*(?:(?:Date|Time)\s+)*gpu\s+(?:pwr|gtemp|sm|mclk|pclk|pviol|tviol|fb|bar1|sbecc|dbecc|rxpci|txpci)\b",
        ("nvidia_smi_mon", "Dmon"),
    ),
    Kind("nvidia-smi-table", r"\| NVIDIA-SMI [0-9]", ("nvidia_smi_table", "NvidiaSmiTable")),
    Kind(
        "nvidia-smi-says",
        r"Unable to determine the device handle for GPU|Failed to initialize NVML: Driver/library"
        r"|Failed to run topology matrix|NVIDIA-SMI version +:",
        ("nvidia_smi_says", "NvidiaSmiSays"),
    ),

    # devices and ports of networks
    Kind("ibdev2netdev", r"[\w.-]+ port [0-9]+ ==> [\w.@:-]+ \((?:Up|Down)\)", ("ibdev2netdev", "Ibdev2netdev")),
    Kind("ibstat", r"CA '[\w.-]+'", ("ibstat", "Ibstat")),
    Kind("ibstatus", r"Infiniband device '[^']+' port [0-9]+ status:", ("ibstatus", "Ibstatus")),
    Kind("ibv_devinfo", r"hca_id:\s", ("ibv_devinfo", "IbvDevinfo")),
    Kind("rdma link", r"/[0-9]+:? (?:subnet_prefix .*)?state [A-Z_]+ physical_state ", ("rdma", "RdmaLink")),
    Kind("rdma statistic", r"link [\w.-]+/[0-9]+(?: [a-z]\w+ [0-9]+){3}", ("rdma", "RdmaStatistic")),
    Kind("show_gids", r"DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s+VER\s+DEV", ("show_gids", "ShowGids")),
    Kind(
        "sysfs infiniband",
        r"/sys/class/infiniband/[\w.-]+/(?:ports/[0-9]+/|hca_type|fw_ver|board_id)",
        ("sysfs_infiniband", "SysfsInfiniband"),
    ),
    Kind("fi_info", r"provider: efa", ("fi_info", "FiInfo")),
    Kind("ibnetdiscover", r"(?:Switch\s+[0-9]+\s+\"S-|Ca\s+[0-9]+\s+\"H-)[0-9a-f]", ("ibnetdiscover", "Ibnetdiscover")),
    Kind("ethtool", r"Settings for [\w.@-]+:", ("ethtool", "Ethtool")),
    Kind("ethtool -S", r"ethtool (?:-S|--statistics) [\w.@-]+|NIC statistics:", ("ethtool", "EthtoolStatistics")),

    # the machine: PCIe, kernel, limits
    Kind("lspci",
         r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:(?:[A-Z]|3D)[\w ]+(?: \[[0-9a-f]{4}\])?|[0-9a-f]{4}): "
         r"|Lnk(?:Sta|Cap):\s.*Speed", ("lspci", "Lspci")),
    Kind("lspci-tree", r"-\[(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-[+-]-", ("lspci_tree", "LspciTree")),
    Kind("kernel-log",
         r"NVRM: (?:Xid \(|GPU at PCI:|API mismatch|loading NVIDIA|GPU [0-9a-f])|SXid \(PCI:"
         r"|Gb/s available PCIe bandwidth|PCIe Bus Error: severity=|Port module event(?:\[error\])?: "
         r"|health compromised|Detected insufficient power on the|DMAR: |AMD-Vi: |iommu: Default domain type: "
         r"|Hypervisor detected: |[Cc]ommand line: BOOT_IMAGE=|(?:nvidia[-_]peermem|nv_peer_mem): |nvidia-peermem nv_"
         r"|: (?:[Ll]ost carrier|Link down|enabling device \()", ("kernel_log", "KernelLog")),
    Kind("cmdline", r"BOOT_IMAGE=\S+ .*(?:root|ro|quiet|iommu)", ("cmdline", "Cmdline")),
    Kind("lsmod", r"Module +Size +Used by|(?:nvidia|nv_peer|gdrdrv|ib_|mlx5_)\w* +[0-9]{4,12} +[0-9]",
         ("lsmod", "Lsmod")),
    Kind("df", r"Filesystem +(?:Type +)?(?:Size|[0-9]+[KMG]?-blocks) +Used|% +/dev/shm", ("df", "Df")),
    Kind("limits",
         r"\((?:[a-z ]+, )?-[lnucd]\) +(?:[0-9]|unlimited)|-l: locked-in-memory size"
         r"|Max (?:locked memory|open files|processes|cpu time) +(?:[0-9]|unlimited)", ("limits", "Limits")),
    Kind("numactl", r"available: [0-9]+ nodes \(", ("numa", "Numactl")),
    Kind("lscpu", r"(?:Socket|NUMA node|CPU op-mode)\(s\): |Hypervisor vendor: ", ("numa", "Lscpu")),
    Kind("fabric-manager", r"\[[A-Z][a-z]{2} [0-9]{1,2} [0-9]{4} [0-9:]{8}\] \[[A-Z]+\] \[tid [0-9]+\]",
         ("fabric_manager", "FabricManager")),

    # NCCL's own tools, DCGM
    Kind("nccl-ras", r"Communicators\.\.\.|Group +Comms +Nodes +Ranks|Nodes +Processes +GPUs|RAS Monitor Mode - "
                     r"|[0-9]+ job process(?:es are| is) considered dead|Missing communicator data from [0-9]"
                     r"|#[0-9]+-[0-9]+ \([0-9a-f]{8,16}\) [IEM]|\] (?:PEER|KEEPALIVE)_[A-Z_]+: Process [0-9]",
         ("ras_text", "RasText")),
    Kind("nccl-ras-json", r'"communicators_count"\s*:', ("ras_json", "RasJson"), brace=True),
    Kind("nccl-ras-events", r'"group"\s*:\s*"(?:LIFECYCLE|TRACE)"', ("ras_json", "RasEvents"), brace=True),
    Kind("flight-recorder", r'pg_config(?:q|"\s*:)', ("flight_recorder", "FlightRecorder")),
    Kind("nccl-diag", r"NCCL DIAG ", ("nccl_diag", "NcclDiag")),
    Kind("nccl-inspector", r'"inspector_output_format_version"\s*:', ("inspector", "InspectorJson"), brace=True),
    Kind("nccl-inspector-prom", r"nccl_(?:p2p_)?(?:bus_bandwidth_gbs|(?:collective_)?exec_time_microseconds)\{",
         ("inspector", "InspectorMetrics")),
    Kind("dcgm-exporter", r"DCGM_(?:FI|EXP)_[A-Z0-9_]+\{|# (?:HELP|TYPE) DCGM_", ("dcgm_exporter", "DcgmExporter")),
    Kind("dcgm-counters", r"DCGM_FI_[A-Z0-9_]+ *, *(?:gauge|counter|label)", ("dcgm_exporter", "DcgmCounters")),
    Kind("dcgm-diag", r'"DCGM (?:GPU )?Diagnostic"', ("dcgm_diag", "DcgmDiag"), brace=True),
)  # fmt: skip

# For Polars: does an output begin in a line? Too many patterns to search every line of a log for them: a line that is
# worth it holds one of the words.
STARTS = "|".join(kind.starts for kind in KINDS)

# Every start holds one of these, as it stands here: plain words are found at the speed of memory.
_WORDS = (
    # nvidia-smi
    "<nvidia_smi_log>|NVSMI LOG|NVIDIA|Tesla |GeForce |Quadro |TITAN |GRID |# gpu|#gpu|#Date|# Date|#Time|# Time"
    "|Unable to determine|initialize NVML|topology matrix|:00.0, |00000000:",
    *(f"GPU {digit}" for digit in range(10)),
    # fields of --query-gpu
    "index,|name,|uuid,|serial,|count,|pstate,|timestamp,|driver_version,|gpu_name|gpu_uuid|gpu_bus_id|compute_"
    "|gpu_recovery_action|persistence_mode|vbios_version|pci.|pcie.|clocks.|clocks_|ecc.|mig.|memory.|utilization."
    "|temperature.|power.|retired_pages.|remapped_rows.|fabric.|reset_status.",
    # devices and ports of networks
    ' ==> |CA \'|Infiniband device|hca_id:| physical_state |INDEX|/sys/class/infiniband|provider: efa|"S-|"H-'
    "|Settings for |ethtool -|NIC statistics:|link mlx|link roce|link ib|link rdma|link bnxt|link irdma|link qedr"
    "|link hns|link erdma|link mana|link siw|link rxe|link efa|link hfi|link cxgb|link ionic|link usnic",
    # the machine: PCIe (classes in words and numbers), kernel, limits
    "bridge|Bridge|controller|peripheral|accelerators|0108: |0200: |0207: |0300: |0302: |0600: |0604: |0680: |1200: "
    "|LnkSta|LnkCap|]-+-|]---",
    "NVRM: |SXid|available PCIe bandwidth|PCIe Bus Error|Port module event|health compromised|insufficient power"
    "|DMAR: |AMD-Vi: |Default domain type|Hypervisor|BOOT_IMAGE=|peermem|peer_mem|ost carrier|Link down"
    "|enabling device",
    "Module |nvidia |nvidia_|nv_peer|gdrdrv|ib_core|ib_u|ib_cm|ib_ip|ib_is|mlx5_core|mlx5_ib|Filesystem|/dev/shm"
    "|-l) |-n) |-u) |-c) |-d) |locked-in-memory|Max locked memory|Max open files|Max processes|Max cpu time"
    "|available: |Socket(s)|NUMA node(s)|CPU op-mode(s)|[tid ",
    # NCCL's own tools, DCGM
    "Communicators...| Comms | Processes |RAS Monitor Mode|considered dead|Missing communicator|) INCOMPLETE|) ERROR"
    '|) MISMATCH|] PEER_|] KEEPALIVE_|communicators_count|LIFECYCLE|"TRACE"|pg_config|NCCL DIAG '
    '|inspector_output_format_version|bus_bandwidth_gbs|exec_time_microseconds|DCGM_|Diagnostic"',
)
WORDS = "|".join(re.escape(word) for words in _WORDS for word in words.split("|"))


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"({kind.starts})" for kind in KINDS))


def find_start(text: str) -> tuple[Kind, int] | None:
    """The kind of output that begins in this line, and where in the line."""
    found = _pattern().search(text)
    return (KINDS[(found.lastindex or 1) - 1], found.start()) if found else None
