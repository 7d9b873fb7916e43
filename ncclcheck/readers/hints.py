"""What a block must hold before a reader of another kind than NCCL's log is worth loading."""

from __future__ import annotations

import re

# The name of a variable and what may follow it in a place that sets it; NCCL's own `NCCL_X set by environment` is none.
_FOLLOWS = rb"[A-Z0-9_]*(?:[\"']?[\])]?\s*[=:,]|[ \t]+(?!set |from |is |environment )\S|[\"']?[ \t]*\r?(?:\n|$))"
ASSIGNS = tuple(re.compile(begin + _FOLLOWS) for begin in (rb"NCCL_", rb"UCX_", rb"FI_", rb"CUDA_LAUNCH_BLOCKING"))
