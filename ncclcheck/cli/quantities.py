"""Options whose text the estimate's own parsers read; what is wrong with a call is said in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from ncclcheck.estimate.quantities import parse_duration, parse_params, parse_price, parse_size

Callback = Callable[[click.Context, click.Parameter, str | None], Any]


def reads(parse: Callable[[str], Any]) -> Callback:
    """The callback of an option whose text `parse` reads."""

    def callback(context: click.Context, option: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None

    return callback


DURATION = reads(parse_duration)
SIZE = reads(parse_size)
PRICE = reads(parse_price)
PARAMS = reads(parse_params)


@contextmanager
def sentences() -> Iterator[None]:
    """A ValueError is a wrong call: its text and exit code 2."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None
