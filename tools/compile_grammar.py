"""Write ncclcheck/readers/_tables_nccl.py: Lark's tables for shapes, built from grammars/slots.lark and nccl.lark.

Run it after any change of these files: `python tools/compile_grammar.py`. A test fails where it was forgotten.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ncclcheck.readers import grammar  # noqa: E402
from ncclcheck.readers.grammar_files import grammar_text  # noqa: E402

TARGET = ROOT / "ncclcheck" / "readers" / "_tables_nccl.py"


def digest() -> str:
    """Hash of the two grammar files, kept in the tables to tell stale ones."""
    return hashlib.sha256((grammar_text("slots.lark") + grammar_text("nccl.lark")).encode()).hexdigest()


def main() -> None:
    tables = grammar.serialize(grammar.build(shapes=True))
    body = "\n".join(
        f"{name} = {value!r}"
        for name, value in (("DATA", tables["data"]), ("MEMO", tables["memo"]))
    )
    TARGET.write_text(f'"""Written by tools/compile_grammar.py. Do not edit."""\n\nDIGEST = "{digest()}"\n{body}\n')
    print(f"{TARGET.relative_to(ROOT)}: {len(body) // 1024} KiB, {len(grammar.events())} events")


if __name__ == "__main__":
    main()
