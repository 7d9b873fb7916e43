"""NCCL releases as text. Everywhere else they are codes, as comparable numbers: 2.18.3 is 21803."""

from __future__ import annotations


def release_text(code: int) -> str:
    """21803 -> `"2.18.3"`; 20299, any patch of a minor release, -> `"2.2"`."""
    major, minor, patch = code // 10000, code // 100 % 100, code % 100
    return f"{major}.{minor}" if patch == 99 else f"{major}.{minor}.{patch}"
