"""Reading outputs of tools in tests."""

from __future__ import annotations

from pathlib import Path

from ncclcheck.readers.finding import Piece
from ncclcheck.readers.telemetry.outputs import Outputs

FIXTURES = Path(__file__).parents[3] / "fixtures" / "telemetry"


def read(text: str | bytes, *, blocks: int = 1) -> Outputs:
    """All outputs in a text that comes in so many blocks of whole lines."""
    data = text.encode() if isinstance(text, str) else text
    lines = data.splitlines(keepends=True)
    outputs = Outputs()
    size = max(1, -(-len(lines) // blocks))
    for first in range(0, len(lines), size):
        outputs.look(Piece(0, b"".join(lines[first : first + size]), first + 1))
    outputs.finish()
    return outputs


def values(outputs: Outputs) -> dict[tuple[str, str, str], str | float]:
    """(thing, name, key) -> the number, else the text; of several the last."""
    return {
        (row["thing"], row["name"], row["key"]): row["text"] if row["number"] is None else row["number"]
        for row in outputs.rows
    }
