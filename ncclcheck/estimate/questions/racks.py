"""Racks that are one NVLink domain (GB200 NVL72): NCCL's node is the rack, not the tray."""

from __future__ import annotations

from ncclcheck.estimate.hardware import Hardware


def in_racks(nodes: int, per_node: int, nics: int, table: Hardware) -> tuple[int, int, int]:
    """Racks, GPUs and NICs of each, from trays and what each of them has."""
    ranks, whole = nodes * per_node, table.racks.gpus
    if ranks <= whole:
        return 1, ranks, nics * nodes
    racks = -(-ranks // whole)
    return racks, -(-ranks // racks), nics * -(-nodes // racks)
