"""Rules that are a query: those that count the rows of the table that meet a condition are a condition on rows."""

from __future__ import annotations

import re
from collections.abc import Set

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_views.export.contracts.quality import Untold

_PLACE = re.compile(r"\$?\{+\s*(object|table|model)\s*\}+", re.IGNORECASE)
_TABLE = "cdc_views_object"
_ALLOWED = {"expressions", "from_", "from", "where", "kind", "hint", "distinct", "limit", "operation_modifiers"}
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
