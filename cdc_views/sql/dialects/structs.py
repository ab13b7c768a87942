"""The base of dialects that must inspect a plan's structs: dialects that are rendered and parsed, but not run by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from sqlglot import exp

from cdc_views.plan import expr as e
from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.lineage import Origin, element
from cdc_views.sql.dialects.writing import Sql, identifier


class StructDialect(Dialect):
    """A dialect that reads the origins of the expressions that it renders."""

    raw_alias: ClassVar[str] = "_raw"
    """A name that no column has: in `a.b`, a table called `a` would hide a column `a`."""
    presence_by_written: ClassVar[bool] = False
    """Whether `IS NULL` is wrong for a struct, so that its write time decides, which every cell has."""

    _element: Origin = None

    def table(self, reference: str) -> Sql:
        return exp.alias_(super().table(reference), identifier(self.raw_alias), table=True)

    def origin(self, value: e.Expr) -> Origin:
        """Return the origin of an expression of the node being rendered."""
        return self.lineage.of(value, self.node, self._element)

    @contextmanager
    def inside(self, array: e.Expr) -> Iterator[None]:
        """Make `Item()` an element of `array` in this block."""
        outer, self._element = self._element, element(self.origin(array))
        yield
        self._element = outer

    def visit_keep(self, node: e.Keep, item: Sql | None) -> Sql:
        array = self.render(node.array, item)
        with self.inside(node.array):
            return self.keep(array, lambda element: self.render(node.where, element))

    def visit_each(self, node: e.Each, item: Sql | None) -> Sql:
        array = self.render(node.array, item)
        with self.inside(node.array):
            return self.each(array, lambda element: self.render(node.value, element))

    def visit_call(self, node: e.Call, item: Sql | None) -> Sql:
        # see `presence_by_written`; an absent multi-cell column is the same as one without cells
        tested, is_present = _tested(node)
        if tested is None or not self.presence_by_written:
            return super().visit_call(node, item)
        fields = self.lineage.fields(self.origin(tested))
        if "cells" in fields:
            return exp.Boolean(this=is_present)
        if "written" not in fields:
            return super().visit_call(node, item)
        is_null = e.Call(e.Op.IS_NULL, (e.Field(tested, "written"),))
        return super().visit_call(~is_null if is_present else is_null, item)

    def visit_usersql(self, node: e.UserSql, item: Sql | None) -> Sql:
        # a user's expression is DuckDB's SQL, and nothing checks its translation into this dialect
        return self.cannot("run a `--where`")


def ordered(value: Sql, order: list[exp.Ordered]) -> Sql:
    """Return an aggregate's argument, with ORDER BY if there is an order."""
    return exp.Order(this=value, expressions=order) if order else value


def _tested(node: e.Call) -> tuple[e.Expr | None, bool]:
    """The operand of IS NULL (false) or IS NOT NULL (true); None for another call."""
    if node.op is e.Op.IS_NULL:
        return node.args[0], False
    inner = node.args[0] if node.op is e.Op.NOT else None
    return (inner.args[0], True) if isinstance(inner, e.Call) and inner.op is e.Op.IS_NULL else (None, False)
