"""What stands within an expression."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_views.plan.expr import AnyOver, Col, Expr, Over, RowNumber, UserSql


def parts_of(expression: Expr) -> Iterator[Expr]:
    """Yield an expression and all within it."""
    yield expression
    for child in expression.children():
        yield from parts_of(child)


def columns_used(expression: Expr) -> frozenset[Col]:
    """Return every column that the expression reads, also in a user's text."""
    return frozenset(column for part in parts_of(expression) for column in _columns_of(part))


def has_user_sql(expression: Expr) -> bool:
    """Return whether a part of the expression is a user's text, which names columns in its own way."""
    return any(isinstance(part, UserSql) for part in parts_of(expression))


def has_window(expression: Expr) -> bool:
    """Return whether a part of the expression reads other rows, which a condition or a group-by above it would change."""
    return any(isinstance(part, (RowNumber, AnyOver, Over)) for part in parts_of(expression))


def _columns_of(part: Expr) -> Iterator[Col]:
    if isinstance(part, Col):
        yield part
    elif isinstance(part, UserSql):
        from sqlglot import exp

        yield from (Col(column.name) for column in part.tree.find_all(exp.Column))
