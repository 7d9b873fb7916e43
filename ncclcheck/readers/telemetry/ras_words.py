"""Names of what NCCL tells of: its RAS in both forms, and its own diagnostics."""

from __future__ import annotations


def process(host: str, pid: str) -> str:
    return f"{host}/{pid}"


def communicator(printed: str) -> str:
    """A communicator by its hash, as RAS prints it in text: 16 digits. `0x` may stand before it."""
    return printed.removeprefix("0x").rjust(16, "0")


def state_of(event: str) -> str:
    """PEER_DEAD: dead; KEEPALIVE_TIMEOUT: keepalive-timeout."""
    return event.removeprefix("PEER_").lower().replace("_", "-")[:60]
