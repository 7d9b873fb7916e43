"""Whose constants the model takes: the package's, or with a site file (`--site`) a site's own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ncclcheck.report.escape import clean

if TYPE_CHECKING:
    from ncclcheck.estimate.figures import Answer
    from ncclcheck.estimate.model import Model
    from ncclcheck.estimate.site import Site

SITE_FILE = "ncclcheck-site.toml"
_VARIABLE = "NCCLCHECK_SITE"
_MOST_BYTES = 16 << 10
_KEY = "ncclcheck.site"


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[_KEY] = value


site_option = click.option(
    "--site", metavar="FILE", expose_value=False, callback=_keep,
    help=f"Constants of your site, as `estimate --calibrate` writes them. Else {_VARIABLE} or ./{SITE_FILE}.",
)  # fmt: skip


def chosen_model() -> Model:
    """The model of the running command. Raises UsageError for a site file that is none."""
    from ncclcheck.estimate.model import shipped_model

    context = click.get_current_context(silent=True)
    named = (context.meta.get(_KEY) if context else None) or os.environ.get(_VARIABLE)
    if not named and not os.path.lexists(SITE_FILE):
        return shipped_model()
    return load_site(named or SITE_FILE).model()


def with_site(answer: Answer, model: Model) -> Answer:
    """The answer that says whose constants the model took."""
    if not model.site:
        return answer
    return replace(answer, remarks=(f"constants of your site, {model.site}", *answer.remarks))


def load_site(path: str) -> Site:
    from ncclcheck.estimate.site import read_site

    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError("too large for a site file")
        return read_site(path, data.decode("utf-8-sig"))
    except (OSError, ValueError) as error:  # UnicodeDecodeError is a ValueError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise click.UsageError(f"site file {clean(path)}: {clean(str(reason))}") from None
