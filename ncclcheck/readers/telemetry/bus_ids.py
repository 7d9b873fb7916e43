"""PCI addresses as all tools print them, in one form."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.I)


def bus_id(text: str) -> str:
    """`0000:1b:00.0` of `1B:00.0`, `00000000:1b:00.0`, `0000:1b:00`; "" where it is none."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        return ""
    domain = int(found[1] or "0", 16)
    return f"{domain:04x}:{found[2]}:{found[3]}.{found[4] or 0}".lower()
