"""Rules are found by where they stand, and other people's by their entry points."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ncclcheck.engine.registry import load_registry

RULE = '''
"""A page.

    Example
"""
from ncclcheck.rules.model import Rule, Severity
RULE = Rule("{code}", "{name}", Severity.INFO, "summary", lambda facts, estimator: iter(()), "1.0")
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with entry points, as pip leaves it."""
    monkeypatch.syspath_prepend(tmp_path)
    for module, code, name in (
        ("foreign_good", "SITE001", "site-rule"),
        ("foreign_clash", "SITE001", "other-name"),
        ("foreign_clash2", "SITE002", "site-rule"),
    ):
        (tmp_path / f"{module}.py").write_text(RULE.format(code=code, name=name))
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "foreign_broken.py").write_text("raise RuntimeError('no')")
    (tmp_path / "foreign_empty.py").write_text("RULE = 3")
    info = tmp_path / "foreign-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ncclcheck.rules]\na = foreign_good\nb = foreign_clash:RULE\nc = foreign_broken\nd = foreign_empty\n"
        "e = foreign_missing\nf = foreign_clash2\n"
    )
    return tmp_path


def test_foreign_rules_join_and_their_faults_are_told(installed: Path) -> None:
    registry = load_registry()
    (entry,) = [entry for entry in registry.entries if entry.rule.code.startswith("SITE")]
    assert entry.rule.name == "site-rule"
    assert entry.page == "A page.\n\n    Example"
    assert list(registry.problems) == [
        "entry point b = foreign_clash:RULE: SITE001 other-name is taken",
        "entry point c = foreign_broken: RuntimeError",
        "entry point d = foreign_empty: no rule",
        "entry point e = foreign_missing: ModuleNotFoundError",
        "entry point f = foreign_clash2: SITE002 site-rule is taken",
    ]


def test_our_rules_are_found_without_a_list() -> None:
    import ncclcheck.rules as package

    files = [
        path
        for folder in package.__path__
        for path in Path(folder).glob("*/[a-z]*.py")
        if "\nRULE = " in path.read_text() or "\nRULE: " in path.read_text()
    ]
    registry = load_registry()
    assert len([entry for entry in registry.entries if not entry.rule.code.startswith("SITE")]) == len(files)
    assert not registry.problems
    codes = [rule.code for rule in registry.rules]
    assert codes == sorted(set(codes))
