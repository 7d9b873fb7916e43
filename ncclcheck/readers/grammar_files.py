"""Finds the grammar files, in a checkout and in an installed wheel alike."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
# The wheel carries the folder inside the package; a checkout keeps it beside the package, where people look for it.
_FOLDERS = (_PACKAGE / "grammars", _PACKAGE.parent / "grammars")


def grammar_text(name: str) -> str:
    """Return the text of the grammar `name`, with or without its ending: "topo" and "topo.lark" are the same file."""
    file_name = name if name.endswith(".lark") else f"{name}.lark"
    for folder in _FOLDERS:
        path = folder / file_name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(f"no grammar {file_name} in {' or '.join(map(str, _FOLDERS))}")
