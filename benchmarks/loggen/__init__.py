"""Synthetic NCCL logs in NCCL's own format, of any size and shape, with invented hosts and values."""

from __future__ import annotations

from .arrival import interleave, training_line
from .graph import Edge, Graph, Layout, binary_tree, tree_parent
from .job import lines
from .shape import (
    FABRICS,
    FAULTS,
    GPU_KINDS,
    LAUNCHERS,
    RELEASES,
    Shape,
    ShapeError,
    machines_for,
    parse_release,
    resolve,
)

__all__ = [
    "FABRICS",
    "FAULTS",
    "GPU_KINDS",
    "LAUNCHERS",
    "RELEASES",
    "Edge",
    "Graph",
    "Layout",
    "Shape",
    "ShapeError",
    "binary_tree",
    "interleave",
    "lines",
    "machines_for",
    "parse_release",
    "resolve",
    "training_line",
    "tree_parent",
]
