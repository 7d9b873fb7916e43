"""Questions about the facts that are answered once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def question(ask: Callable[[Asked], Answered]) -> Callable[[Asked], Answered]:
    """A function of the facts alone whose answer is kept with them: several rules may ask."""
    key = f"{ask.__module__}.{ask.__qualname__}"

    @wraps(ask)
    def answer(facts: Asked) -> Answered:
        kept: dict[str, Any] = facts.__dict__
        if key not in kept:
            kept[key] = ask(facts)
        found: Answered = kept[key]
        return found

    return answer
