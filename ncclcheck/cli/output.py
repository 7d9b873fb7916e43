"""Writing: reports to stdout or a file, everything else to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ncclcheck.report.escape import clean, without_line_commands

_WIDEST = 160


def complain(message: str) -> None:
    """A line on stderr. Names of files may be a stranger's: they are escaped, too."""
    if sys.stderr is None:
        return
    with suppress(OSError):  # full or closed: the exit code has still to tell
        click.echo(without_line_commands(f"ncclcheck: {clean(message)}"), err=True)


def write_stdout(text: str) -> bool:
    """Print it. False: the reader has gone (`| head`), which is no error, but no more is wanted."""
    stdout = sys.stdout
    if stdout is None:  # closed by the caller: `>&-`
        return False
    try:
        stdout.write(text)
        stdout.flush()
    except BrokenPipeError:
        _discard_the_rest()
        return False
    except UnicodeEncodeError:  # not a Unicode terminal: the same text in escapes
        stdout.write(text.encode(stdout.encoding, "backslashreplace").decode(stdout.encoding))
        stdout.flush()
    except OSError as error:
        _discard_the_rest()
        raise click.ClickException(f"cannot write: {error.strerror}") from None
    return True


def refuse_to_overwrite(output_file: str, paths: Sequence[str]) -> None:
    """A log is often the only copy."""
    if not os.path.isfile(output_file):  # noqa: PTH113 - Path raises on names that are too long
        return
    output = Path(output_file).stat()
    for path in paths:
        try:
            taken = os.path.samestat(output, os.fstat(0) if path == "-" else Path(path).stat())
        except (OSError, ValueError):
            continue
        if taken:
            raise click.UsageError("--output-file is one of the inputs")


def write_file(path: str, text: str) -> None:
    """Write the report to a file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {clean(path)}: {error.strerror}") from None


def wants_color(choice: str, to_file: bool) -> bool:
    """An explicit `--color` wins over NO_COLOR, that over FORCE_COLOR, that over what stdout is."""
    if choice != "auto":
        return choice == "always"
    if to_file or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def prints_unicode(to_file: bool) -> bool:
    """Files are UTF-8; stdout may be less."""
    if to_file:
        return True
    try:
        "┌⣿".encode(sys.stdout.encoding)
    except (AttributeError, LookupError, TypeError, UnicodeEncodeError):  # closed, replaced, or not Unicode
        return False
    return True


def width() -> int:
    """COLUMNS, else the terminal's, else 80. Wider lines than 160 are hard to read."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def _discard_the_rest() -> None:
    """Python flushes stdout once more at its end: let that succeed."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path of ours
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
