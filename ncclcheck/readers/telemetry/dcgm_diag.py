"""`dcgmi diag -r N -j`: what tests of DCGM say of the GPUs, in the forms of DCGM 2 and 3, and of DCGM 4."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncclcheck.readers.telemetry.json_document import JsonReader, Object

_WORDS = {"pass": "pass", "fail": "fail", "warn": "warn", "warning": "warn", "skip": "skip", "skipped": "skip",
          "not run": "skip", "notrun": "skip", "not supported": "skip"}  # fmt: skip
# DCGM's severity of what somebody has to set otherwise (dcgm_errors.h): no part is broken.
_CONFIGURATION = 5
# Tests of settings, by name (DCGM 2 and 3), or as the first words of a warning of the test `software` (DCGM 4).
_OF_SETTINGS = re.compile(
    r"persistence mode|environment(?:al)? variables|permissions|graphics processes|denylist|blacklist|nvml library"
    r"|cuda (?:main|toolkit|runtime) library",
    re.I,
)
_LONGEST_WARNING = 200
_MOST_GPUS = 64


class DcgmDiag(JsonReader):
    kind = "dcgm-diag"

    def take(self, document: Object) -> None:
        driver = document.object("metadata").text("Driver Version Detected")
        if driver:
            self.tell(document.object("metadata").lines["Driver Version Detected"], "host", "", "driver", driver)
        for root in ("DCGM Diagnostic", "DCGM GPU Diagnostic"):
            for category in document.object(root).objects("test_categories"):
                for test in category.objects("tests"):
                    for result in test.objects("results"):
                        if result.whole:
                            self._result(test.text("name"), result)

    def _result(self, test: str, result: Object) -> None:
        status = result.text("status").strip().lower()
        if not status or not test:
            return
        warnings = list(_warnings(result))
        word = _WORDS.get(status, "unknown")
        if word in ("fail", "warn") and _settings_alone(test, warnings):
            word = "settings"
        text = f"{word} {test.strip().lower()[:60]}"
        if warnings:
            text += f": {warnings[0][0][:_LONGEST_WARNING].strip()}"
        gpus = _gpus(result)
        for gpu in gpus:
            self.tell(result.lines["status"], "gpu", f"gpu{gpu}", "diagnosis", text)
        if not gpus:
            self.tell(result.lines["status"], "host", "", "diagnosis", text)


def _gpus(result: Object) -> list[int]:
    """DCGM's numbers of the GPUs; none where the result is of something else or of all."""
    if result.text("entity_group").upper() == "GPU" and result.count("entity_id") is not None:
        listed = result.text("entity_id")
    else:
        listed = result.text("gpu_ids")
    return [int(one) for one in re.findall(r"\d{1,3}", listed, re.ASCII)][:_MOST_GPUS]


def _warnings(result: Object) -> Iterator[tuple[str, int | None]]:
    """Words and severity."""
    said = result.get("warnings")
    for one in said if isinstance(said, list) else [said]:
        if isinstance(one, Object):
            yield " ".join(one.text("warning").split()), one.count("error_severity")
        elif isinstance(one, str) and one.strip():
            yield " ".join(one.split()), None


def _settings_alone(test: str, warnings: list[tuple[str, int | None]]) -> bool:
    if _OF_SETTINGS.match(test):
        return True
    return bool(warnings) and all(
        severity == _CONFIGURATION if severity is not None else bool(_OF_SETTINGS.match(words))
        for words, severity in warnings
    )
