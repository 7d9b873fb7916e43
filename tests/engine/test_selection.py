"""`--select`, `--ignore`, `--extend-select` and the look-up of one rule."""

from __future__ import annotations

import pytest

from ncclcheck.engine.selection import UnknownSelectorError, find_rule, select_rules
from ncclcheck.rules.model import Rule

CODES = ["IB001", "IB003", "NET001", "NET002", "TOP001"]


@pytest.fixture
def rules(make_rule) -> list[Rule]:  # type: ignore[no-untyped-def]
    return [make_rule(code) for code in CODES]


@pytest.mark.parametrize(
    ("select", "ignore", "extend", "left"),
    [
        ("", "", "", CODES),
        ("ALL", "", "", CODES),
        ("NET", "", "", ["NET001", "NET002"]),
        ("NET00,ib003", "", "", ["IB003", "NET001", "NET002"]),
        ("name-top001", "", "", ["TOP001"]),
        ("NET", "NET001", "", ["NET002"]),
        ("NET001", "NET", "", ["NET001"]),
        ("NET001", "NET001", "", []),
        ("name-net001", "NET", "", ["NET001"]),
        ("", "NET", "", ["IB001", "IB003", "TOP001"]),
        ("", "ALL", "", []),
        ("", "ALL", "IB", ["IB001", "IB003"]),
        ("NET002", "", "IB", ["IB001", "IB003", "NET002"]),
        (" NET002 , ", "", "", ["NET002"]),
    ],
)
def test_the_longest_selector_wins(rules: list[Rule], select: str, ignore: str, extend: str, left: list[str]) -> None:
    selected = [select] if select else []
    assert [rule.code for rule in select_rules(rules, selected, [ignore], [extend])] == left


def test_an_empty_selection_is_not_all(rules: list[Rule]) -> None:
    assert select_rules(rules, [""]) == ()


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        ("NET01", "did you mean 'NET001'?"),
        ("NTE", "did you mean 'NET'?"),
        ("name-tpo001", "did you mean 'name-top001'?"),
        ("N", "unknown rule selector 'N'"),  # a letter is no family
        ("NET9", "unknown rule selector 'NET9'"),
        ("zzzzzz", "unknown rule selector 'zzzzzz'"),
    ],
)
@pytest.mark.parametrize("option", ["select", "ignore", "extend_select"])
def test_unknown_selectors(rules: list[Rule], unknown: str, message: str, option: str) -> None:
    with pytest.raises(UnknownSelectorError) as error:
        select_rules(rules, **{option: [f"IB001,{unknown}"]})
    assert message in str(error.value)


def test_one_rule_by_code_or_name(rules: list[Rule]) -> None:
    assert find_rule(rules, "net001").code == "NET001"
    assert find_rule(rules, "Name-IB003").code == "IB003"
    with pytest.raises(UnknownSelectorError, match="did you mean 'TOP001'"):
        find_rule(rules, "TOP01")
