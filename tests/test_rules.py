"""Every rule against its fixtures, and what holds for all rules.

`fixtures/rules/<CODE>/expect.toml` says what the rule must say about each file of that folder; no test names one.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ncclcheck.engine.registry import load_registry
from ncclcheck.engine.run import Evaluation, evaluate
from ncclcheck.estimate.estimator import Estimator
from ncclcheck.estimate.options import EstimateOptions
from ncclcheck.facts.facts import Facts
from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources
from ncclcheck.rules.model import Finding, Severity

FIXTURES = Path(__file__).parent.parent / "fixtures"
ENTRIES = {entry.rule.code: entry for entry in load_registry().entries}
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    file.parent.name: tomllib.loads(file.read_text()) for file in sorted((FIXTURES / "rules").glob("*/expect.toml"))
}
HEALTHY = sorted(file for file in (FIXTURES / "healthy").iterdir() if file.suffix != ".md")
HEADINGS = ("What it finds", "Why it costs", "Example", "How to fix", "When it is not a problem", "References")

# Other programs read codes and names: they never change. Names of rules that are still to come are kept for them.
NAMES = {
    "NET001": "socket-fallback",
    "NET002": "wrong-interface",
    "NET003": "mixed-transport",
    "NET004": "plugin-missing",
    "NET005": "socket-untuned",
    "NET006": "collnet-unavailable",
    "IB001": "no-hca",
    "IB002": "hca-filtered",
    "IB003": "ib-disabled",
    "IB004": "hca-count-mismatch",
    "IB005": "port-rate",
    "IB006": "port-down",
    "IB007": "roce-gid",
    "IB008": "mixed-link-layer",
    "IB009": "roce-lossless",
    "IB010": "completion-error",
    "IB011": "relaxed-ordering",
    "IB012": "mtu-mismatch",
    "GDR001": "gdr-off",
    "GDR002": "peermem-missing",
    "GDR003": "nic-too-far",
    "TOP001": "non-rail",
    "TOP002": "shared-nic",
    "TOP003": "numa-remote",
    "TOP004": "topology-missing",
    "TOP005": "few-channels",
    "TOP006": "inconsistent-topology",
    "TOP007": "intra-node-over-net",
    "TOP008": "group-spans-nodes",
    "PCI001": "pcie-bound",
    "PCI002": "p2p-disabled",
    "PCI003": "link-degraded",
    "PCI004": "acs-enabled",
    "NVL001": "nvlink-absent",
    "NVL002": "nvlink-degraded",
    "NVL003": "nvls-off",
    "NVL004": "fabric-state",
    "NVL005": "mnnvl-unused",
    "VRT001": "virtualized",
    "VRT002": "vgpu-or-mig",
    "HST001": "shm-too-small",
    "HST002": "memlock-limit",
    "HST003": "device-not-in-container",
    "HST004": "gpu-health",
    "HST005": "firewall-or-route",
    "HST006": "process-limits",
    "HST007": "cpu-starved",
    "ENV001": "unknown-variable",
    "ENV002": "obsolete-variable",
    "ENV003": "invalid-value",
    "ENV004": "ranks-disagree",
    "ENV005": "debug-leftover",
    "ENV006": "timeout-policy",
    "ENV007": "misused-variable",
    "RUN001": "version-mismatch",
    "RUN002": "duplicate-gpu",
    "RUN003": "init-incomplete",
    "RUN004": "collective-timeout",
    "RUN005": "collective-mismatch",
    "RUN006": "peer-died",
    "RUN007": "cuda-failure",
    "RUN008": "init-slow",
    "RUN009": "outdated-nccl",
    "RUN010": "rank-crashed",
    "PRF001": "below-expected",
    "PRF002": "data-error",
    "PRF003": "small-messages",
    "PRF004": "odd-host",
    "LOG001": "low-visibility",
    "LOG002": "damaged-log",
    "LOG003": "partial-ranks",
    "LOG004": "log-overwritten",
}

# What a rule costs, on one fail fixture at least: bandwidth (an estimate), GPU-hours of a job that stands, or seconds.
BANDWIDTH, GPU_HOURS, SECONDS, LATENCY = "GB/s", "GPU-hours", "s at each init", "s of latency"
NUMBERS = {
    **dict.fromkeys(("NET001", "NET002", "NET004", "NET005", "NET006"), BANDWIDTH),
    "PRF001": BANDWIDTH,
    **dict.fromkeys(
        ("IB001", "IB002", "IB003", "IB004", "IB005", "IB006", "IB008", "IB009", "IB011", "IB012"), BANDWIDTH
    ),
    **dict.fromkeys(("GDR001", "GDR002", "GDR003"), BANDWIDTH),
    **dict.fromkeys(("TOP001", "TOP002", "TOP003", "TOP004", "TOP005", "TOP006", "TOP007", "TOP008"), BANDWIDTH),
    **dict.fromkeys(("PCI001", "PCI002", "PCI003"), BANDWIDTH),
    **dict.fromkeys(("NVL001", "NVL002", "NVL003", "NVL004", "NVL005", "VRT001"), BANDWIDTH),
    **dict.fromkeys(("HST003", "HST007", "ENV001", "ENV005"), BANDWIDTH),
    **dict.fromkeys(("NET003", "IB007", "IB010", "PCI004"), GPU_HOURS),
    **dict.fromkeys(("HST001", "HST002", "HST004", "HST005", "HST006", "ENV003", "ENV004"), GPU_HOURS),
    **dict.fromkeys(("RUN001", "RUN002", "RUN003", "RUN004", "RUN005", "RUN007", "RUN010"), GPU_HOURS),
    "RUN008": SECONDS,
    "PRF003": LATENCY,
    "PRF004": BANDWIDTH,
}
# Rules that cost nothing by themselves, or what the model cannot know: what hides, what follows from another fault,
# what is only old, shares of a GPU.
WITHOUT_NUMBER = {"VRT002", "ENV002", "ENV007", "RUN006", "RUN009", "PRF002", "LOG001", "LOG002", "LOG003", "LOG004"}
