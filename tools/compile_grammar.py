"""Write Lark's tables of the files in grammars/: nccl_tables.json for shapes of messages, one more per format of
other outputs.

Run it after any change of these files: `python tools/compile_grammar.py`. A test fails where it was forgotten.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.readers import grammar  # noqa: E402
from ncclcheck.readers.automaton import BLOCK_TABLES, TABLES  # noqa: E402
from ncclcheck.readers.grammar_files import grammar_text  # noqa: E402
from ncclcheck.readers.telemetry.reader import TABLES as TELEMETRY  # noqa: E402


def compiled() -> dict[Path, dict[str, Any]]:
    """All tables by the file that they belong into, each with a hash of its grammar to tell stale ones."""
    messages = _digest(grammar_text("slots.lark") + grammar.language())
    found = {TABLES: {"digest": messages, **grammar.tables(grammar.build(shapes=True))}}
    tools = sorted(file.stem for file in (ROOT / "grammars" / "telemetry").glob("*.lark"))
    for name, file in {**BLOCK_TABLES, **{f"telemetry/{tool}": TELEMETRY / f"{tool}.json" for tool in tools}}.items():
        text = grammar_text(name)
        found[file] = {"digest": _digest(text), **grammar.tables(grammar.build_block(name), text)}
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    for file, tables in compiled().items():
        text = json.dumps(tables, ensure_ascii=True, separators=(",", ":"))
        file.write_text(text + "\n", encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {len(text) // 1024} KiB, {len(tables['events'])} events")


if __name__ == "__main__":
    main()
