"""A bar for those who wait at a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

    from ncclcheck.inputs.meter import Meter

PATIENCE = 1.0  # seconds


@contextmanager
def progress(meter: Meter, prints: bool = False) -> Iterator[None]:
    """While the body runs, show on stderr how far it is: after the first second, gone at the end.

    Only where stderr is a terminal that can erase what it shows. prints: the body writes to stdout meanwhile, which
    must then be something else than a terminal.
    """
    if not _is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb" or (prints and _is_terminal(sys.stdout)):
        yield
        return
    shown: list[Progress] = []

    def show() -> None:
        shown.append(_bar(meter))
        shown[0].start()

    timer = Timer(PATIENCE, show)  # a thread: the body may be waiting for a pipe
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for bar in shown:
            bar.stop()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _bar(meter: Meter) -> Progress:
    """rich is imported here: most runs are over before anybody waits."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    class Bar(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks:
                task.total = meter.total  # `update` takes None for no change
                if task.description != meter.doing:
                    self.reset(task.id, description=meter.doing)
                self.update(task.id, completed=meter.read)
            yield self.make_tasks_table(self.tasks)

    columns = (
        SpinnerColumn("line"),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(compact=True),
    )
    bar = Bar(
        *columns,
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=5,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(meter.doing)
    return bar
