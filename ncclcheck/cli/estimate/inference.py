"""`ncclcheck estimate inference`."""

from __future__ import annotations

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def inference() -> int:
    """To come."""
    return 2
