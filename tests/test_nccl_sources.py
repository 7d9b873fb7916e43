"""The scanner of NCCL's sources, on messages of our own in the form of its calls."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sources = importlib.import_module("tools.nccl_sources")
tool = importlib.import_module("tools.make_known_lines")

PUMP_CC = r"""
#include "debug.h"
#define INFO(FLAGS, ...) ncclDebugLog(NCCL_LOG_INFO, (FLAGS), __func__, __LINE__, __VA_ARGS__)
#define PUMPCHECK(call) do { \
  int err = call; \
  if (err) { \
    WARN("Pump call " #call " failed" \
         " with \"%s\"", pumpError(err)); \
  } \
} while (0)

/* INFO(NCCL_NET, "this one was taken out %d", 1); */
void prime(struct pump* p) { // WARN("and this one as well");
  INFO(NCCL_INIT | NCCL_NET, "Pump %d primed at %" PRIu64 " of %" PRIx64
       ", valve %p", p->n, p->level, p->size, p->valve);
  INFO((NCCL_ENV), "%s is the keeper // of %d%% of the gates", keeper(p, 1), '"');
  INFO_LOC(NCCL_ALLOC, "sluice of %zu bytes", size);
  WARN(text);
  WARN(p->dry ? "dry" : "wet");
  VERSION("%s", versionText);
  printf("NCCL version %d.%d", 9, 1);
  printf("no message at all");
  WARN("water\n");
}
"""


def test_every_call_that_names_its_format_is_found() -> None:
    assert [tuple(message) for message in sources.calls(PUMP_CC, "src/pump.cc")] == [
        ("WARN", "-", 'Pump call <CALL> failed with "%s"', "src/pump.cc"),
        ("INFO", "INIT|NET", "Pump %d primed at %lu of %lx, valve %p", "src/pump.cc"),
        ("INFO", "ENV", "%s is the keeper // of %d%% of the gates", "src/pump.cc"),
        ("INFO", "ALLOC", "%s:%d (%s) sluice of %zu bytes", "src/pump.cc"),
        ("VERSION", "ALL", "%s", "src/pump.cc"),
        ("VERSION", "ALL", "NCCL version %d.%d", "src/pump.cc"),
        ("WARN", "-", "water\n", "src/pump.cc"),
    ]


def test_the_tool_lists_what_a_release_brings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that an event matches is not new."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "pump.cc").write_text(PUMP_CC + 'INFO(NCCL_NET, "Using network %s", name);\n')
    (tmp_path / "src" / "pump.md").write_text('WARN("in a text")')
    tool.main(["--checkout", str(tmp_path), "--release", "9.1.0", "--new"])
    listed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(level, subsystem, file) for level, subsystem, file, _ in listed] == [
        ("WARN", "-", "src/pump.cc"),
        ("INFO", "INIT|NET", "src/pump.cc"),
        ("INFO", "ENV", "src/pump.cc"),
        ("INFO", "ALLOC", "src/pump.cc"),
        ("WARN", "-", "src/pump.cc"),
    ]
    assert listed[-1][-1] == r"'water\n'"
