"""A lowered plan → a Spark DataFrame: a second visitor of the same nodes; expressions are the Spark dialect's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_views.errors import UnsupportedError
from cdc_views.plan.expr import Expr, Named
from cdc_views.plan.nodes import (
    Aggregate,
    Explode,
    Join,
    JoinKind,
    Node,
    Ordered,
    Scan,
    Select,
    Source,
    UnionAll,
    in_order,
)
from cdc_views.sql.dialects.base import identifier
from cdc_views.sql.dialects.spark import Spark


class Compiler:
    """Compiles plans over one raw DataFrame. A node without a visit raises `UnsupportedError`."""

    def __init__(
        self, raw: DataFrame, parts: Mapping[Source, DataFrame] | None = None, *, dialect: Spark | None = None
    ) -> None:
        self._raw, self._dialect = {Source.ALL: raw, **(parts or {})}, dialect or Spark()
        self._done: dict[int, DataFrame] = {}

    def dataframe(self, root: Node) -> DataFrame:
        """Return the DataFrame of the plan's output columns; lazy, as DataFrames are."""
        for node in in_order(root):
            visit: Callable[..., DataFrame] | None = getattr(self, f"visit_{type(node).__name__.lower()}", None)
            if visit is None:
                raise UnsupportedError(
                    f"Spark has no way to run {type(node).__name__}", remedy="lower the plan with a strategy first"
                )
            self._done[id(node)] = visit(node)
        return self._done[id(root)]

    def _of(self, node: Node) -> DataFrame:
        return self._done[id(node)]

    def _text(self, expression: Expr) -> str:
        return self._dialect.render(expression).sql(dialect="spark")

    def _columns(self, columns: Named) -> list[Column]:
        return [F.expr(self._text(value)).alias(name) for name, value in columns]

    def _selected(self, frame: DataFrame, columns: Named, where: Expr | None) -> DataFrame:
        kept = frame.where(F.expr(self._text(where))) if where is not None else frame
        return kept.select(*self._columns(columns))

    def visit_scan(self, node: Scan) -> DataFrame:
        """The raw table, projected and filtered."""
        return self._selected(self._raw[node.source], node.columns, node.where)

    def visit_select(self, node: Select) -> DataFrame:
        """A projection."""
        return self._selected(self._of(node.source), node.columns, node.where)

    def visit_aggregate(self, node: Aggregate) -> DataFrame:
        """A group-by; without keys, one row."""
        source = self._of(node.source)
        if node.where is not None:
            source = source.where(F.expr(self._text(node.where)))
        if not node.folds:
            return source.select(*map(_quoted, node.keys)).distinct()
        return source.groupBy(*map(_quoted, node.keys)).agg(*self._columns(node.folds))

    def visit_join(self, node: Join) -> DataFrame:
        """A join of two frames, called l and r."""
        left, right = self._of(node.left).alias("l"), self._of(node.right).alias("r")
        if node.kind is JoinKind.CROSS:
            return left.crossJoin(right).select(*self._columns(node.columns))
        conditions = [_equal(key, is_null_safe=node.is_null_safe) for key in node.on]
        if node.matching is not None:
            conditions.append(F.expr(self._text(node.matching)))
        condition = conditions[0]
        for further in conditions[1:]:
            condition = condition & further
        if node.is_right_small:
            right = F.broadcast(right)
        return left.join(right, condition, node.kind.value).select(*self._columns(node.columns))

    def visit_explode(self, node: Explode) -> DataFrame:
        """One row per element."""
        element = F.explode(F.expr(self._text(node.array))).alias(node.element)
        return self._of(node.source).select(*map(_quoted, node.keep), element)

    def visit_unionall(self, node: UnionAll) -> DataFrame:
        """The parts, one after the other."""
        first, *others = (self._of(part).select(*map(_quoted, part.output())) for part in node.parts)
        for other in others:
            first = first.unionAll(other)
        return first.toDF(*node.output())

    def visit_ordered(self, node: Ordered) -> DataFrame:
        """The rows in order, cut."""
        frame = self._of(node.source)
        keys = [_quoted(name).desc_nulls_last() if down else _quoted(name).asc_nulls_first() for name, down in node.by]
        frame = frame.orderBy(*keys) if keys else frame
        return frame.limit(node.limit) if node.limit is not None else frame


def _quoted(name: str) -> Column:
    return F.col(identifier(name).sql(dialect="spark"))


def _equal(key: str, *, is_null_safe: bool) -> Column:
    left, right = (F.col(f"{side}.{identifier(key).sql(dialect='spark')}") for side in ("l", "r"))
    return left.eqNullSafe(right) if is_null_safe else left == right
