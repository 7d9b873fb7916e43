"""Nothing of a log reaches a terminal or a CI runner unescaped, in whichever field it stands."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_samples import REPORT, SOCKETS

from ncclcheck.engine.report import InputSummary, Report, RuleVerdict
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.picture import CommunicatorKind, GpuRow, JobPicture, MachineKind, OperationKind
from ncclcheck.report.escape import clean
from ncclcheck.report.formats import render
from ncclcheck.report.style import Style

NOT_TEXT = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def everywhere(text: str) -> Report:
    """A report with a stranger's text in every field that a log can fill."""
    assert SOCKETS.estimate is not None
    finding = replace(
        SOCKETS,
        message=text,
        fix=text,
        subject={"hosts": (text, "gpu-1", "gpu-2")},
        evidence=(Evidence(text, 1, text),),
        estimate=replace(SOCKETS.estimate, limit_actual=text, formula=text, inputs={text: text}),
        causes=(),
    )
    return replace(
        REPORT,
        inputs=(InputSummary(text, (text,), 1, 1, 0, text),),
        job=JobPicture(
            "NCCL",
            text,
            text,
            text,
            1,
            1,
            None,
            (text,),
            (CommunicatorKind(1, 2, 3, text),),
            (OperationKind(text, 1, text, 1, 1, 1),),
            (MachineKind((text, text + "1"), 1, (text,), (GpuRow(text, (text,), text, text),)),),
        ),
        rules=(RuleVerdict("TOP001", "non-rail", "not_evaluated", (text,)),),
        findings=(finding, replace(finding, code="IB001", causes=("NET001",), estimate=None, no_estimate_because=text)),
    )


def assert_harmless(output: str) -> None:
    for line in output.split("\n"):
        assert not re.match(r"\s*::", line), line
        assert not re.search(r"##(vso|teamcity)?\[", line), line
        for character in line:
            assert character == " " or unicodedata.category(character) not in NOT_TEXT, (line, character)


HOSTILE = [
    "\x1b[2J\x1b]0;title\x07\x1b[31mred",
    "::error file=a::b",
    "  ::set-output name=x::y",
    "a ::warning::b",
    "x" * 71 + "::error::wrapped to the start",
    "y" * 30 + " ::error::" * 30,
    "##vso[task.setvariable]x ##[error]x ##teamcity[x",
    "\u202egnp.exe \u2066 \u200b \ufeff \U000e0041",
    "line\nbreak\rreturn\u2028separator\x85next\x0bvt",
    "[bold red]markup[/] :boom: [link=http://x]y[/link]",
    "\ud800 lone surrogate",
    "<script>alert(1)</script>",
    "\0\x7f\x9b31m",
    "@all,gpu[1-3]!x^%s",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("style", [Style(), Style(width=43, verbose=True)])
def test_hostile_text(text: str, style: Style) -> None:
    report = everywhere(text)
    for name in ("terminal", "concise"):
        assert_harmless(render(name, report, style))
    document = render("json", report, style)
    assert_harmless(document)
    assert document.isascii()
    assert json.loads(document)["findings"][0]["message"] == text


@settings(max_examples=40)
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(": #[\x1b\n")), max_size=200), st.integers(40, 90))
def test_any_text(text: str, width: int) -> None:
    report = everywhere(text)
    assert_harmless(render("terminal", report, Style(width=width)))
    assert_harmless(render("concise", report, Style()))
    assert json.loads(render("json", report, Style()))["findings"][0]["message"] == text


def test_colour_holds_only_our_own_codes() -> None:
    text = render("terminal", everywhere("\x1b[5m\x1b[2J ::error::x"), Style(color=True))
    assert set(re.findall(r"\x1b.", text)) == {"\x1b["}
    assert "\x1b[5m" not in text and "\x1b[2J" not in text
    assert_harmless(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_markup_and_emoji_names_stay_text() -> None:
    assert "[bold red]markup[/] :boom:" in render("terminal", everywhere("[bold red]markup[/] :boom:"), Style())


def test_what_is_harmless_stays_as_it_is() -> None:
    for text in ("NET/IB : No device found. [0]mlx5_0:1/RoCE", "a::b fe80::1%eth0", "Übergröße 漢字", "### 3 #"):
        assert clean(text) == text
    assert clean("\tindented") == " indented"
    assert clean("\x1b[1;31mred\x1b[0m") == "red"
