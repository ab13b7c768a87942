"""How a query's text is laid out: what fits a line stands on one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.generator import Generator

WIDTH = 112
"""The most characters of an expression on a line, without its indent."""
_WIDER = 180
"""The most characters of a subquery (without its table) or an ordered aggregate on a line: they are harder to read in parts."""
_CALLS = (exp.Anonymous, exp.ArrayAgg, exp.Bracket, exp.Filter, exp.IgnoreNulls, exp.Limit, exp.Max, exp.Min, exp.Order)
_SPLIT = (*_CALLS, exp.Lambda, exp.Paren, exp.PropertyEQ, exp.Not, exp.Where, exp.Case, exp.Cast, exp.If, exp.Alias)
"""Expressions that are written over several lines; the parts of others stay together."""

_PAIRED = "named_struct"
"""A function whose arguments are names and values in turn."""
_FEW = 3
"""A SELECT of more columns than these stands on several lines."""
_LINE = "line"

Text = Callable[[exp.Expr], str]
"""Returns an expression on one line."""


class _Aligned(Generator):
    """Puts on one line what `fitted` found to fit: a whole SELECT, its WHERE and GROUP BY, a branch of a CASE."""

    def select_sql(self, expression: exp.Select) -> str:
        line = expression.meta.get(_LINE)
        if isinstance(line, str):
            return line
        written, only = super().select_sql(expression), expression.expressions[0]
        long = f"SELECT{self.sep()}{self.expressions(expression)}"
        is_line = len(expression.expressions) == 1 and isinstance(only, exp.Var) and written.startswith(long)
        return f"SELECT {self.sql(only)}{written[len(long) :]}" if is_line else written

    def order_sql(self, expression: exp.Order, flat: bool = False) -> str:  # noqa: FBT001, FBT002 (the base has this signature)
        is_own = not flat and _has_only(expression, "expressions") and len(expression.expressions) == 1
        return f"{self.seg('ORDER BY')} {self.sql(expression.expressions[0])}" if is_own else super().order_sql(expression, flat)

    def where_sql(self, expression: exp.Where) -> str:
        is_line = isinstance(expression.this, exp.Var)
        return f"{self.seg('WHERE')} {self.sql(expression, 'this')}" if is_line else super().where_sql(expression)

    def group_sql(self, expression: exp.Group) -> str:
        is_line = _has_only(expression, "expressions") and len(expression.expressions) == 1
        return f"{self.seg('GROUP BY')} {self.sql(expression.expressions[0])}" if is_line else super().group_sql(expression)

    def case_sql(self, expression: exp.Case) -> str:
        ifs, default = expression.args["ifs"], self.sql(expression, "default")
        are_lines = all(isinstance(part.this, exp.Var) and isinstance(part.args["true"], exp.Var) for part in ifs)
        if len([*ifs, *filter(None, [default])]) == 1 or not are_lines or not _has_only(expression, "ifs", "default"):
            return super().case_sql(expression)
        branches = [f"WHEN {self.sql(part, 'this')} THEN {self.sql(part, 'true')}" for part in ifs]
        ending = [f"ELSE {default}"] if default else []
        return self.indent("\n".join(["CASE", *branches, *ending, "END"]), skip_first=True, skip_last=True)


def _has_only(expression: exp.Expr, *names: str) -> bool:
    """Whether an expression has no other parts than these; a user's text may have any."""
    return {name for name, part in expression.args.items() if part} <= {*names}


@cache
def _aligned(dialect: str) -> type[Generator]:
    """The dialect's generator of aligned text."""
    base = sqlglot.Dialect.get_or_raise(dialect).generator_class
    return type("Aligned", (_Aligned, base), {})


def printed(query: exp.Query, dialect: str) -> str:
    """Return a query's aligned text with its comments; the query is not to be used after."""
    target = sqlglot.Dialect.get_or_raise(dialect)
    fitted(query, target.generator(comments=False).generate)
    written = _aligned(dialect)(dialect=target, pretty=True, max_text_width=WIDTH)
    return written.generate(query, copy=False)


def fitted(query: exp.Query, text: Text) -> exp.Query:
    """Return the query, changed in place, with a text in the place of each expression that fits a line."""
    for select in reversed([*query.find_all(exp.Select)]):
        if len(select.expressions) <= _FEW and not select.args.get("with_"):
            line = text(select)
            if len(line) <= WIDTH and not _has_break(line):
                select.meta[_LINE] = line
                continue
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
    """The columns; as many that follow each other as fit a line are one text, if they compute nothing."""
    names: list[str] = []
    for column in columns:
        name = text(column) if _is_plain(column.unalias()) else ""
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


def _is_plain(value: exp.Expr) -> bool:
    """Whether a value computes nothing: a column, a field of one, or a constant."""
    if isinstance(value, exp.Dot):
        return _is_plain(value.this)
    return isinstance(value, (exp.Column, exp.Null, exp.Boolean))


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
    is_whole = isinstance(value, exp.ArrayAgg) or value.find(exp.Select, exp.ArrayAgg) is not None
    tables = sum(len(text(s.this)) for s in value.find_all(exp.From) if s.find(exp.Column) is None) if is_whole else 0
    if len(line) - tables <= (_WIDER if is_whole else WIDTH) and not isinstance(value, (exp.If, exp.Limit, exp.Order, exp.Where)):
        return exp.Var(this=line)
    if isinstance(value, exp.Filter) and len(text(value.expression)) <= WIDTH:
        call, where = text(value.this), text(value.expression)
        if len(call) <= WIDTH:
            return exp.Var(this=f"{call}\n  FILTER({where})")
        value.set("expression", exp.Var(this=where))
    if isinstance(value, exp.Connector):
        _fit_operands(value, text)
    elif isinstance(value, (exp.Add, exp.IntDiv, exp.Mul, exp.Sub)):
        _fit_parts(value, text)
    elif isinstance(value, exp.IgnoreNulls):
        # `IGNORE NULLS` is written inside the call, so the call stays one
        _fit_parts(value.this, text)
    elif isinstance(value, _SPLIT):
        _fit_parts(value, text)
    return value


def _fit_parts(value: exp.Expr, text: Text) -> None:
    for name, part in [*value.args.items()]:
        if isinstance(part, exp.Expr) and not isinstance(part, (exp.Var, exp.DataType)):
            value.set(name, _fit(part, text))
        elif isinstance(part, list):
            value.set(name, [_fit(item, text) if isinstance(item, exp.Expr) else item for item in part])
    _pair(value)


def _pair(value: exp.Expr) -> None:
    """Give each name of a `named_struct` and its value a line, as far as the value fits one."""
    parts = value.expressions
    if not isinstance(value, exp.Anonymous) or value.name.lower() != _PAIRED or not all(isinstance(p, exp.Var) for p in parts):
        return
    lines = [f"{name.name}, {part.name}" for name, part in zip(parts[::2], parts[1::2], strict=True)]
    value.set("expressions", [exp.Var(this=line) for line in lines])


def _fit_operands(value: exp.Connector, text: Text) -> None:
    """Give each operand a line. For a wide table a thousand are nested: too many to recurse, or to write at each depth."""
    node: exp.Expr = value
    while isinstance(node, type(value)):
        node.set("expression", _fit(node.expression, text))
        last, node = node, node.this
    last.set("this", _fit(node, text))
