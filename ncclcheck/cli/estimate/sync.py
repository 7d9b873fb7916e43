"""`ncclcheck estimate sync`."""

from __future__ import annotations

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def sync() -> int:
    """To come."""
    return 2
