"""What rules of every level share: how much one matters, whether it counts what must not be, and the condition of a query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_PLACE = re.compile(r"\$?\{+\s*(object|table|model)\s*\}+", re.IGNORECASE)
_TABLE = "cdc_views_object"
_ALLOWED = {"expressions", "from_", "from", "where", "kind", "hint", "distinct", "limit", "operation_modifiers"}
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


_OTHER = Untold("only `SELECT COUNT(*) FROM {object} WHERE …` in DuckDB's dialect is understood")


def counted_condition(query: str, names: Set[str]) -> str | Untold:
    """Return the condition of a query that counts rows, in DuckDB's dialect; `names` are the table's own."""
    try:
        (tree,) = sqlglot.parse(_PLACE.sub(_TABLE, query), read="duckdb")
    except (SqlglotError, ValueError, RecursionError):
        return _OTHER
    if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key not in _ALLOWED):
        return _OTHER
    source = tree.args.get("from_") or tree.args.get("from")
    where = tree.args.get("where")
    if not _counts_all(tree) or source is None or where is None or tree.args.get("distinct") or tree.args.get("limit"):
        return _OTHER
    table = source.this
    if not isinstance(table, exp.Table) or any(value for key, value in table.args.items() if key not in ("this", "db")):
        return _OTHER
    named = ".".join(part.name for part in table.parts)
    if named != _TABLE and named not in names:
        return _OTHER
    return str(where.this.sql(dialect="duckdb"))


def _counts_all(tree: exp.Select) -> bool:
    if len(tree.expressions) != 1:
        return False
    counted = tree.expressions[0].unalias()
    return isinstance(counted, exp.Count) and isinstance(counted.this, exp.Star) and not counted.expressions
