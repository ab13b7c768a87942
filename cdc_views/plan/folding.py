"""A rewrite for Spark: projections that follow each other become one.

Spark reads whole structs if a projection keeps a struct for the next one, and cannot merge the two: it merges no projection that
would compute an expression twice. A cell's write time and rank cost a scan half as much again as its value. Each step also
costs a round trip to the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from cdc_views.plan.expr import Call, Case, Col, Expr, Field, Friendly, Lit, UserSql, both, columns_used
from cdc_views.plan.nodes import Node, Scan, Select, in_order

_MOST_STEPS = 6
"""An expression with fewer steps costs less to compute again than the columns that Spark would read to keep it."""


def folded(root: Node) -> Node:
    """Return the plan with each `Select` merged into the `Scan` or unfiltered `Select` below it, where that is cheap."""
    done: dict[int, Node] = {}
    for node in in_order(root):
        over = node.over(tuple(done[id(source)] for source in node.sources()))
        done[id(node)] = _merged(over) if isinstance(over, Select) else over
    return done[id(root)]


def _merged(upper: Select) -> Node:
    lower = upper.source
    if not isinstance(lower, (Scan, Select)) or (isinstance(lower, Select) and lower.where is not None):
        return upper
    values = dict(lower.columns)
    if any(map(_has_user_sql, upper.expressions())):
        return upper
    used = {column.name for expression in upper.expressions() for column in columns_used(expression)}
    if any(_steps(values[name]) > _MOST_STEPS for name in used):
        return upper
    columns = tuple((name, _within(value, values)) for name, value in upper.columns)
    where = both(lower.where, None if upper.where is None else _within(upper.where, values))
    return replace(lower, name=upper.name, grain=upper.grain, columns=columns, where=where)


def _has_user_sql(expression: Expr) -> bool:
    """Whether a part of the expression is a user's text, which names columns in its own way."""
    return isinstance(expression, UserSql) or any(map(_has_user_sql, expression.children()))


def _steps(expression: Expr) -> int:
    """The number of nodes in an expression; more than any limit if it is one of arrays, groups or windows."""
    if not isinstance(expression, (Col, Field, Lit, Call, Case, Friendly)):
        return _MOST_STEPS + 1
    return 1 + sum(map(_steps, expression.children()))


def _within(expression: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with the value of each column in its place."""
    if isinstance(expression, Col):
        return values[expression.name]
    changed = {field.name: _replaced(getattr(expression, field.name), values) for field in fields(expression)}
    return replace(expression, **changed)


def _replaced(part: object, values: Mapping[str, Expr]) -> object:
    if isinstance(part, Expr):
        return _within(part, values)
    return tuple(_replaced(item, values) for item in part) if isinstance(part, tuple) else part
