"""How a report should look: decided by the command line, obeyed by the text formats."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """verbose: formulas, inputs and consequences in full. statistics: counts per rule instead of findings. explain:
    formulas and inputs of every number."""

    width: int = 80
    color: bool = False
    verbose: bool = False
    statistics: bool = False
    explain: bool = False
