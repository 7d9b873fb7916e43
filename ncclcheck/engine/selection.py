"""Which rules run: `--select`, `--ignore` and `--extend-select`.

A selector is a code (`NET001`), a name (`socket-fallback`), a family or the beginning of a code (`NET`, `NET0`), or
`ALL`. Where two selectors disagree on a rule, the longer one wins; where they are equal, `--ignore` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ncclcheck.rules.model import Rule

ALL = "ALL"


class UnknownSelectorError(ValueError):
    """A selector that no rule answers to; the message offers the nearest one."""


def select_rules(
    rules: Sequence[Rule],
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    extend_select: Iterable[str] = (),
) -> tuple[Rule, ...]:
    """The rules left, in their order. Each argument holds selectors, or comma lists of them."""
    select = tuple(select)
    wanted = _split(select) if select else [ALL]
    wanted += _split(extend_select)
    unwanted = _split(ignore)
    weight_for: dict[str, int] = {}
    weight_against: dict[str, int] = {}
    for selectors, weights in ((wanted, weight_for), (unwanted, weight_against)):
        for selector in selectors:
            matches = [(rule, weight) for rule in rules if (weight := _weight(selector, rule)) is not None]
            if not matches and selector.upper() != ALL:
                raise UnknownSelectorError(f"unknown rule selector '{selector}'{nearest(selector, rules)}")
            for rule, weight in matches:
                weights[rule.code] = max(weight, weights.get(rule.code, -1))
    return tuple(rule for rule in rules if weight_for.get(rule.code, -1) > weight_against.get(rule.code, -1))


def find_rule(rules: Sequence[Rule], key: str) -> Rule:
    """The rule of that code or name, in any case."""
    for rule in rules:
        if key.upper() == rule.code or key.lower() == rule.name:
            return rule
    family = [rule.code for rule in rules if rule.family == key.upper()]
    hint = f"; {key.upper()} has {', '.join(family)}" if family else nearest(key, rules)
    raise UnknownSelectorError(f"unknown rule '{key}'{hint}")


def nearest(key: str, rules: Sequence[Rule]) -> str:
    """`; did you mean 'NET001'?` or nothing."""
    from difflib import get_close_matches

    known = [word for rule in rules for word in (rule.code, rule.name, rule.family)] + [ALL]
    by_lower = {word.lower(): word for word in known}
    matches = get_close_matches(key.lower(), by_lower, 1, 0.6)
    return f"; did you mean '{by_lower[matches[0]]}'?" if matches else ""


def _split(values: Iterable[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _weight(selector: str, rule: Rule) -> int | None:
    """How exactly the selector means the rule; None: not at all."""
    upper = selector.upper()
    if upper == ALL:
        return 0
    if selector.lower() == rule.name:
        return len(rule.code)
    if rule.code.startswith(upper) and upper.startswith(rule.family):
        return len(upper)
    return None
