"""Projections that follow each other become one: for Spark, and for people who read SQL.

Spark reads whole structs if a projection keeps a struct for the next one, and cannot merge the two: it merges no projection that
would compute an expression twice. A cell's write time and rank cost a scan half as much again as its value. Each step also
costs a round trip to the JVM. In SQL, each step that only renames costs its reader a dozen lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from cdc_views.model.types import Scalar, is_reshaped
from cdc_views.plan.expr import Call, Case, Col, Expr, Field, Friendly, Lit, both
from cdc_views.plan.nodes import Aggregate, Explode, Join, JoinKind, Node, OneValue, Scan, Select, in_order, noted, rebuilt
from cdc_views.plan.walk import columns_used, has_user_sql, has_window

_MOST_STEPS = 6
"""An expression with fewer steps costs less to compute again than the columns that Spark would read to keep it."""


def folded(root: Node) -> Node:
    """Return the plan with each `Select` merged into the `Scan` or unfiltered `Select` below it, where that is cheap."""
    return rebuilt(root, lambda _, new: _merged(new) if isinstance(new, Select) else new)


def readable(root: Node, *, nests_aggregates: bool = True) -> Node:
    """Return the plan with each `Select` and `Aggregate` merged into what it alone reads, if that writes no expression twice.

    A row that stands beside every other becomes a scalar subquery. `nests_aggregates`: any expression may hold an aggregate.
    """
    readers = Counter(id(source) for node in in_order(root) for source in node.sources())

    def merged(old: Node, new: Node) -> Node:
        if not isinstance(old, Join) or readers[id(old.right)] == 1:
            new = _with_scalar(new)
        if any(readers[id(source)] > 1 for source in old.sources()):
            return new
        if not isinstance(new, Select) or not isinstance(new.source, Aggregate):
            return _written_once(new)
        return _over_groups(new, new.source) if nests_aggregates and old is not root else new

    return rebuilt(root, merged)


def _with_scalar(node: Node) -> Node:
    """The node; a cross join with one value of the table, or of a step that others read too, becomes a scalar subquery."""
    if not isinstance(node, Join) or node.kind is not JoinKind.CROSS or not isinstance(node.right, Aggregate):
        return node
    one, used = node.right, Counter(c.name for _, value in node.columns for c in _columns(value) if c.of == "r")
    if one.keys or len(one.folds) != 1 or used[one.folds[0][0]] != 1:
        return node
    if not isinstance(one.source, Scan) and all(step is not one.source for step in in_order(node.left)):
        return node
    values: dict[str, Expr] = {**{name: Col(name) for name in node.left.output()}, one.folds[0][0]: OneValue(one)}
    columns = tuple((name, _within(value, values)) for name, value in node.columns)
    return Select(node.name, node.grain, node.left, columns, notes=node.notes)


def _over_groups(upper: Select, lower: Aggregate) -> Node:
    """The groups with the columns of `upper`, if these compute little, and nothing twice."""
    values: dict[str, Expr] = {**{key: Col(key) for key in lower.keys}, **dict(lower.folds)}
    used = Counter(name for _, value in upper.columns for name in _uses(value))
    is_short = all(_steps(value) <= _MOST_STEPS for _, value in upper.columns if not isinstance(value, Col))
    if upper.where is not None or not is_short or any(used[name] > 1 for name in values):
        return upper
    kept = dict(upper.columns)
    if any(kept.get(key) != Col(key) for key in lower.keys):
        return upper
    folds = tuple((name, _within(value, values)) for name, value in upper.columns if name not in lower.keys)
    return replace(lower, folds=folds, notes=noted(lower.notes, upper.notes))


def _written_once(upper: Node) -> Node:
    if not isinstance(upper, (Select, Aggregate, Explode)) or not isinstance(upper.source, (Scan, Select, Join)):
        return upper
    lower = upper.source
    values, used = dict(lower.columns), Counter(name for part in upper.expressions() for name in _uses(part))
    if any(map(has_user_sql, upper.expressions())) or any(map(has_window, values.values())):
        return upper
    if any(used[name] > 1 and not _is_short(value) for name, value in values.items()):
        return upper
    if isinstance(upper, Select):
        return _over(upper, lower, values)
    return _over_scan(upper, lower, values, used) if isinstance(lower, Scan) else upper


def _over_scan(upper: Aggregate | Explode, lower: Scan, values: Mapping[str, Expr], used: Iterable[str]) -> Node:
    """The step over a scan that computes nothing, if its own columns are columns of the table."""
    kept = upper.keys if isinstance(upper, Aggregate) else upper.keep
    if any(values[name] != Col(name) for name in kept):
        return upper
    needed = dict.fromkeys([*kept, *(c.name for n in used for c in sorted(columns_used(values[n]), key=lambda c: c.name))])
    scan = replace(lower, columns=tuple((name, Col(name)) for name in needed) or lower.columns)
    if isinstance(upper, Explode):
        return replace(upper, source=scan, array=_within(upper.array, values), notes=noted(lower.notes, upper.notes))
    where = None if upper.where is None else _within(upper.where, values)
    folds = tuple((name, _within(value, values)) for name, value in upper.folds)
    return replace(upper, source=scan, folds=folds, where=where, notes=noted(lower.notes, upper.notes))


def _uses(expression: Expr) -> Iterator[str]:
    """The names of columns, once for each place."""
    return (column.name for column in _columns(expression))


def _columns(expression: Expr) -> Iterator[Col]:
    if isinstance(expression, Col):
        yield expression
    # the friendly form of a time, or of a decimal, has its value twice
    kind = expression.kind if isinstance(expression, Friendly) else None
    places = 2 if isinstance(kind, Scalar) and is_reshaped(kind) else 1
    for child in expression.children():
        yield from [*_columns(child)] * places


def _is_short(value: Expr) -> bool:
    """Whether an expression is a column, a constant or a field of one, which may be written again and again."""
    return isinstance(value, (Col, Lit)) or (isinstance(value, Field) and _is_short(value.base))


def _merged(upper: Select) -> Node:
    lower = upper.source
    if not isinstance(lower, (Scan, Select)) or (isinstance(lower, Select) and lower.where is not None):
        return upper
    values = dict(lower.columns)
    if any(map(has_user_sql, upper.expressions())):
        return upper
    used = {column.name for expression in upper.expressions() for column in columns_used(expression)}
    if any(_steps(values[name]) > _MOST_STEPS for name in used):
        return upper
    return _over(upper, lower, values)


def _over(upper: Select, lower: Scan | Select | Join, values: Mapping[str, Expr]) -> Node:
    if isinstance(lower, Join) and upper.where is not None:
        return upper
    columns = tuple((name, _within(value, values)) for name, value in upper.columns)
    one = replace(lower, name=upper.name, grain=upper.grain, notes=noted(lower.notes, upper.notes), columns=columns)
    if isinstance(one, Join):
        return one
    return replace(one, where=both(one.where, None if upper.where is None else _within(upper.where, values)))


def _steps(expression: Expr) -> int:
    """The number of nodes in an expression; more than any limit if it is one of arrays, groups or windows."""
    if isinstance(expression, OneValue):
        return 1
    if not isinstance(expression, (Col, Field, Lit, Call, Case, Friendly)):
        return _MOST_STEPS + 1
    if not columns_used(expression):
        return 1  # a constant
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
