"""A report with a bit of everything, for the tests of the formats."""

from __future__ import annotations

from ncclcheck.engine.report import InputSummary, Report, RuleVerdict
from ncclcheck.estimate.estimates import Cost, Estimate
from ncclcheck.estimate.ranges import Range
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.picture import CommunicatorKind, GpuRow, JobPicture, MachineKind, OperationKind
from ncclcheck.rules.model import Confidence, Finding, Severity

HOSTS = tuple(f"gpu-{i:03d}" for i in range(1, 65))

SOCKETS = Finding(
    code="NET001",
    name="socket-fallback",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    message="All traffic between the 64 machines goes over TCP sockets, because NCCL found no InfiniBand device.",
    fix="pass the devices into the container:\ndocker run --device=/dev/infiniband ...",
    subject={"hosts": HOSTS},
    evidence=tuple(
        Evidence("run.log", 12 + i, f"gpu-{i + 1:03d}:4242:4301 [0] NCCL INFO NET/IB : No device found.")
        for i in range(5)
    ),
    estimate=Estimate(
        healthy=Range(330, 362.4, 371),
        actual=Range(1.02, 2.46, 3.1),
        slowdown=Range(106, 147.3, 363),
        limit_healthy="nic",
        limit_actual="tcp",
        basis="modelled from log",
        formula="min(node, 8 x 50)",
        inputs={"NICs": "8 of 400 Gb/s (log)"},
        sync_bytes=10**9,
        sync_seconds_healthy=Range(0.0053, 0.0055, 0.006),
        sync_seconds_actual=Range(0.64, 0.81, 1.95),
    ),
    cost=Cost("s per gradient sync of 1 GB", Range(0.6, 0.8, 1.9)),
    causes=("IB001",),
)

NO_HCA = Finding(
    code="IB001",
    name="no-hca",
    severity=Severity.ERROR,
    confidence=Confidence.MEDIUM,
    message="NCCL found no InfiniBand device.",
    fix="ibv_devices",
    subject={"hosts": HOSTS},
    evidence=SOCKETS.evidence[:1],
    no_estimate_because="the consequence has it",
    consequences=("NET001",),
)

DEAD = Finding(
    code="RUN007",
    name="rank-missing",
    severity=Severity.WARNING,
    confidence=Confidence.LOW,
    message="Rank 3 never arrived.",
    fix="look at gpu-001",
    cost=Cost("GPU-hours until noticed", Range(40, 512, 4000)),
    no_estimate_because="a job that stands still has no bandwidth",
)

REPORT = Report(
    version="0.1.0",
    inputs=(InputSummary("run.log", ("nccl-log", "topo-matrix"), 5210, 4800, 3),),
    job=JobPicture(
        library="NCCL",
        release="2.21.5",
        cuda="12.4",
        gpu="NVIDIA H100 80GB HBM3",
        machines=65,
        ranks_seen=512,
        ranks_total=520,
        networks=("Socket",),
        communicators=(
            CommunicatorKind(1, 512, 64, "several per node"),
            CommunicatorKind(64, 8, 1, "inside one node"),
            CommunicatorKind(8, 64, None, "unknown"),
        ),
        operations=(
            OperationKind("AllReduce", 1_048_576, "bfloat16", 2_097_152, 64, 12_800),
            OperationKind("Broadcast", 7, "", None, None, 3),
        ),
        kinds=(
            MachineKind(
                HOSTS,
                8,
                tuple(f"mlx5_{i}" for i in range(8)),
                tuple(
                    GpuRow(str(i), (f"mlx5_{i // 2}",), "yes" if i < 6 else "unknown", "P2P/CUMEM") for i in range(8)
                ),
            ),
            MachineKind(("login",), 8, ("eth0",), ()),
        ),
    ),
    rules=(
        RuleVerdict("IB001", "no-hca", "fail"),
        RuleVerdict("NET001", "socket-fallback", "fail"),
        RuleVerdict("PCI001", "pcie-bound", "pass"),
        RuleVerdict("RUN007", "rank-missing", "fail"),
        RuleVerdict("TOP001", "non-rail", "not_evaluated", ("rerun with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH",)),
        RuleVerdict("VRT001", "virtualization-overhead", "not_evaluated", ("lspci -vvv of one machine",)),
    ),
    findings=(NO_HCA, SOCKETS, DEAD),
)

EMPTY = Report(
    version="0.1.0",
    inputs=(InputSummary("notes.txt", (), 12, 0, 0, None), InputSummary("gone.log", (), 0, 0, 0, "no such file")),
    job=JobPicture("NCCL", "", "", "", 0, 0, None, (), (), (), ()),
    rules=(RuleVerdict("NET001", "socket-fallback", "not_evaluated", ("an NCCL log",)),),
    findings=(),
)
