"""Groups of commands: each command is imported when it is called, for none needs what the others do."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Commands(click.Group):
    """modules: where each command is defined, under its own name; in the order of the help."""

    def __init__(self, *, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.modules = modules

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.modules:
            return None
        command: click.Command = getattr(import_module(self.modules[name]), name)
        return command
