"""Write ncclcheck/readers/nccl_tables.json: Lark's tables for shapes, from the files in grammars/.

Run it after any change of these files: `python tools/compile_grammar.py`. A test fails where it was forgotten.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.readers import grammar  # noqa: E402
from ncclcheck.readers.automaton import TABLES  # noqa: E402
from ncclcheck.readers.grammar_files import grammar_text  # noqa: E402


def digest() -> str:
    """Hash of the grammar files, kept in the tables to tell stale ones."""
    return hashlib.sha256((grammar_text("slots.lark") + grammar.language()).encode()).hexdigest()


def main() -> None:
    tables = {"digest": digest(), **grammar.tables(grammar.build(shapes=True))}
    text = json.dumps(tables, ensure_ascii=True, separators=(",", ":"))
    TABLES.write_text(text + "\n", encoding="utf-8")
    print(f"{TABLES.relative_to(ROOT)}: {len(text) // 1024} KiB, {len(grammar.events())} events")


if __name__ == "__main__":
    main()
