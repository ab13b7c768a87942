"""How a query's text is laid out: what fits a line stands on one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

WIDTH = 112
"""The most characters of an expression on a line, without its indent."""
_CALLS = (exp.Anonymous, exp.ArrayAgg, exp.Bracket, exp.Filter, exp.IgnoreNulls, exp.Limit, exp.Max, exp.Min, exp.Order)
_SPLIT = (*_CALLS, exp.Paren, exp.Not, exp.Where, exp.Case, exp.If, exp.Alias)
"""Expressions that are written over several lines; the parts of others stay together."""

Text = Callable[[exp.Expr], str]
"""Returns an expression on one line."""


def fitted(query: exp.Query, text: Text) -> exp.Query:
    """Return the query, changed in place, with a text in the place of each expression that fits a line."""
    for select in reversed([*query.find_all(exp.Select)]):
        select.set("expressions", [*_lines(select.expressions, text)])
        where, group = select.args.get("where"), select.args.get("group")
        if where is not None:
            where.set("this", _fit(where.this, text))
        if group is not None:
            group.set("expressions", [*_lines(group.expressions, text)])
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                join.set("on", _fit(join.args["on"], text))
    return query


def _lines(columns: Iterable[exp.Expr], text: Text) -> Iterator[exp.Expr]:
    """The columns; as many that follow each other as fit a line are one text, if they only name a column."""
    names: list[str] = []
    for column in columns:
        name = text(column) if isinstance(column, exp.Column) else ""
        if not name or _has_break(name):
            yield from _joined(names)
            names = []
            yield _fit(column, text)
            continue
        if names and len(", ".join([*names, name])) > WIDTH:
            yield from _joined(names)
            names = []
        names.append(name)
    yield from _joined(names)


def _joined(names: list[str]) -> Iterator[exp.Expr]:
    if names:
        yield exp.Var(this=", ".join(names))


def _has_break(line: str) -> bool:
    """Whether a name or a constant has a line break in it, which an indent would change."""
    return "\n" in line or "\r" in line


def _fit(value: exp.Expr, text: Text) -> exp.Expr:
    line = text(value)
    if _has_break(line):
        return value
    # a branch is one only within its CASE, and so are the clauses of a call
    if len(line) <= WIDTH and not isinstance(value, (exp.If, exp.Limit, exp.Order, exp.Where)):
        return exp.Var(this=line)
    if isinstance(value, exp.Filter) and len(text(value.expression)) <= WIDTH:
        call, where = text(value.this), text(value.expression)
        if len(call) <= WIDTH:
            return exp.Var(this=f"{call}\n  FILTER({where})")
        value.set("expression", exp.Var(this=where))
    if isinstance(value, exp.Connector):
        _fit_operands(value, text)
    elif isinstance(value, exp.IgnoreNulls):
        # `IGNORE NULLS` is written inside the call, so the call stays one
        _fit_parts(value.this, text)
    elif isinstance(value, _SPLIT):
        _fit_parts(value, text)
    return value


def _fit_parts(value: exp.Expr, text: Text) -> None:
    for name, part in [*value.args.items()]:
        if isinstance(part, exp.Expr) and not isinstance(part, exp.Var):
            value.set(name, _fit(part, text))
        elif isinstance(part, list):
            value.set(name, [_fit(item, text) if isinstance(item, exp.Expr) else item for item in part])


def _fit_operands(value: exp.Connector, text: Text) -> None:
    """Give each operand a line. For a wide table a thousand are nested: too many to recurse, or to write at each depth."""
    node: exp.Expr = value
    while isinstance(node, type(value)):
        node.set("expression", _fit(node.expression, text))
        last, node = node, node.this
    last.set("this", _fit(node, text))
