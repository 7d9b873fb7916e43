"""What a block must hold before a reader of another kind than NCCL's log is worth loading."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.kinds import WORDS

# The name of a variable and what may follow it in a place that sets it; NCCL's own `NCCL_X set by environment` is none.
_FOLLOWS = rb"[A-Z0-9_]*(?:[\"']?[\])]?\s*[=:,]|[ \t]+(?!set |from |is |environment )\S|[\"']?[ \t]*\r?(?:\n|$))"
ASSIGNS = tuple(re.compile(begin + _FOLLOWS) for begin in (rb"NCCL_", rb"UCX_", rb"FI_", rb"CUDA_LAUNCH_BLOCKING"))

# Ray's note on a line that stands for those of other ranks.
FOLDED = "x across cluster]"

# A line that holds none of these is no other reader's business: for Polars, all lines of a block at once. Variables,
# `GPU0` of a matrix, device names, the beginning of a topology file or of a piece of one, outputs of tools, nccl-tests
# as text and JSON.
OTHER_KINDS = (
    r"(?:NCCL|UCX|FI)_[A-Z]|CUDA_LAUNCH_BLOCKING|GPU[0-9]|GPU [0-9]+: |#\s+Rank\s+[0-9]"
    r"|<(?:system|graphs|(?:cpu|pci|gpu|graph) )|nvidia-smi"
    rf"|{WORDS}"
    r"|algbw|nThread [0-9]| (?:float|half|bfloat16|double|u?int(?:8|32|64)|f8e[45]m[23])  |\"alg_bw\"|\"minimum_bytes\""
)

# What tells of nccl-tests' JSON, and lines of such a block that nccl-tests may have printed, for Polars.
PERF_JSON = r"\"alg_bw\"|\"minimum_bytes\""
PERF_LINE = (
    PERF_JSON + "|"
    r"algbw|nThread [0-9]|Rank +[0-9]+ +(?:Group|Pid) |[a-z]_perf(?:[^\w\"]|$)|Collective test |nccl-tests version "
    r"|Out of bounds values|Avg bus bandwidth"
    r"|[0-9][ |\t]+(?:float|half|bfloat16|double|u?int(?:8|32|64)|f8e[45]m[23]|char|int)[ |\t]"
)
