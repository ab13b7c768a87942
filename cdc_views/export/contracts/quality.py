"""What rules of every level share: the operators that compare a count, how much a rule matters, and what cannot be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MINOR = frozenset({"warning", "warn", "info", "minor", "low"})
_OPERATORS = (
    "mustBe",
    "mustNotBe",
    "mustBeGreaterThan",
    "mustBeGreaterOrEqualTo",
    "mustBeLessThan",
    "mustBeLessOrEqualTo",
    "mustBeBetween",
    "mustNotBeBetween",
)


@dataclass(frozen=True, slots=True)
class Untold:
    """Why no data test says a rule."""

    why: str


def severity_of(rule: Mapping[str, Any]) -> str:
    """Return how much a rule matters; what is not said to be minor is an error."""
    return "warning" if str(rule.get("severity") or "").lower() in _MINOR else "error"


def is_none(rule: Mapping[str, Any]) -> bool:
    """Whether the rule says that what it counts must not occur at all, in whichever way."""
    given = {name: rule[name] for name in _OPERATORS if name in rule}
    if len(given) != 1:
        return False
    ((name, bound),) = given.items()
    if isinstance(bound, bool) or not isinstance(bound, (int, float)):
        return False
    is_percent = rule.get("unit") == "percent"
    return bound == 0 if name in ("mustBe", "mustBeLessOrEqualTo") else name == "mustBeLessThan" and bound == 1 and not is_percent
