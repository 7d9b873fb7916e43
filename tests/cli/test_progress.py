"""The bar on stderr: after a second, at a terminal, gone at the end, and nowhere else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest

from ncclcheck.cli import progress as progress_module
from ncclcheck.cli.main import run
from ncclcheck.cli.progress import progress
from ncclcheck.inputs.meter import Meter

ROOT = Path(__file__).parents[2]
LINE = "n1:12:34 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"


class Terminal:
    """A pseudo-terminal, and what was written to it."""

    def __init__(self) -> None:
        self._reader, self.writer = os.openpty()
        self._said: list[bytes] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        try:
            while data := os.read(self._reader, 4096):
                self._said.append(data)
        except OSError:  # Linux says so when the last writer is gone
            return

    def says(self, word: bytes, seconds: float) -> bool:
        """Wait for a word, but not for ever."""
        end = time.monotonic() + seconds
        while word not in b"".join(self._said) and time.monotonic() < end:
            time.sleep(0.05)
        return word in b"".join(self._said)

    def close(self) -> str:
        os.close(self.writer)
        self._listener.join(10)
        os.close(self._reader)
        return b"".join(self._said).decode()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal with colours, from the beginning."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)


def shown(meter: Meter, seconds: float = 0.5, failure: type[BaseException] | None = None, prints: bool = False) -> str:
    """What stays in the memory of a terminal whose program is busy for so long."""
    terminal = Terminal()
    stderr = os.fdopen(os.dup(terminal.writer), "w")
    with stderr, redirect_stderr(stderr), suppress(KeyboardInterrupt), progress(meter, prints):
        time.sleep(seconds)
        if failure:
            raise failure
    return terminal.close()


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def is_gone(text: str) -> bool:
    return text.rstrip("\r\n").endswith("\x1b[2K")


def words(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split())


def test_a_bar_of_known_length() -> None:
    meter = Meter()
    meter.start("reading", 4_000_000)
    meter.read = 1_000_000
    text = shown(meter)
    assert "reading" in words(text) and "1.0/4.0 MB" in words(text)
    assert COLOUR.search(text)
    assert is_gone(text)


def test_bytes_of_who_knows_how_many() -> None:
    meter = Meter()
    meter.read = 2_000_000
    assert "2.0/? MB" in words(shown(meter))


def test_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(Meter())
    assert "listing" in text
    assert not COLOUR.search(text)


def test_a_terminal_that_cannot_erase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(Meter()) == ""


def test_before_the_first_second_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE", 30.0)
    start = time.monotonic()
    assert shown(Meter(), 0.01) == ""
    assert time.monotonic() - start < 5


def test_an_interrupt_leaves_no_bar() -> None:
    text = shown(Meter(), failure=KeyboardInterrupt)
    assert "listing" in text and is_gone(text)


def test_no_bar_among_lines_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "listing" in shown(Meter(), prints=True)
    monkeypatch.setattr(progress_module, "_is_terminal", lambda stream: True)
    assert shown(Meter(), prints=True) == ""


def test_elsewhere_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Meter()):
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "")


def test_the_meter_knows_what_the_inputs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meters: list[Meter] = []
    start = Meter.start

    def watched(meter: Meter, doing: str, total: int | None = None) -> None:
        meters.append(meter)
        start(meter, doing, total)

    monkeypatch.setattr(Meter, "start", watched)
    for number in range(3):
        (tmp_path / f"{number}.log").write_text(LINE * 100)
    run(["check", str(tmp_path), "--exit-zero"])
    assert (meters[-1].doing, meters[-1].read, meters[-1].total) == ("judging", 300 * len(LINE), 300 * len(LINE))


@pytest.mark.parametrize("command", ["check", "parse"])
def test_the_whole_program_on_a_slow_pipe(command: str) -> None:
    """The bar stands on stderr alone, and the report is that of a run without one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    program = [sys.executable, "-m", "ncclcheck", command, "-"]
    plain = subprocess.run(program, input=LINE.encode(), capture_output=True, env=environment, timeout=60)
    terminal = Terminal()
    slow = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=terminal.writer, env=environment
    )
    assert slow.stdin is not None
    assert terminal.says(b"listing", 30)
    out, _ = slow.communicate(LINE.encode(), timeout=60)
    text = terminal.close()
    assert is_gone(text)
    assert out == plain.stdout
    assert slow.returncode == plain.returncode
    if command == "parse":
        assert json.loads(out)["event"] == "bootstrap_using"


def test_a_fast_program_says_nothing_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LINE)
    code = (
        "import sys\nfrom ncclcheck.cli.main import run\n"
        f"run(['parse', {str(tmp_path / 'run.log')!r}])\n"
        "assert 'rich' not in sys.modules"
    )
    terminal = Terminal()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", code], stdout=-1, stderr=terminal.writer, env=environment, timeout=60)
    assert terminal.close() == ""
    assert done.returncode == 0
