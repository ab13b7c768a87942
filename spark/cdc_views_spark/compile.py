"""A lowered plan → a Spark DataFrame. Expressions are rendered by the Spark dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_views.errors import UnsupportedError
from cdc_views.plan.expr import Expr, Named
from cdc_views.plan.folding import folded
from cdc_views.plan.nodes import Aggregate, Explode, Join, JoinKind, Node, Ordered, Scan, Select, UnionAll, in_order
from cdc_views.plan.parts import Source
from cdc_views.sql.dialects.spark import Spark
from cdc_views.sql.dialects.writing import identifier


class Compiler:
    """Compiles plans over `parts`, each created when a scan first needs it; an unknown node raises `UnsupportedError`."""

    def __init__(self, parts: Mapping[Source, Callable[[], DataFrame]], *, dialect: Spark | None = None) -> None:
        self._parts, self._dialect = parts, dialect or Spark()
        self._read: dict[Source, DataFrame] = {}
        self._done: dict[int, DataFrame] = {}

    def dataframe(self, root: Node) -> DataFrame:
        """Return the lazy DataFrame of the plan's output columns."""
        plan = folded(root)
        for node in in_order(plan):
            visit: Callable[..., DataFrame] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
            if visit is None:
                raise UnsupportedError(
                    f"Spark has no way to run {type(node).__name__}", remedy="lower the plan with a strategy first"
                )
            self._done[id(node)] = visit(node)
        return self._done[id(plan)]

    def _of(self, node: Node) -> DataFrame:
        return self._done[id(node)]

    def _text(self, expression: Expr) -> str:
        return self._dialect.render(expression).sql(dialect="spark")

    def _columns(self, columns: Named) -> list[str]:
        # texts, not Columns: each call of a Spark function takes several round trips to the JVM
        return [f"{self._text(value)} AS {_quoted(name)}" for name, value in columns]

    def _selected(self, frame: DataFrame, columns: Named, where: Expr | None) -> DataFrame:
        kept = frame.where(self._text(where)) if where is not None else frame
        return kept.selectExpr(*self._columns(columns))

    def _scan(self, node: Scan) -> DataFrame:
        if node.source not in self._read:
            self._read[node.source] = self._parts[node.source]()
        return self._selected(self._read[node.source], node.columns, node.where)

    def _select(self, node: Select) -> DataFrame:
        return self._selected(self._of(node.source), node.columns, node.where)

    def _aggregate(self, node: Aggregate) -> DataFrame:
        source = self._of(node.source)
        if node.where is not None:
            source = source.where(self._text(node.where))
        if not node.folds:
            return source.selectExpr(*map(_quoted, node.keys)).distinct()
        return source.groupBy(*map(_quoted, node.keys)).agg(*map(F.expr, self._columns(node.folds)))

    def _join(self, node: Join) -> DataFrame:
        left, right = self._of(node.left).alias("l"), self._of(node.right).alias("r")
        if node.kind is JoinKind.CROSS:
            return left.crossJoin(right).selectExpr(*self._columns(node.columns))
        conditions = [_equal(key, is_null_safe=node.is_null_safe) for key in node.on]
        if node.matching is not None:
            conditions.append(f"({self._text(node.matching)})")
        if node.is_right_small:
            right = F.broadcast(right)
        joined = left.join(right, F.expr(" AND ".join(conditions)), node.kind.value)
        return joined.selectExpr(*self._columns(node.columns))

    def _explode(self, node: Explode) -> DataFrame:
        element = f"explode({self._text(node.array)}) AS {_quoted(node.element)}"
        return self._of(node.source).selectExpr(*map(_quoted, node.keep), element)

    def _unionall(self, node: UnionAll) -> DataFrame:
        first, *others = (self._of(part).selectExpr(*map(_quoted, part.output())) for part in node.parts)
        for other in others:
            first = first.unionAll(other)
        return first.toDF(*node.output())

    def _ordered(self, node: Ordered) -> DataFrame:
        return ordered(self._of(node.source), node)


def ordered(rows: DataFrame, node: Ordered) -> DataFrame:
    """Return the first rows of `rows`, in the order of `node`."""
    keys = [column_of(n).desc_nulls_last() if down else column_of(n).asc_nulls_first() for n, down in node.by]
    rows = rows.orderBy(*keys) if keys else rows
    rows = rows.offset(node.offset) if node.offset else rows
    return rows.limit(node.limit) if node.limit is not None else rows


def column_of(name: str) -> Column:
    """Return a column by its name, whatever letters it has."""
    return F.col(_quoted(name))


def named(name: str, shown: str, *, cast: str | None = None) -> str:
    """Return the text of a column under another name, cast to a type of Spark if one is given."""
    value = _quoted(name) if cast is None else f"CAST({_quoted(name)} AS {cast})"
    return f"{value} AS {_quoted(shown)}"


def _quoted(name: str) -> str:
    return identifier(name).sql(dialect="spark")


def _equal(key: str, *, is_null_safe: bool) -> str:
    return f"l.{_quoted(key)} {'<=>' if is_null_safe else '='} r.{_quoted(key)}"
