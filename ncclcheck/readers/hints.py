"""What a block must hold before a reader of another kind than NCCL's log is worth loading."""

from __future__ import annotations

import re

# The name of a variable and what may follow it in a place that sets it; NCCL's own `NCCL_X set by environment` is none.
_FOLLOWS = rb"[A-Z0-9_]*(?:[\"']?[\])]?\s*[=:,]|[ \t]+(?!set |from |is |environment )\S|[\"']?[ \t]*\r?(?:\n|$))"
ASSIGNS = tuple(re.compile(begin + _FOLLOWS) for begin in (rb"NCCL_", rb"UCX_", rb"FI_", rb"CUDA_LAUNCH_BLOCKING"))

# Ray's note on a line that stands for those of other ranks.
FOLDED = "x across cluster]"

# A line that holds none of these is no other reader's business: for Polars, all lines of a block at once. Variables,
# `GPU0` of a matrix, device names, the beginning of a topology file or of a piece of one.
OTHER_KINDS = (
    r"(?:NCCL|UCX|FI)_[A-Z]|CUDA_LAUNCH_BLOCKING|GPU[0-9]|GPU [0-9]+: |#\s+Rank\s+[0-9]"
    r"|<(?:system|graphs|(?:cpu|pci|gpu|graph) )|nvidia-smi"
)
