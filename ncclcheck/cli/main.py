"""The door: `ncclcheck run.log` is `ncclcheck check run.log`, and every way out has its exit code.

Nothing heavy is imported up here: `ncclcheck --version` answers without Polars, Lark or rich.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from typing import NoReturn

import click

from ncclcheck import __version__
from ncclcheck.cli.commands import Commands
from ncclcheck.cli.exits import INTERRUPTED, WRONG_CALL
from ncclcheck.cli.output import complain

_MODULES = {
    "check": "ncclcheck.cli.check",
    "estimate": "ncclcheck.cli.estimate.group",
    "explain": "ncclcheck.cli.rules",
    "parse": "ncclcheck.cli.parse",
    "rules": "ncclcheck.cli.rules",
}


@click.group(cls=Commands, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def ncclcheck() -> None:
    """Find out from a log what NCCL decided, what is wrong, what it costs and how to fix it.

    ncclcheck PATH... is short for ncclcheck check PATH...
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line."""
    try:
        code = ncclcheck.main(with_command(argv), prog_name="ncclcheck", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        with suppress(OSError):  # stderr is full: the exit code has still to tell
            error.show(sys.stderr or StringIO())
        return WRONG_CALL
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        raise
    except BaseException as error:  # Polars' panics are no Exceptions
        if os.environ.get("NCCLCHECK_DEBUG"):
            raise
        from ncclcheck.engine.run import where_raised

        # Without the message and the traceback: both may quote the log.
        complain(f"internal error (please report; NCCLCHECK_DEBUG=1 shows more): {where_raised(error)}")
        return WRONG_CALL


def with_command(argv: Sequence[str]) -> list[str]:
    """The same arguments behind `check`, unless they name a command. A file called `rules` is `./rules`."""
    named = bool(argv) and (argv[0] in _MODULES or argv[0] in {"-h", "--help", "--version"})
    return list(argv) if named else ["check", *argv]
