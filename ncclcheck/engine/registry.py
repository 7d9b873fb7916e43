"""Finding the rules: ours by looking into the package, other people's by their entry points.

A rule is a module `ncclcheck/rules/<family>/<name>.py` that defines `RULE`; there is no list to keep. Another
package offers rules in its entry point group `ncclcheck.rules`, each naming a module of that kind or a `Rule`.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ncclcheck.rules.model import Rule

GROUP = "ncclcheck.rules"


class Entry(NamedTuple):
    """A rule and the documentation page that comes with it."""

    rule: Rule
    page: str


class Registry(NamedTuple):
    """entries: by code. problems: other people's rules that could not be loaded, and why."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(entry.rule for entry in self.entries)


def load_registry() -> Registry:
    """All rules of this installation, ours first: a foreign rule cannot take a code or a name of ours."""
    entries: dict[str, Entry] = {}
    names: set[str] = set()
    problems: list[str] = []
    for module in _our_modules():
        entry = Entry(module.RULE, (module.__doc__ or "").strip("\n"))
        entries[entry.rule.code] = entry
        names.add(entry.rule.name)
    for where, found in _foreign_entries():
        if isinstance(found, str):
            problems.append(f"{where}: {found}")
        elif found.rule.code in entries or found.rule.name in names:
            problems.append(f"{where}: {found.rule.code} {found.rule.name} is taken")
        else:
            entries[found.rule.code] = found
            names.add(found.rule.name)
    return Registry(tuple(entries[code] for code in sorted(entries)), tuple(problems))


def _our_modules() -> Iterator[ModuleType]:
    """The modules of `ncclcheck.rules.<family>` that define a rule."""
    import ncclcheck.rules as package

    for family in pkgutil.iter_modules(package.__path__):
        if not family.ispkg:
            continue
        folder = import_module(f"{package.__name__}.{family.name}")
        for found in pkgutil.iter_modules(folder.__path__):
            module = import_module(f"{folder.__name__}.{found.name}")
            if isinstance(getattr(module, "RULE", None), Rule):
                yield module


def _foreign_entries() -> Iterator[tuple[str, Entry | str]]:
    """Where an entry point says it is, and its rule, or why there is none."""
    if not _anybody_offers_rules():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        where = f"entry point {point.name} = {point.value}"
        try:
            found = point.load()
        except Exception as error:  # anything may go wrong in a package that is not ours
            yield where, type(error).__name__
            continue
        rule = found if isinstance(found, Rule) else getattr(found, "RULE", None)
        if isinstance(rule, Rule):
            module = found if isinstance(found, ModuleType) else sys.modules.get(point.module)
            yield where, Entry(rule, (getattr(module, "__doc__", None) or "").strip("\n"))
        else:
            yield where, "no rule"


def _anybody_offers_rules() -> bool:
    """Does the group's name stand in any installed `entry_points.txt`?

    A question worth 1 ms: `importlib.metadata` takes forty times as long to say no, on every run.
    """
    for folder in map(Path, sys.path):
        if folder.suffix in {".zip", ".egg", ".pex"}:
            return True  # cannot look inside so cheaply
        try:
            files = [*folder.glob("*.dist-info/entry_points.txt"), *folder.glob("*.egg-info/entry_points.txt")]
            if any(GROUP.encode() in file.read_bytes() for file in files):
                return True
        except OSError:
            continue
    return False
